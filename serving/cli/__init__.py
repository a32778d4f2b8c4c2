"""The command line, `intentmem`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line: exit code 0, 1 for a failure, 2 for unusable input, 130 when interrupted."""
    from .app import app

    try:
        app()
    except Exception as error:
        # Imported only now: `--help` answers in the time that these modules take to load.
        from intentmem.memory.errors import InputError, IntentMemError

        if "--debug" in sys.argv or not isinstance(error, IntentMemError):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
