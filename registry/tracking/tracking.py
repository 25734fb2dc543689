"""Everything bpeline says to MLflow, as one object; knows no workspace and no catalogue."""

from __future__ import annotations

from bpeline.registry.tracking.mlflow_removal import MlflowRemoval
from bpeline.registry.tracking.tracked import TrackingSettings as TrackingSettings


class MlflowTracker(MlflowRemoval):
    """Experiments, runs and the model registry of one MLflow.

    All methods raise RegistryUnreachable when MLflow does not answer within the settings' limits,
    and RegistryError when it refuses.
    """
