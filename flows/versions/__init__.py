"""Registered versions: details, reports, and pushing to the Hugging Face Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .details import version_details as version_details
    from .hub import push_version as push_version
    from .hub import write_hub_folder as write_hub_folder
    from .origin import TokenOrigin as TokenOrigin
    from .origin import token_origin as token_origin
    from .report_writer import write_report as write_report
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
