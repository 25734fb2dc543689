"""The workspace directory: paths, lock, processes, servers and the shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import lock as lock
    from .processes import Process as Process
    from .processes import descendants_of as descendants_of
    from .processes import process_of as process_of
    from .processes import this_process as this_process
    from .sealed_records import damaged as damaged
    from .sealed_records import read_record as read_record
    from .sealed_records import write_record as write_record
    from .servers import make_server_secret as make_server_secret
    from .servers import read_server_secret as read_server_secret
    from .servers import served_prefect as served_prefect
    from .servers import served_ui_port as served_ui_port
    from .servers import serving_prefect as serving_prefect
    from .servers import serving_ui as serving_ui
    from .servers import ui_port as ui_port
    from .shared_copies import fetch as fetch
    from .shared_copies import fetch_all as fetch_all
    from .shared_copies import fetch_below as fetch_below
    from .shared_copies import fetch_directory as fetch_directory
    from .shared_copies import forget as forget
    from .shared_copies import forget_directory as forget_directory
    from .shared_copies import names_in_store as names_in_store
    from .shared_copies import share as share
    from .shared_copies import share_directory as share_directory
    from .shared_copies import share_grown as share_grown
    from .shared_copies import sharing as sharing
    from .shared_copies import try_store as try_store
    from .shared_copies import writing_shared as writing_shared
    from .standard_input import begin_standard_input as begin_standard_input
    from .standard_input import copy_standard_input as copy_standard_input
    from .standard_input import keep_standard_input as keep_standard_input
    from .store_records import known_store as known_store
    from .store_records import known_stores as known_stores
    from .store_records import remember_place as remember_place
    from .store_records import remember_store as remember_store
    from .workspace import Workspace as Workspace
    from .workspace import workspace_root as workspace_root
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
