"""Requests: the checked parameters of flows, and the project file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .algorithm_options import BYTE_BPE as BYTE_BPE
    from .algorithm_options import CHARACTER_BPE as CHARACTER_BPE
    from .algorithm_options import CHOICES as CHOICES
    from .algorithm_options import ENCODINGS as ENCODINGS
    from .algorithm_options import OPTIONS as OPTIONS
    from .algorithm_options import PARTS as PARTS
    from .algorithm_options import PLAIN as PLAIN
    from .algorithm_options import SCORES as SCORES
    from .algorithm_options import SUPERBPE as SUPERBPE
    from .algorithm_options import VARIANTS as VARIANTS
    from .algorithm_options import WORD_SENTENCES as WORD_SENTENCES
    from .algorithm_options import check_options as check_options
    from .algorithm_options import choices_of as choices_of
    from .algorithm_options import transition_size as transition_size
    from .algorithm_options import typed as typed
    from .baselines import ORDINARY as ORDINARY
    from .baselines import PRESENT as PRESENT
    from .baselines import UNRESTRICTED as UNRESTRICTED
    from .baselines import WORDS_ALONE as WORDS_ALONE
    from .baselines import load_baselines as load_baselines
    from .corpus_files import DEMO as DEMO
    from .corpus_files import DEMO_HELD_OUT as DEMO_HELD_OUT
    from .corpus_files import DEMO_NAME as DEMO_NAME
    from .corpus_files import DEMO_VOCAB_SIZE as DEMO_VOCAB_SIZE
    from .corpus_files import EVALUATION as EVALUATION
    from .corpus_files import corpus_sources as corpus_sources
    from .corpus_files import demo_place as demo_place
    from .corpus_files import evaluation_sources as evaluation_sources
    from .corpus_files import is_named as is_named
    from .corpus_files import is_version as is_version
    from .corpus_files import with_demo as with_demo
    from .corpus_files import with_weights as with_weights
    from .derived_requests import DerivedRequest as DerivedRequest
    from .derived_requests import ExtensionRequest as ExtensionRequest
    from .derived_requests import PruneRequest as PruneRequest
    from .derived_requests import RenameRequest as RenameRequest
    from .derived_requests import SuperwordsRequest as SuperwordsRequest
    from .flow_requests import DatasetRequest as DatasetRequest
    from .flow_requests import DriftRequest as DriftRequest
    from .flow_requests import GarbageRequest as GarbageRequest
    from .flow_requests import RecertifyRequest as RecertifyRequest
    from .import_request import ImportRequest as ImportRequest
    from .new_project import FoundSource as FoundSource
    from .new_project import advised_share as advised_share
    from .new_project import project_text as project_text
    from .new_project import sources_beside as sources_beside
    from .project import PROJECT_FILE as PROJECT_FILE
    from .project import Project as Project
    from .project import find_project as find_project
    from .project import read_project as read_project
    from .project import this_project as this_project
    from .request import Maybe as Maybe
    from .request import Request as Request
    from .request import as_markdown as as_markdown
    from .request import request_parameters as request_parameters
    from .request import type_of as type_of
    from .source_spelling import NamedSource as NamedSource
    from .source_spelling import decimal as decimal
    from .source_spelling import files_of_each as files_of_each
    from .source_spelling import is_file as is_file
    from .training_request import AUTO as AUTO
    from .training_request import LARGEST_VOCAB as LARGEST_VOCAB
    from .training_request import OF_PARITY as OF_PARITY
    from .training_request import SMALLEST_SIZE as SMALLEST_SIZE
    from .training_request import USUAL_VOCAB as USUAL_VOCAB
    from .training_request import TrainingRequest as TrainingRequest
    from .training_request import usable_cores as usable_cores
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
