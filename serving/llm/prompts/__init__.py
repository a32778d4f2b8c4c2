"""Prompts, each a TOML file beside this one: its version, a stable system text, examples, and the text of one call.

The system text and the examples never change from call to call, so that a server's prefix cache holds them; what
changes least comes first in the rest.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from intentmem.memory.errors import InputError


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt.

    examples: (user, assistant) texts shown before the call. tasks: advice by task or case, for a prompt that serves
    several.
    hash: identity of the file's content; it stands in every key and trace.
    """

    name: str
    version: int
    system: str
    user: str
    examples: tuple[tuple[str, str], ...]
    tasks: Mapping[str, str]
    hash: str

    def messages(self, **values: str) -> list[dict[str, str]]:
        """Chat messages of one call. `$name` in the system and user texts stands for a value; values stay as they are.

        Raises:
            InputError: a value is missing.
        """
        try:
            shown = [{"role": "system", "content": Template(self.system).substitute(values)}]
            for question, answer in self.examples:
                shown += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            return [*shown, {"role": "user", "content": Template(self.user).substitute(values)}]
        except KeyError as error:
            raise InputError(f"prompts.{self.name}", f"needs a value for {error}") from error

    @property
    def example_texts(self) -> tuple[str, ...]:
        """Every text that the examples answer: the model's output may not repeat them."""
        found: list[str] = []
        for _, answer in self.examples:
            try:
                found += _strings(json.loads(answer))
            except ValueError:
                found.append(answer)
        return tuple(found)


@cache
def load_prompt(name: str) -> Prompt:
    """A prompt by the name of its file.

    Raises:
        InputError: there is none of this name.
    """
    source = files(__name__).joinpath(f"{name}.toml")
    if not source.is_file():
        raise InputError("prompt", f"{name!r} does not exist")
    text = source.read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return Prompt(
        name=name,
        version=data["version"],
        system=data["system"].strip(),
        user=data["user"].strip(),
        examples=tuple((e["user"].strip(), e["assistant"].strip()) for e in data.get("examples", ())),
        tasks={task: advice.strip() for task, advice in data.get("tasks", {}).items()},
        hash=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for part in value for text in _strings(part)] if isinstance(value, list) else []
