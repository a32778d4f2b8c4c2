"""A process that ends a process group once its standard input closes, that is, when whoever started it is gone.

usage: python server_guard.py GROUP GRACE_SECONDS   (a line on standard input: nothing is to be done)
"""

from __future__ import annotations

import os
import signal
import sys
import time


def end_group(group: int, grace: float) -> None:
    """Ask the processes of a group to end, and kill those that are still there after `grace` seconds."""
    try:
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    if not sys.stdin.readline():
        end_group(int(sys.argv[1]), float(sys.argv[2]))
