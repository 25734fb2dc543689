"""The steps of a training, one file each, and what a run of them is."""
