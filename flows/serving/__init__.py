"""Servers on this machine: Prefect, a worker, the MLflow UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import local_server as local_server
    from . import run_names as run_names
    from .forms import shown_like as shown_like
    from .local_server import serve as serve
    from .local_server import serve_ui as serve_ui
    from .patience import patiently as patiently
    from .patience import require_nobody_trains as require_nobody_trains
    from .patience import require_own_mlflow as require_own_mlflow
    from .prefect_listener import PrefectListener as PrefectListener
    from .prefect_listener import run_tags as run_tags
    from .prefect_listener import runs_unattended as runs_unattended
    from .services import answers as answers
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
