"""Stands in for vLLM as a process: logs, is ready after a while, and then behaves as `FAKE_VLLM` says.

It is started as the module or as `vllm serve`, by the command lines that start the real one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def log(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def die() -> None:
    log("\x1b[31mboom\x1b[0m")
    os._exit(7)


class Handler(BaseHTTPRequestHandler):
    ready_at = 0.0

    def do_GET(self) -> None:
        key = os.environ.get("VLLM_API_KEY")
        if time.monotonic() < self.ready_at:
            self.send_error(503)
        elif self.path == "/health":
            self.reply({})
        elif key and self.headers.get("Authorization") != f"Bearer {key}":
            self.send_error(401)
        else:
            self.reply({"data": [{"id": option("--served-model-name")}]})

    def reply(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""


def main() -> None:
    behaviour = os.environ.get("FAKE_VLLM", "")
    log("INFO loading the model")
    if behaviour == "dies-early":
        log("ValueError: No available memory for the cache blocks.")
        sys.exit(1)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "worker":
        # A worker that outlives its parent and hears no request to end.
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        worker = subprocess.Popen([sys.executable, "-c", code])
        Path(os.environ["FAKE_WORKER"]).write_text(str(worker.pid))
    Handler.ready_at = time.monotonic() + float(os.environ.get("FAKE_DELAY", "0.3"))
    if behaviour == "never-ready":
        Handler.ready_at += 3600
    server = ThreadingHTTPServer((option("--host"), int(option("--port"))), Handler)
    if behaviour != "stubborn":

        def leave(number: int, frame: FrameType | None) -> None:
            log("INFO shutting down")
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
    if behaviour == "dies-later":
        threading.Timer(0.8, die).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
