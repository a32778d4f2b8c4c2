"""Money: a dated file of prices, which the user can edit."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from intentmem.memory.errors import InputError
from intentmem.serving.llm.requests import Usage

_FILE = "prices.toml"
_MILLION, _HOUR = 1e6, 3600.0


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelPrice(_Table):
    """Price of a million tokens of the models that a name fits; it may hold `*` and `?`."""

    name: str = Field(min_length=1)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    note: str = ""


class HourPrice(_Table):
    """Price of an hour of the machine that a subject runs on."""

    subject: str = Field(min_length=1)
    price: float = Field(ge=0)
    note: str = ""


class PriceFile(_Table):
    """A file of prices."""

    date: str = Field(pattern=r"\d{4}-\d{2}-\d{2}")
    currency: str = Field(min_length=1)
    source: str = Field(min_length=1)
    model: tuple[ModelPrice, ...] = ()
    hour: tuple[HourPrice, ...] = ()


@dataclass(frozen=True, slots=True)
class Prices:
    """What a file says."""

    file: PriceFile

    def of_tokens(self, model: str, usage: Usage) -> float | None:
        """Price of the tokens of a model; None where the file does not name it."""
        found = next((one for one in self.file.model if fnmatchcase(model, one.name)), None)
        if found is None:
            return None
        return (usage.prompt_tokens * found.input + usage.completion_tokens * found.output) / _MILLION

    def of_time(self, subject: str, seconds: float) -> float | None:
        """Price of a subject's machine for a time; None where the file does not name it."""
        found = next((one for one in self.file.hour if fnmatchcase(subject, one.subject)), None)
        return None if found is None else found.price * seconds / _HOUR

    def as_dict(self) -> dict[str, Any]:
        """What a report says of them."""
        return {"date": self.file.date, "currency": self.file.currency, "source": self.file.source}


def read_prices(path: Path | None = None) -> Prices:
    """Prices of a file; None takes the one that ships.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        text = files(__package__).joinpath(_FILE).read_text("utf-8") if path is None else path.read_text("utf-8")
        return Prices(PriceFile(**tomllib.loads(text)))
    except OSError as error:
        raise InputError("prices", f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            "prices", f"{path or _FILE}: {where}: {first['msg']}", "compare with the file that ships"
        ) from error
    except ValueError as error:
        raise InputError("prices", f"{path} is no TOML: {error}") from error
