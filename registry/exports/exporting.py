"""Export a version to another tool's format and certify it with that tool."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.certify import SUFFIX, Certificate, certify, require_template
from bpeline.registry.loading import (
    certificate_path,
    golden_texts,
    holds_version,
    load_tokenizer,
    resolve,
)
from bpeline.registry.opening import locate, open_registry
from bpeline.registry.records import ByPath, parse_reference, parse_registered, split_size
from bpeline.registry.versions import Lineage, chat_template_of
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, RegistryError, StorageError
from bpeline.tokenizer_core.formats import (
    FORMATS_WITH_ROLES,
    declared_roles,
    format_named,
    roles_of,
    save_with_roles,
    undeclared_roles,
)
from bpeline.tokenizer_core.tokenizer import Format, Tokenizer

CHAT_TEMPLATE = "chat_template.jinja"  # overrides tokenizer_config.json
CERTIFICATES = "certificates"  # artifact folder of a run

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Export:
    """A written export.

    Attributes:
        path: the file or directory; the certificate is beside it.
        left_out: settings that the reader needs and the format cannot hold, by their names there.
        remark: a note for the user; may be empty.
        roles: of its special tokens, declared or inferred from their names.
    """

    path: Path
    certificate: Certificate
    left_out: dict[str, Any]
    remark: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        settings = {
            name: value if isinstance(value, str | list | dict) else str(value)
            for name, value in self.left_out.items()
        }
        return {
            "path": str(self.path),
            "certificate": asdict(self.certificate),
            "not_in_it": settings,
            "remark": self.remark,
            "roles": dict(self.roles),
        }


def export(
    reference: str | Path,
    path: Path | str,
    format: Format,
    workspace: Workspace | Path | str | None = None,
) -> Path:
    """Write a version in another format; see :func:`export_version`."""
    return export_version(reference, path, format, workspace).path


def export_version(
    reference: str | Path,
    path: Path | str,
    format: Format,
    workspace: Workspace | Path | str | None = None,
    texts: Iterable[str] = (),
    chat_template: str = "",
    roles: Iterable[str] = (),
) -> Export:
    """Write a version in another format after its own program has read it exactly.

    The certificate is written to ``path.certificate.json`` and kept with the version in the
    workspace. If the program is not installed, it says that nothing was checked.

    Args:
        reference: as for :func:`registry.load_tokenizer`.
        path: the file or directory to write.
        format: one of `tokenizer_core.formats.FORMATS`.
        workspace: see :func:`registry.load_tokenizer`.
        texts: more texts to compare on, besides words of the corpus and generated texts.
        chat_template: Jinja, for the format ``transformers``; if empty, that of an imported
            version.
        roles: ``ROLE=TOKEN``; overrides what the version declares; see `declared_roles`.

    Raises:
        InvalidOption: an unknown format, a directory instead of a file, or a chat template or role
            that is not valid or not possible in the format.
        InvalidSpecialToken: a role of a token that is not special.
        InvalidTokenizer: the format cannot hold this tokenizer exactly; nothing was written.
    """
    checks.location("reference", reference)
    checks.location("path", path)
    checks.text("chat_template", chat_template)
    texts, roles = checks.texts("texts", texts), checks.texts("roles", roles)
    target, chosen_format = Path(path), format_named(format)
    tokenizer = load_tokenizer(reference, workspace)
    directory = _kept_files(reference, workspace, tokenizer)
    chat_template = _chat_template(chat_template, format, reference, workspace, directory)
    samples = golden_texts(directory) if directory else []
    declared = _declared(roles, format, reference, workspace, tokenizer)
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        written = Path(aside) / (target.name or "tokenizer")
        save_with_roles(format, tokenizer, written, declared)  # losses are in `left_out`
        if chat_template:
            chosen_format.add_chat_template(written, chat_template)
        if target.exists() and written.is_dir() != target.is_dir():
            raise InvalidOption(
                f"{target} exists and is {'a' if target.is_dir() else 'not a'} directory",
                f"the format {format} is {'a directory' if written.is_dir() else 'one file'}",
                f"choose another --output, such as {target / written.name}",
            )
        certificate = certify(tokenizer, format, written, [*samples, *texts])
        certificate.require_equal()
        for file in (
            sorted(written.iterdir(), key=_manifest_last) if written.is_dir() else [written]
        ):
            place = target / file.name if written.is_dir() else target
            DURABLE.write(place, read_file(file))
    content = certificate.as_json()
    DURABLE.write(target.absolute().with_name(f"{target.absolute().name}{SUFFIX}"), content)
    remark = ""
    if directory:
        with suppress(OSError, StorageError):  # a read-only workspace
            remark = _keep_certificate(
                reference, workspace, certificate_path(directory, format), content
            )
    if format == "transformers" and not chat_template and (target / CHAT_TEMPLATE).exists():
        note = f"{target / CHAT_TEMPLATE} existed before, is not part of this export; kept"
        remark = "; ".join(filter(None, (remark, note)))
    all_roles = {}
    if format in FORMATS_WITH_ROLES:
        specials = tokenizer.special_tokens
        remark = "; ".join(filter(None, (remark, undeclared_roles(format, specials, declared))))
        all_roles = {**roles_of(specials, declared), **declared}
    return Export(target, certificate, chosen_format.left_out(tokenizer), remark, all_roles)


def _declared(
    given: Iterable[str],
    format: str,
    reference: str | Path,
    workspace: Workspace | Path | str | None,
    tokenizer: Tokenizer,
) -> dict[str, str]:
    specials = tokenizer.special_tokens
    roles = declared_roles(given, specials)
    if format not in FORMATS_WITH_ROLES:
        if roles:
            raise InvalidOption(
                f"the format {format} has no place for the roles of special tokens",
                f"expected one of the formats {', '.join(FORMATS_WITH_ROLES)}",
                "choose --format transformers, or leave --role out",
            )
        return {}
    parsed = parse_reference(split_size(reference)[0])
    if isinstance(parsed, ByPath):
        return roles
    registry = open_registry(workspace, make=False)
    return {**Lineage.of(registry, resolve(registry, parsed)).roles, **roles}


def _chat_template(
    given: str,
    format: str,
    reference: str | Path,
    workspace: Workspace | Path | str | None,
    kept: Path | None,
) -> str:
    if format != "transformers":
        if given:
            raise InvalidOption(
                f"the format {format} has no place for a chat template",
                "expected the format transformers",
                "choose --format transformers, or leave --chat-template out",
            )
        return ""
    if given:
        require_template(given)
        return given
    if kept is None:
        return ""
    # Versions of one digest share their files, but a template belongs to an import.
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parse_registered(str(split_size(reference)[0])))
    imported = Lineage.of(registry, version).imported
    return "" if imported is None else chat_template_of(imported, kept)


def _keep_certificate(
    reference: str | Path, workspace: Workspace | Path | str | None, path: Path, content: bytes
) -> str:
    """Keep a certificate with its version and MLflow run; return a remark on failure."""
    if path.exists() and read_file(path) == content:
        return ""
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parse_registered(str(split_size(reference)[0])))
    try:
        if version.mlflow_run_id:
            shown = {f"{CERTIFICATES}/{path.name}": content.decode()}
            registry.tracker.runs.add_files(version.mlflow_run_id, shown)
    except RegistryError as error:  # the next export tries again
        return f"the certificate is not in MLflow: {error.happened}"
    DURABLE.write(path, content)
    return ""


def _kept_files(
    reference: str | Path, workspace: Workspace | Path | str | None, tokenizer: Tokenizer
) -> Path | None:
    """The version's directory in the workspace; None for a path or a smaller size."""
    if isinstance(parse_reference(split_size(reference)[0]), ByPath):
        return None
    local = locate(workspace, make=False).workspace
    return (
        local.version_directory(tokenizer.digest)
        if holds_version(local, tokenizer.digest)
        else None
    )


def _manifest_last(path: Path) -> tuple[bool, str]:
    return path.name == "manifest.json", path.name
