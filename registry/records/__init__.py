"""Values for MLflow and the catalogue: publications, runs, drift observations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .development_text import DevelopmentText as DevelopmentText
    from .development_text import changed_development as changed_development
    from .development_text import development_of as development_of
    from .mlflow_records import STUCK as STUCK
    from .mlflow_records import DriftObservation as DriftObservation
    from .mlflow_records import PastObservation as PastObservation
    from .mlflow_records import Refusal as Refusal
    from .mlflow_records import RunRecord as RunRecord
    from .mlflow_records import Tombstone as Tombstone
    from .mlflow_records import refusals_in as refusals_in
    from .publication import CURVE_METRIC as CURVE_METRIC
    from .publication import LIBRARY as LIBRARY
    from .publication import MEASURED_ON as MEASURED_ON
    from .publication import SUSPICIOUS_METRIC as SUSPICIOUS_METRIC
    from .publication import CorpusInput as CorpusInput
    from .publication import Publication as Publication
    from .publication import PublishedVersion as PublishedVersion
    from .publication import as_text as as_text
    from .references import CANDIDATE as CANDIDATE
    from .references import CHAMPION as CHAMPION
    from .references import ByAlias as ByAlias
    from .references import ByDigest as ByDigest
    from .references import ByNumber as ByNumber
    from .references import ByPath as ByPath
    from .references import Reference as Reference
    from .references import is_name as is_name
    from .references import parse_reference as parse_reference
    from .references import parse_registered as parse_registered
    from .references import split_size as split_size
    from .references import validate_alias as validate_alias
    from .references import validate_name as validate_name
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
