"""Everything that intentmem raises on purpose.

::

    IntentMemError
    ├── InputError            the caller's mistake; names the field and the remedy; nothing was stored
    │   ├── UnknownNamespaceError
    │   └── NotFoundError
    ├── StoreError            the file or its disk: read-only, full, of a newer version, not a memory
    │   ├── CorruptIndexError a vector index that does not match SQLite (rebuilt automatically where possible)
    │   └── BusyError         another process held the file for longer than the time-out
    ├── EmbedderError         the encoder failed or returned vectors of the wrong shape
    │   └── EmbedderMismatchError   stored vectors come from another encoder: run `reembed`
    ├── DecisionError         a decider returned something outside its task's label space
    ├── ArtifactError         a trained student cannot be used: incomplete, altered, or of another base or task
    ├── ModelError            a served model gave nothing usable
    │   ├── ModelUnavailableError   no connection, overloaded, or failing on its side (5xx): trying later may help
    │   ├── ModelTimeoutError       no reply within the time-out of the operation
    │   ├── ModelRefusedError       it refuses the request as it stands (4xx): trying again would not help
    │   │   └── ModelContextError   the prompt is too long for the model, and nothing is left to shorten
    │   ├── ModelOutputError        every reply was unusable; carries the beginning of the last one
    │   └── BudgetExceededError     background work has used its tokens, or was stopped
    └── MissingExtraError     an optional dependency is absent; carries the exact install line
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata


class IntentMemError(Exception):
    """Base of every error that intentmem raises on purpose."""


class InputError(IntentMemError, ValueError):
    """An argument is unusable. Nothing was stored.

    `field` is the argument's name as the caller knows it, for example ``messages[3].time``.
    """

    def __init__(self, field: str, problem: str, remedy: str = "") -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem}" + (f" ({remedy})" if remedy else ""))


class UnknownNamespaceError(InputError):
    """A read, or a strict write, names a namespace that does not exist."""

    def __init__(self, namespace: str) -> None:
        # The others are not named: the caller may be one tenant of many.
        super().__init__("namespace", f"{namespace!r} does not exist", "add() creates one; namespaces() lists them")


class NotFoundError(InputError):
    """An id that is not in the namespace."""


class StoreError(IntentMemError):
    """The memory file cannot be used as asked."""


class CorruptIndexError(StoreError):
    """A vector index on disk does not match its checksum or SQLite."""


class BusyError(StoreError):
    """Another process held the memory file for longer than the configured time-out."""


class EmbedderError(IntentMemError):
    """The encoder failed, or returned vectors of the wrong shape."""


class EmbedderMismatchError(EmbedderError):
    """Stored vectors and the configured encoder do not belong together."""

    def __init__(self, stored: str, configured: str) -> None:
        self.stored = stored
        self.configured = configured
        super().__init__(
            f"the stored vectors were made by {stored}, the configured embedder is {configured}; searching one "
            "with the other would return noise. Configure the former embedder again, or run `intentmem reembed` "
            "(it can be interrupted and resumed; the old vectors stay until it has finished)"
        )


class DecisionError(IntentMemError):
    """A decider returned something outside the label space of its task."""


class ArtifactError(IntentMemError):
    """A trained student cannot be used as it is. `field` is what is wrong with it, for example ``manifest.base``."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem} ({remedy})")


class ModelError(IntentMemError):
    """A served model gave nothing usable. `model` is its name as the server knows it."""

    def __init__(self, model: str, problem: str) -> None:
        self.model = model
        self.problem = problem
        super().__init__(f"model {model!r}: {problem}")


class ModelUnavailableError(ModelError):
    """The server cannot be reached, is overloaded or fails. `retry_after`: seconds that it asks to wait, if any."""

    def __init__(self, model: str, problem: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(model, problem)


class ModelTimeoutError(ModelError):
    """No complete reply within the time-out. `setting` names what to raise."""

    def __init__(self, model: str, setting: str, seconds: float) -> None:
        self.setting = setting
        self.seconds = seconds
        super().__init__(model, f"no complete reply within {seconds:g} s ({setting})")


class ModelRefusedError(ModelError):
    """The server refuses the request as it stands: unknown model, wrong key, prompt too long."""

    def __init__(self, model: str, status: int, detail: str) -> None:
        self.status = status
        self.detail = detail
        super().__init__(model, f"the server refuses the request ({status}): {detail}")


class ModelContextError(ModelRefusedError):
    """The prompt is longer than the model's context, also without all that could be left out of it."""

    def __init__(self, model: str, status: int, detail: str) -> None:
        super().__init__(
            model,
            status,
            f"{detail} (nothing is left to shorten: serve the model with a longer context, server.context_tokens, or "
            "set llm.context_tokens to what it has; for an answer, a smaller read.budget will do)",
        )


class ModelOutputError(ModelError):
    """Every reply was unusable. `raw` is the beginning of the last one, at most 200 characters."""

    def __init__(self, model: str, problem: str, raw: str) -> None:
        self.raw = raw[:200]
        super().__init__(model, f"{problem}; the reply began with {self.raw!r}" if raw else problem)


class BudgetExceededError(ModelError):
    """Background work has used its tokens or was stopped; foreground work goes on."""


class MissingExtraError(IntentMemError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.extra = extra
        known = _declared_extras()
        assert not known or extra in known, f"the extra {extra!r} is not declared by the distribution"
        super().__init__(f'{package} is not installed: pip install "intentmem[{extra}]"')


def _declared_extras() -> list[str]:
    """Extras as the installed metadata declares them, so that a message cannot name one that is gone."""
    try:
        return metadata("intentmem").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
