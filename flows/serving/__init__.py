"""Servers on this machine: Prefect, a worker, the MLflow UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import local_server as local_server
    from . import run_names as run_names
    from .flow_runs import RETRIES as RETRIES
    from .flow_runs import find_version as find_version
    from .flow_runs import flow as flow
    from .flow_runs import recorded as recorded
    from .flow_runs import task as task
    from .local_server import serve as serve
    from .local_server import serve_ui as serve_ui
    from .services import answers as answers
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
