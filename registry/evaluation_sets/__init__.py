"""Evaluation sets: fixed texts of a name, and measurements on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .evaluation_set import BY_TRAINING as BY_TRAINING
    from .evaluation_set import FEWEST_DOCUMENTS as FEWEST_DOCUMENTS
    from .evaluation_set import LEAST_BYTES as LEAST_BYTES
    from .evaluation_set import EvaluationSet as EvaluationSet
    from .evaluation_set import SetText as SetText
    from .evaluation_set import Text as Text
    from .evaluation_set import as_set as as_set
    from .kept_sets import forget_set as forget_set
    from .kept_sets import has_set as has_set
    from .kept_sets import is_of_the_same as is_of_the_same
    from .kept_sets import keep_set as keep_set
    from .kept_sets import read_documents as read_documents
    from .kept_sets import read_set as read_set
    from .measurements import SetMeasurement as SetMeasurement
    from .measurements import changes_from as changes_from
    from .measurements import keep_measurement as keep_measurement
    from .measurements import kept_measurement as kept_measurement
    from .measurements import measured_on as measured_on
    from .measurements import measurements_of as measurements_of
    from .measurements import metrics_on as metrics_on
    from .measurements import parts_of as parts_of
    from .measurements import texts_of as texts_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
