"""The origin of a version: its training request, word counts and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bpeline.registry.catalogue import as_asked
from bpeline.registry.evaluation_sets import read_set
from bpeline.registry.loading import holds_version
from bpeline.registry.records import DevelopmentText, development_of
from bpeline.registry.versions.imported import Imported, imported_in, roles_declared_by
from bpeline.registry.word_counts import ShardFiles, TableHandle, WordCountStore
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile, RegistryError
from bpeline.tokenizer_core.formats import declared_roles

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Version
    from bpeline.registry.loading import ResolvedVersion
    from bpeline.registry.opening import Registry
    from bpeline.tokenizer_core.corpus import DecontaminationSet
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.tokenizer import Tokenizer

# Members of a version's provenance: renamings of special tokens, and the decontamination rule.
RENAMED, RULE = "renamed", "left_out_rule"


@dataclass(frozen=True, slots=True)
class Lineage:
    """The known origin of a version.

    Attributes:
        row: the catalogue's row; None if the version was only found by its digest.
        table: the word counts it was trained on; None if they are gone.
        shards: keys of the counts of its chunks; empty if ``table`` is None.
    """

    registry: Registry
    version: ResolvedVersion
    row: Version | None
    table: TableHandle | None
    shards: tuple[str, ...]

    @classmethod
    def of(cls, registry: Registry, version: ResolvedVersion) -> Lineage:
        """Look up the origin of a version; missing parts are None or empty."""
        row = registry.catalogue.find_version(version.name, version.digest)
        tables = registry.catalogue.count_tables(row.counts_digest) if row else []
        store = WordCountStore(registry.workspace)
        table = store.table(tables[0].key) if tables else None
        try:
            shards = store.shards_of(table.key) if table is not None else ()
        except CorruptFile:  # removed, or made in another workspace
            table, shards = None, ()
        return cls(registry, version, row, table, shards)

    @property
    def words(self) -> WordCounts | None:
        """The word counts; None if they are gone or damaged."""
        if self.table is None:
            return None
        try:
            return WordCountStore(self.registry.workspace).open_table(self.table)
        except CorruptFile:
            return None

    @property
    def shards_kept(self) -> tuple[str, ...]:
        """The shards; empty if any of them is gone, since a part would mislead."""
        files = ShardFiles(self.registry.workspace)
        return self.shards if all(map(files.is_there, self.shards)) else ()

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The provenance in the version's manifest; empty if its files are not here."""
        from bpeline.tokenizer_core.formats import bpeline

        workspace = self.registry.workspace
        if not holds_version(workspace, self.version.digest):
            return {}
        directory = workspace.version_directory(self.version.digest)
        provenance: Mapping[str, Any] = bpeline.read_manifest(directory)["provenance"]
        return provenance

    @property
    def request(self) -> dict[str, Any]:
        """The training request that reproduces the tokenizer; empty for imported versions.

        If training chose the vocab size, the request has the chosen size.
        """
        config = self._config
        if "file" in config:  # an import's
            return {}
        if config and self.row is not None:
            choosing = ("largest_size", "model_shape")
            if config.get(choosing[0]) is None:
                return config
            rest = {key: value for key, value in config.items() if key not in choosing}
            return {**rest, "vocab_size": self.row.vocab_size}
        try:
            return as_asked(self.provenance.get("request") or {})
        except BpelineError:
            return {}

    @property
    def renamings(self) -> tuple[Mapping[str, str], ...]:
        """The renamings of special tokens since training, in order: old → new."""
        return tuple(self.provenance.get(RENAMED, ()))

    def as_renamed(self, tokenizer: Tokenizer) -> Tokenizer:
        """Apply the renamings of the version to a reproduced tokenizer."""
        from bpeline.tokenizer_core.derived import rename_special_tokens

        for names in self.renamings:
            tokenizer = rename_special_tokens(tokenizer, names)
        return tokenizer

    @property
    def roles(self) -> dict[str, str]:
        """Role → special token, under the current names."""
        config = self._config
        if not config:  # made in another workspace, or renamed
            config = {**self.provenance, **(self.provenance.get("request") or {})}
        directory = self.registry.workspace.version_directory(self.version.digest)
        imported = self.imported
        original = {} if imported is None else roles_declared_by(imported, directory)
        roles = {**original, **declared_roles(config.get("roles", ()))}
        for names in self.renamings:
            roles = {role: names.get(token, token) for role, token in roles.items()}
        return roles

    @property
    def imported(self) -> Imported | None:
        """The import record; None for trained versions."""
        if self._config and "file" not in self._config:
            return None
        return imported_in(self.registry.workspace.version_directory(self.version.digest))

    @property
    def _config(self) -> dict[str, Any]:
        """The options of the run that made it; empty if the run is not known here."""
        if self.row is None or not self.row.run_id:
            return {}
        try:
            return dict(self.registry.catalogue.run(self.row.run_id).config)
        except RegistryError:  # made in another workspace
            return {}

    @property
    def development(self) -> tuple[DevelopmentText, ...]:
        """The development texts of its training; empty if there were none."""
        return development_of(self.provenance)

    @property
    def left_out(self) -> DecontaminationSet | None:
        """The evaluation text that was removed from its training corpus."""
        digest = self.provenance.get("left_out", "")
        if not digest:
            return None
        left_out = read_set(self.registry.workspace, digest).left_out
        return replace(left_out, rule=self.left_out_rule)

    @property
    def left_out_rule(self) -> int:
        """The decontamination rule of its training."""
        from bpeline.tokenizer_core.corpus import LEFT_OUT_RULE, SECTIONS_RULE

        usual = SECTIONS_RULE if "request" in self.provenance else LEFT_OUT_RULE
        return int(self.provenance.get(RULE, usual))
