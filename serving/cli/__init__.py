"""The command line, `intentmem`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line: exit code 0, 1 for a failure, 2 for unusable input, 130 when interrupted."""
    from intentmem.memory.errors import InputError, IntentMemError

    from .app import app

    try:
        app()
    except IntentMemError as error:
        if "--debug" in sys.argv:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
