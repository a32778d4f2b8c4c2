"""Settings: frozen values with a known origin each.

Sources, the first that names a value wins: arguments, environment variables (``INTENTMEM_STORE__PATH``), one TOML file
(``INTENTMEM_CONFIG``, else ``./intentmem.toml``, else ``intentmem.toml`` in the user's configuration folder), defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from intentmem.memory.errors import InputError
from intentmem.memory.read.budget import Budget
from intentmem.memory.read.request import Recipe

from .llm.server_settings import ServerSettings
from .llm.settings import LLMSettings, RemoteEmbedderSettings

PREFIX = "INTENTMEM_"
CONFIG_VARIABLE = "INTENTMEM_CONFIG"
CONFIG_NAME = "intentmem.toml"
_READING = Budget()
_SHORT = {"embedder": "profile", "decider": "kind", "writer": "kind"}
"""Groups that may be given as one string, and what it then names."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def _data_folder() -> Path:
    return Path(platformdirs.user_data_dir("intentmem", appauthor=False))


class StoreSettings(_Group):
    """Where memory lies on the disk."""

    path: Path = Field(default_factory=_data_folder, description="folder of the memory")
    busy_seconds: float = Field(default=60.0, gt=0, description="seconds that a write waits for another process")


class EmbedderSettings(RemoteEmbedderSettings):
    """What turns texts into vectors. A plain string is a profile; all but the first three are of the profile remote."""

    profile: str = Field(
        default="embedded",
        min_length=1,
        description='"embedded" (the default), "hash" (no model), "e5-small", "bge-small", "nomic", folder or hub id, '
        '"remote" (served at embedder.base_url)',
    )
    device: str = Field(
        default="auto", description='"cpu", "cuda", "cuda:1", ...; "auto" takes a GPU where there is one'
    )
    dtype: str = Field(
        default="auto", description='"float32", "bfloat16", ...; "auto" takes the fastest that agrees with float32'
    )

    @model_validator(mode="before")
    @classmethod
    def _from_profile(cls, value: object) -> object:
        return {"profile": value} if isinstance(value, str) else value


class DeciderSettings(_Group):
    """What decides. A plain string is a kind."""

    kind: Literal["auto", "student", "baseline", "llm", "cascade"] = Field(
        default="auto",
        description='"student" (trained encoders), "baseline" (rules and similarity), "llm" (the served model), '
        '"cascade" (students, and the served model where they are unsure); "auto" takes students where some fit the '
        "embedder, else the baseline",
    )
    on_bad_output: Literal["fail", "baseline"] = Field(
        default="fail",
        description='what the model could not decide about a turn: "fail" keeps the operation for a retry, "baseline" '
        "lets the rules decide",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_kind(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value


class StudentSettings(_Group):
    """Students in service, and how far they are trusted where a teacher stands behind them."""

    registry: Path = Field(
        default_factory=lambda: _data_folder() / "students", description="folder of promoted students"
    )
    threads: int | None = Field(default=None, ge=1, description="threads of the encoder; unset leaves them to torch")
    agreement: float = Field(
        default=0.95, gt=0, lt=1, description="agreement with the teacher from which a student's answer stands"
    )
    escalations: int | None = Field(
        default=None, ge=0, description="answers that may be asked of the teacher by one process; unset sets no bound"
    )
    audit_rate: float = Field(
        default=0.02, ge=0, le=1, description="share of confident answers that the teacher is asked as well"
    )
    audit_window: int = Field(default=200, ge=30, description="latest audits that agreement is counted over")
    audit_agreement: float = Field(
        default=0.85, gt=0, lt=1, description="agreement in audits below which a student is demoted"
    )


class WriterSettings(_Group):
    """What writes. A plain string is a kind."""

    kind: Literal["extractive", "llm"] = Field(
        default="extractive", description='"extractive" (no model) or "llm" (the served model)'
    )

    @model_validator(mode="before")
    @classmethod
    def _from_kind(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value


class MemorySettings(_Group):
    """How memory is addressed."""

    namespace: str = Field(
        default="default", min_length=1, description="namespace of the command line where none is given"
    )
    strict_namespaces: bool = Field(default=False, description="writing to an unknown namespace is an error")
    records: Literal["auto", "write", "read"] = Field(
        default="auto",
        description="when episodes get their records and links: as they close (write), or when these or states are "
        "first asked for (read); auto: write with a served writer, which reads them anyway",
    )


class ReadSettings(_Group):
    """Defaults of the reading commands, and where the reading of one question ends."""

    limit: int = Field(default=10, ge=1, le=10_000, description="results of a search")
    budget: int | None = Field(default=None, ge=1, description="tokens of a context; unset: what the question needs")
    recipe: Recipe = Field(default=Recipe.FUSED, description="recipe of a search")
    rounds: int = Field(default=_READING.rounds, ge=1, le=32, description="rounds of a question, the first included")
    candidates: int = Field(default=_READING.candidates, ge=1, le=1000, description="turns that all rounds look at")
    tokens: int = Field(default=_READING.tokens, ge=1, description="tokens of these turns, estimated")
    milliseconds: float = Field(default=_READING.milliseconds, ge=0, description="time that later rounds may begin in")
    calls: int = Field(
        default=_READING.calls, ge=1, description="requests to a served model for a question, its plan included"
    )
    reranked: int = Field(
        default=_READING.reranked, ge=0, le=64, description="best turns that are scored for their support; 0: none"
    )


class Settings(BaseSettings):
    """All settings. Build them with `load_settings`, which turns every fault into an `InputError`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
    )

    store: StoreSettings = Field(default_factory=StoreSettings)
    embedder: EmbedderSettings = Field(default_factory=EmbedderSettings)
    decider: DeciderSettings = Field(default_factory=DeciderSettings)
    students: StudentSettings = Field(default_factory=StudentSettings)
    writer: WriterSettings = Field(default_factory=WriterSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    read: ReadSettings = Field(default_factory=ReadSettings)
    llm: LLMSettings = Field(default_factory=LLMSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments alone: `load_settings` merges the sources itself, so that it knows the origin of each value."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it stands. `origin` is "default", "argument", a file's path or an environment variable."""

    name: str
    value: Any
    origin: str
    description: str
    variable: str


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from all sources.

    Args:
        overrides: arguments by group, like ``{"store": {"path": "mem"}, "embedder": "hash"}``.

    Raises:
        InputError: an unknown key or unusable value, by name, or a file that cannot be read.
    """
    return _loaded(overrides)[0]


def explain_settings(overrides: Mapping[str, Any] | None = None) -> list[Setting]:
    """Every setting with its value and where it comes from; secrets masked.

    Raises:
        InputError: as for `load_settings`.
    """
    settings, origins = _loaded(overrides)
    return [
        Setting(
            f"{group}.{name}",
            _shown(getattr(getattr(settings, group), name)),
            origins.get(f"{group}.{name}", "default"),
            field.description or "",
            f"{PREFIX}{group}__{name}".upper(),
        )
        for group, model in _groups()
        for name, field in model.model_fields.items()
    ]


def config_file() -> Path | None:
    """The TOML file in use, if any.

    Raises:
        InputError: `INTENTMEM_CONFIG` names a file that does not exist.
    """
    if named := os.environ.get(CONFIG_VARIABLE):
        path = Path(named).expanduser()
        if not path.is_file():
            raise InputError(CONFIG_VARIABLE, f"{path} does not exist", "create it, or unset the variable")
        return path
    usual = (Path(CONFIG_NAME), Path(platformdirs.user_config_dir("intentmem", appauthor=False)) / CONFIG_NAME)
    return next((path for path in usual if path.is_file()), None)


def _loaded(overrides: Mapping[str, Any] | None) -> tuple[Settings, dict[str, str]]:
    path = config_file()
    sources: list[tuple[str | None, Mapping[str, Any]]] = [
        ("argument", overrides or {}),
        (None, _environment()),
        *([(str(path.resolve()), _toml(path))] if path else []),
    ]
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for origin, source in sources:
        for group, name, value in _leaves(source, origin or "environment"):
            if name not in values.setdefault(group, {}):
                values[group][name] = value
                origins[f"{group}.{name}"] = origin or f"{PREFIX}{group}__{name}".upper()
    try:
        return Settings(**values), origins  # type: ignore[arg-type]
    except ValidationError as error:
        raise _as_input_error(error, origins) from error


def _leaves(source: Mapping[str, Any], origin: str) -> Iterator[tuple[str, str, Any]]:
    known = dict(_groups())
    for group, content in source.items():
        if group not in known:
            raise InputError(group, f"is not a group of settings ({origin})", f"known: {', '.join(known)}")
        if group in _SHORT and isinstance(content, str):
            content = {_SHORT[group]: content}
        if not isinstance(content, Mapping):
            raise InputError(
                group, f"must hold named values ({origin})", f"like {group}.{next(iter(known[group].model_fields))}"
            )
        for name, value in content.items():
            if name not in known[group].model_fields:
                names = ", ".join(f"{group}.{field}" for field in known[group].model_fields)
                raise InputError(f"{group}.{name}", f"is not a setting ({origin})", f"known: {names}")
            yield group, name, value


def _environment() -> Mapping[str, Any]:
    for variable in os.environ:
        group, nested, _ = variable.removeprefix(PREFIX).lower().partition("__")
        if variable.startswith(PREFIX) and variable != CONFIG_VARIABLE and not (nested and group in dict(_groups())):
            raise InputError(variable, "is not a setting", f"variables are named like {PREFIX}STORE__PATH; unset it")
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError as error:
        group = next((name for name, _ in _groups() if f'"{name}"' in str(error)), "")
        variable = f"{PREFIX}{group}".upper()
        raise InputError(variable, "holds a list that is not JSON", 'lists are like ["a", "b"]') from error


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"is not TOML: {error}") from error
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error


def _groups() -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in Settings.model_fields.items():
        model = field.annotation
        assert isinstance(model, type) and issubclass(model, BaseModel)
        yield name, model


def _as_input_error(error: ValidationError, origins: Mapping[str, str]) -> InputError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    got = "" if name in _private() else f", got {_shown(first['input'])!r}"
    return InputError(
        name,
        f"{first['msg'][0].lower()}{first['msg'][1:]}{got}",
        f"from: {origins.get(name, 'default')}",
    )


def _private() -> set[str]:
    """Settings whose value may be, or hold, a secret."""
    return {
        f"{group}.{name}"
        for group, model in _groups()
        for name, field in model.model_fields.items()
        if "SecretStr" in str(field.annotation) or name.endswith("url")
    }


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return str(value)
    return str(value) if isinstance(value, Path) else value
