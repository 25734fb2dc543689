"""Everything said to MLflow, and the one file that imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import mlflow_server as mlflow_server
    from . import ui_links as ui_links
    from .beside import mlflow_beside as mlflow_beside
    from .bounded_http import answers as answers
    from .mlflow_database import DatabaseState as DatabaseState
    from .mlflow_database import database_of as database_of
    from .mlflow_database import is_complete as is_complete
    from .mlflow_database import look_at as look_at
    from .mlflow_drift import DRIFTED as DRIFTED
    from .mlflow_drift import DRIFTED_VALUES as DRIFTED_VALUES
    from .mlflow_removal import Traces as Traces
    from .tracked import StartedRun as StartedRun
    from .tracked import Tombstone as Tombstone
    from .tracked import TrackedRun as TrackedRun
    from .tracked import TrackedVersion as TrackedVersion
    from .tracked import TrackingSettings as TrackingSettings
    from .tracked import UnendedRun as UnendedRun
    from .tracker_beside import tracker_of as tracker_of
    from .tracking import MlflowTracker as MlflowTracker
    from .ui_links import is_server as is_server
    from .ui_links import model_link as model_link
    from .ui_links import run_link as run_link
    from .ui_links import ui_base as ui_base
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
