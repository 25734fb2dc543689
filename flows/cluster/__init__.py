"""Work done by a Dask cluster: Dask places it, our own kernels and DuckDB do it."""
