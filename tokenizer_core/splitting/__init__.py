"""Split patterns, and every way of running them: kernels, the `regex` package, segmenters."""
