"""What is remembered, under which name: versions of tokenizers, their files, lineage and metrics.

The public interface; everything is imported when it is first asked for, because MLflow, DuckDB and
SQLAlchemy take seconds to import and most commands need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.aliases import alias_history as alias_history
    from registry.aliases import promote as promote
    from registry.aliases import rollback as rollback
    from registry.comparison import compare_versions as compare_versions
    from registry.environment import configure as configure
    from registry.exports.exporting import export as export
    from registry.exports.exporting import export_version as export_version
    from registry.loading.load import load_tokenizer as load_tokenizer
    from registry.opening import Registry as Registry
    from registry.opening import open_registry as open_registry
    from registry.publishing.publication import (
        CorpusInput as CorpusInput,
    )
    from registry.publishing.publication import (
        Publication as Publication,
    )
    from registry.publishing.publication import (
        PublishedVersion as PublishedVersion,
    )
    from registry.publishing.publish import (
        publish_outbox as publish_outbox,
    )
    from registry.publishing.publish import (
        publish_version as publish_version,
    )
    from registry.versions import (
        list_versions as list_versions,
    )

_HOMES = {
    "load_tokenizer": "registry.loading.load",
    "list_versions": "registry.versions",
    "compare_versions": "registry.comparison",
    "promote": "registry.aliases",
    "rollback": "registry.aliases",
    "alias_history": "registry.aliases",
    "export": "registry.exports.exporting",
    "export_version": "registry.exports.exporting",
    "configure": "registry.environment",
    "open_registry": "registry.opening",
    "Registry": "registry.opening",
    "publish_version": "registry.publishing.publish",
    "publish_outbox": "registry.publishing.publish",
    "Publication": "registry.publishing.publication",
    "PublishedVersion": "registry.publishing.publication",
    "CorpusInput": "registry.publishing.publication",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'registry' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
