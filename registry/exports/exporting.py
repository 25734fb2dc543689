"""Exporting: a version in another tool's format, compared there, and written if it is exact.

Knows the order; the formats are the core's, the comparison is in `registry.certify`.
"""

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

CHAT_TEMPLATE = "chat_template.jinja"  # which readers take before tokenizer_config.json
CERTIFICATES = "certificates"  # the folder of a run's artifacts

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Export:
    """What was written.

    Attributes:
        path: the file or directory; its certificate lies beside it.
        certificate: what is known of it.
        left_out: what its reader must be told, by its name there.
        remark: what people should know beside the certificate; may be empty.
        roles: what its special tokens are for, declared or by their names.
    """

    path: Path
    certificate: Certificate
    left_out: dict[str, Any]
    remark: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        told = {
            name: value if isinstance(value, str | list | dict) else str(value)
            for name, value in self.left_out.items()
        }
        return {
            "path": str(self.path),
            "certificate": asdict(self.certificate),
            "not_in_it": told,
            "remark": self.remark,
            "roles": dict(self.roles),
        }


def export(
    reference: str | Path,
    path: Path | str,
    format: Format,
    workspace: Workspace | Path | str | None = None,
) -> Path:
    """Write a version in another format; see :func:`export_version`, which tells more.

    Returns:
        ``path``.
    """
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
    """Write a version in another format, once its own program is seen to read it exactly.

    Beside ``path`` lies ``path.certificate.json``; the workspace keeps one with the version. Where
    the program is not installed, both say that nothing was checked.

    Args:
        reference: as for :func:`registry.load_tokenizer`.
        path: the file or directory to write.
        format: one of `tokenizer_core.formats.FORMATS`.
        workspace: see :func:`registry.load_tokenizer`.
        texts: to compare on, besides words of the corpus and texts made to tempt.
        chat_template: Jinja, for the format ``transformers``; that of an imported version's files
            when empty.
        roles: ``ROLE=TOKEN``, over what the version declares; see `declared_roles`.

    Raises:
        InvalidOption: an unknown format, a directory where a file is to be written, or a chat
            template or a role that is none or that the format has no place for.
        InvalidSpecialToken: a role of what is no special token.
        InvalidTokenizer: the format cannot hold this tokenizer exactly; nothing was written.
    """
    checks.location("reference", reference)
    checks.location("path", path)
    checks.text("chat_template", chat_template)
    texts, roles = checks.texts("texts", texts), checks.texts("roles", roles)
    target, named = Path(path), format_named(format)
    tokenizer = load_tokenizer(reference, workspace)
    kept = _kept_files(reference, workspace, tokenizer)
    chat_template = _chat_template(chat_template, format, reference, workspace, kept)
    samples = golden_texts(kept) if kept else []
    declared = _declared(roles, format, reference, workspace, tokenizer)
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        made = Path(aside) / (target.name or "tokenizer")
        save_with_roles(format, tokenizer, made, declared)  # what is lost stands in `left_out`
        if chat_template:
            named.add_chat_template(made, chat_template)
        if target.exists() and made.is_dir() != target.is_dir():
            raise InvalidOption(
                f"{target} is there already and is {'a' if target.is_dir() else 'no'} directory",
                f"the format {format} is {'a directory' if made.is_dir() else 'one file'}",
                f"choose another --output, such as {target / made.name}",
            )
        certificate = certify(tokenizer, format, made, [*samples, *texts])
        certificate.require_equal()
        for file in sorted(made.iterdir(), key=_manifest_last) if made.is_dir() else [made]:
            place = target / file.name if made.is_dir() else target
            DURABLE.write(place, read_file(file))
    content = certificate.as_json()
    DURABLE.write(target.absolute().with_name(f"{target.absolute().name}{SUFFIX}"), content)
    remark = ""
    if kept:
        with suppress(OSError, StorageError):  # a workspace that can only be read
            remark = _keep_certificate(
                reference, workspace, certificate_path(kept, format), content
            )
    if format == "transformers" and not chat_template and (target / CHAT_TEMPLATE).exists():
        stays = f"{target / CHAT_TEMPLATE} was there before, is not of this export, and stays"
        remark = "; ".join(filter(None, (remark, stays)))
    held = {}
    if format in FORMATS_WITH_ROLES:
        specials = tokenizer.special_tokens
        remark = "; ".join(filter(None, (remark, undeclared_roles(format, specials, declared))))
        held = {**roles_of(specials, declared), **declared}
    return Export(target, certificate, named.left_out(tokenizer), remark, held)


def _declared(
    given: Iterable[str],
    format: str,
    reference: str | Path,
    workspace: Workspace | Path | str | None,
    tokenizer: Tokenizer,
) -> dict[str, str]:
    """The roles that the version declares, and over them those given."""
    specials = tokenizer.special_tokens
    roles = declared_roles(given, specials)
    if format not in FORMATS_WITH_ROLES:
        if roles:
            raise InvalidOption(
                f"the format {format} has no place for the roles of special tokens",
                f"the formats {', '.join(FORMATS_WITH_ROLES)} have",
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
    """The template to write, if any."""
    if format != "transformers":
        if given:
            raise InvalidOption(
                f"the format {format} has no place for a chat template",
                "the format transformers has",
                "choose --format transformers, or leave --chat-template out",
            )
        return ""
    if given:
        require_template(given)
        return given
    if kept is None:
        return ""
    # A trained version shares its files with an import of the same digest, not its template.
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parse_registered(str(split_size(reference)[0])))
    imported = Lineage.of(registry, version).imported
    return "" if imported is None else chat_template_of(imported, kept)


def _keep_certificate(
    reference: str | Path, workspace: Workspace | Path | str | None, path: Path, content: bytes
) -> str:
    """Keep a certificate with its version and, once, with its run in MLflow; a remark if not."""
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
    """The directory of the version in the workspace; None for a path or a smaller size of it."""
    if isinstance(parse_reference(split_size(reference)[0]), ByPath):
        return None
    kept = locate(workspace, make=False).workspace
    return (
        kept.version_directory(tokenizer.digest) if holds_version(kept, tokenizer.digest) else None
    )


def _manifest_last(path: Path) -> tuple[bool, str]:
    return path.name == "manifest.json", path.name
