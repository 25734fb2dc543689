"""Evaluation of new and registered versions, of their sizes and of their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import setup as setup
    from .evaluated import HELD_OUT as HELD_OUT
    from .evaluated import TRAINING as TRAINING
    from .evaluated import Evaluated as Evaluated
    from .metrics import curves_of as curves_of
    from .metrics import draw_figures as draw_figures
    from .metrics import metrics_of as metrics_of
    from .new_versions import evaluate as evaluate
    from .new_versions import evaluate_imported as evaluate_imported
    from .registered_versions import cheapest_size_of as cheapest_size_of
    from .registered_versions import chosen_size as chosen_size
    from .registered_versions import compare_on as compare_on
    from .registered_versions import evaluate_registered as evaluate_registered
    from .registered_versions import list_sets as list_sets
    from .registered_versions import robustness as robustness
    from .registered_versions import serving_costs as serving_costs
    from .registered_versions import set_from as set_from
    from .registered_versions import with_morphology as with_morphology
    from .registered_versions import with_serving_cost as with_serving_cost
    from .screening import ScreenedTokens as ScreenedTokens
    from .screening import screen_tokens as screen_tokens
    from .screening import with_forbidden_tokens as with_forbidden_tokens
    from .setup import EvaluationSetup as EvaluationSetup
    from .setup import left_out_for as left_out_for
    from .setup import set_up_evaluation as set_up_evaluation
    from .size_choice import SizeChoice as SizeChoice
    from .size_choice import Sized as Sized
    from .size_choice import choose_size as choose_size
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
