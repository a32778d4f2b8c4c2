"""Formats of files to ingest, apart from what reads them: `--help` names them without loading anything."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Formats that can be read. `auto` looks at the file."""

    AUTO = "auto"
    OPENAI = "openai"
    TEXT = "text"
    LOCOMO = "locomo"
    REALMEM = "realmem"
