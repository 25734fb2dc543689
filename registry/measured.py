"""What was measured of a version when it was trained: from the catalogue, else from MLflow."""

from __future__ import annotations

from registry.catalogue_records import last_values
from registry.opening import Registry
from registry.resolution import ResolvedVersion


def metrics_of(registry: Registry, version: ResolvedVersion) -> dict[str, float]:
    """Every metric of a version; of a curve its last point.

    Raises:
        RegistryUnreachable: only MLflow knows them, and it does not answer.
    """
    row = registry.catalogue.find_version(version.name, version.digest)
    known = registry.catalogue.metrics(row.name, row.number) if row else []
    if known or not version.mlflow_run_id:
        return last_values(known)
    return registry.tracker.metrics_of(version.mlflow_run_id)
