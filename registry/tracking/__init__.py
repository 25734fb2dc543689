"""Client for MLflow: runs, stored models, registered versions and aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import mlflow_server as mlflow_server
    from . import server_alias as server_alias
    from .descriptions import STEP_IS_IDS as STEP_IS_IDS
    from .mlflow_database import OUT_OF_DATE as OUT_OF_DATE
    from .mlflow_database import database_of as database_of
    from .mlflow_database import is_there as is_there
    from .mlflow_models import Traces as Traces
    from .mlflow_runs import DRIFTED as DRIFTED
    from .mlflow_runs import DRIFTED_VALUES as DRIFTED_VALUES
    from .tracked import TrackedVersion as TrackedVersion
    from .tracked import TrackingSettings as TrackingSettings
    from .tracked import Unended as Unended
    from .tracked import is_server as is_server
    from .tracked import model_link as model_link
    from .tracked import run_link as run_link
    from .tracked import shown_set as shown_set
    from .tracker import MlflowTracker as MlflowTracker
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
