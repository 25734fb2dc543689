"""Everything bpeline says to MLflow, as one object; knows no workspace and no catalogue."""

from __future__ import annotations

from pathlib import Path

from bpeline.registry.tracking.mlflow_removal import MlflowRemoval
from bpeline.registry.tracking.tracked import TrackingSettings as TrackingSettings


class MlflowTracker(MlflowRemoval):
    """Experiments, runs and the model registry of one MLflow.

    All methods raise RegistryUnreachable when MLflow does not answer within the settings' limits,
    and RegistryError when it refuses.
    """

    def show_name_page(self, name: str, mlflow_run_id: str, page: Path, measured_on: str) -> str:
        """Keep the page of a name with the run of a version, and link it from the name's own.

        Args:
            mlflow_run_id: of the latest version.
            page: an HTML file; one of the same name is replaced.
            measured_on: as of `describe_name`; empty for a name without a set, which is not
                described.

        Returns:
            The page's address.
        """
        self.add_files(mlflow_run_id, [page], page.stem)
        place = self.artifact_page(mlflow_run_id, f"{page.stem}/{page.name}")
        if measured_on:
            self.describe_name(name, measured_on, place)
        return f"{self.settings.ui}/{place}"
