"""Everything bpeline says to MLflow, as one object; knows no workspace and no catalogue."""

from __future__ import annotations

from registry.mlflow_models import MlflowModels
from registry.mlflow_runs import MlflowRuns
from registry.tracked import TrackingSettings as TrackingSettings


class MlflowTracker(MlflowRuns, MlflowModels):
    """Experiments, runs and the model registry of one MLflow.

    All methods raise RegistryUnreachable when MLflow does not answer within the settings' limits,
    and RegistryError when it refuses.
    """
