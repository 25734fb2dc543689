"""Servers on this machine: Prefect, a worker, the MLflow UI."""
