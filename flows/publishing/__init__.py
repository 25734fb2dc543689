"""Summarizing, registering and promoting results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .promotion import Promotion as Promotion
    from .promotion import promote as promote
    from .promotion import promote_if_better as promote_if_better
    from .promotion import remarks_on as remarks_on
    from .promotion import rollback as rollback
    from .promotion import state_of as state_of
    from .publications import NewVersion as NewVersion
    from .publications import corpus_inputs as corpus_inputs
    from .publications import evaluation_inputs as evaluation_inputs
    from .publications import extension_of as extension_of
    from .publications import installed_version as installed_version
    from .publications import made_with as made_with
    from .publications import publication_of as publication_of
    from .publications import publish as publish
    from .publications import register as register
    from .publications import report_contents as report_contents
    from .summarizing import Trained as Trained
    from .summarizing import summarize as summarize
    from .summary import Summary as Summary
    from .summary import TrainingSummary as TrainingSummary
    from .summary import logged_change as logged_change
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
