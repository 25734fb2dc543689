"""Everything said to MLflow, and the one file that imports it."""
