"""A vLLM server of our own: started in its own environment, watched, and ended with all that it started."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import urlsplit

from pydantic import SecretStr

from intentmem.memory.errors import InputError, ModelTimeoutError, ModelUnavailableError

from . import server_guard
from .server_checks import Machine, address_of, check_memory, check_port, fitted, interpreter, this_machine
from .server_command import command_line, environment
from .server_logs import advice, last_lines, new_log
from .server_model import Footprint, find_model, footprint
from .server_settings import ServerSettings

Progress = Callable[[float, str], None]
"""Called with the seconds waited and the last line of the log."""

_POLL_SECONDS = 0.25
_GATHER_SECONDS = 2.0


class VllmServer:
    """One server process. `start` returns once it answers; as a context manager it is started and stopped.

    A server that this process leaves behind, by a kill, ends too.

    Args:
        settings: what to serve and how; see `intentmem llm profiles`.
        api_key: what clients must send; None lets every local user in.
        machine: memory and GPUs; None looks.

    Raises:
        InputError: no model, an unknown profile, or no vLLM; names the setting and the remedy.
    """

    def __init__(
        self, settings: ServerSettings, api_key: SecretStr | None = None, machine: Machine | None = None
    ) -> None:
        if settings.model is None:
            raise InputError("server.model", "is not set", "name it: `intentmem llm serve FOLDER`")
        self.settings = settings
        self.machine = machine or this_machine()
        self.profile = settings.resolved(self.machine.gpus_gib)
        self.base_url = address_of(settings.host, settings.port)
        self.log: Path | None = None
        self._key = api_key.get_secret_value() if api_key else None
        self._folder = find_model(settings.model, settings.download)
        self._footprint = self._weighed()
        self._python = interpreter(settings, self.machine)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> VllmServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def command(self) -> list[str]:
        """The command line."""
        # An id keeps its name: vLLM finds it in the hub's cache, as was seen.
        model = str(self._folder) if Path(str(self.settings.model)).expanduser().is_dir() else str(self.settings.model)
        return command_line(self._python, model, self.profile, self.settings)

    @property
    def pid(self) -> int | None:
        """Id of the process and of its group; None where none runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def check(self) -> None:
        """All that can be seen to fail beforehand.

        Raises:
            InputError: the port, an adapter, or the memory does not do; with the numbers and the setting to change.
        """
        check_port(self.settings.host, self.settings.port)
        for adapter in self.settings.adapters:
            name, _, folder = adapter.partition("=")
            if not (Path(folder).expanduser() / "adapter_config.json").is_file():
                raise InputError("server.adapters", f"{name}: {folder} holds no adapter_config.json")
        if self._footprint is not None:
            check_memory(self._footprint, self.profile, self.machine)

    def start(self, progress: Progress | None = None) -> str:
        """Start it and wait until it answers. Returns the base URL for `llm.base_url`.

        Raises:
            InputError: as for `check`; nothing was started.
            ModelUnavailableError: it ended by itself; carries the last lines of its log.
            ModelTimeoutError: it was not ready within `server.ready_seconds`.
        """
        if self.pid is not None:
            return self.base_url
        self.stop()
        self.check()
        self.log, file = new_log(self.settings.logs.expanduser(), self.settings.port)
        with file:
            self._launch(file)
        try:
            self._until_ready(progress or (lambda seconds, line: None))
        except BaseException:
            self.stop()
            raise
        return self.base_url

    def models(self) -> list[str]:
        """Names served, adapters included.

        Raises:
            ModelUnavailableError: it does not answer.
        """
        status, body = self._get("/v1/models")
        try:
            return [str(row["id"]) for row in json.loads(body)["data"]]
        except (ValueError, KeyError, TypeError):
            raise ModelUnavailableError(self.base_url, f"lists no models (status {status})") from None

    def wait(self) -> None:
        """Return never, unless the server ends by itself.

        Raises:
            ModelUnavailableError: it ended; carries the last lines of its log.
        """
        if self._process is None:
            raise ModelUnavailableError(self.base_url, "was not started")
        self._process.wait()
        raise self._died()

    def stop(self) -> None:
        """End it and all that it started: asked first, killed after the grace or when interrupted again."""
        process, self._process = self._process, None
        if process is not None:
            try:
                self._end(process)
            except BaseException:
                _signal(process.pid, signal.SIGKILL)
                process.wait()
                self._dismiss()
                raise
        self._dismiss()

    def _weighed(self) -> Footprint | None:
        if self._folder is None:
            return None
        found = footprint(self._folder, self.profile.dtype, self.profile.quantisation)
        self.profile = fitted(self.profile, found, self.settings)
        return found

    def _launch(self, file: IO[bytes]) -> None:
        try:
            # A group of its own: an interrupt from the terminal reaches us alone, and ours reach all of it.
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(self.profile, self.settings, self._key),
                start_new_session=True,
            )
        except OSError as error:
            raise InputError("server.python", f"{self.command[0]} cannot be run: {error.strerror}") from error
        self._guard = subprocess.Popen(
            [sys.executable, server_guard.__file__, str(self._process.pid), str(self.settings.grace_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _until_ready(self, progress: Progress) -> None:
        assert self._process is not None and self.log is not None
        started = time.monotonic()
        while (waited := time.monotonic() - started) < self.settings.ready_seconds:
            if self._process.poll() is not None:
                raise self._died()
            with contextlib.suppress(ModelUnavailableError):
                if self._get("/health")[0] == http.client.OK and self.models():
                    return
            progress(waited, (last_lines(self.log, 1) or [""])[0])
            time.sleep(_POLL_SECONDS)
        raise ModelTimeoutError(str(self.settings.model), "server.ready_seconds", self.settings.ready_seconds)

    def _get(self, path: str) -> tuple[int, bytes]:
        """A request to the server itself, past any proxy."""
        parts = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=5)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ModelUnavailableError(self.base_url, f"does not answer: {error}") from error
        finally:
            connection.close()

    def _died(self) -> ModelUnavailableError:
        assert self._process is not None and self.log is not None
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        lines = last_lines(self.log, 12)
        hint = advice(self.log, code)
        text = "\n".join(f"  {line}" for line in lines)
        return ModelUnavailableError(
            str(self.settings.model),
            f"the server ended by itself ({how}){f': {hint}' if hint else ''}. Last lines of {self.log}:\n{text}",
        )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.settings.grace_seconds
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # it ends its own workers, in its order
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.settings.grace_seconds)
        left = max(_GATHER_SECONDS, deadline - time.monotonic()) if process.poll() is not None else 0.0
        gone = time.monotonic() + min(left, _GATHER_SECONDS)
        while _signal(process.pid, 0) and time.monotonic() < gone:
            time.sleep(0.02)
        _signal(process.pid, signal.SIGKILL)
        process.wait()

    def _dismiss(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(OSError):
                guard.communicate(b"done\n")


def _signal(group: int, number: int) -> bool:
    """Signal a process group; whether there is one. A process that ended but was not waited for does not count."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
