"""A server as a process: ready, dead, stopped. vLLM's part is played by a script, started by the real command lines."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from intentmem.memory.errors import InputError, ModelTimeoutError, ModelUnavailableError
from intentmem.serving.llm import ServerSettings, VllmServer
from intentmem.serving.llm.server_checks import Machine
from intentmem.serving.llm.server_model import GIB

from .test_server_start import make_model

FAKE = Path(__file__).with_name("fake_vllm.py")
MakeServer = Callable[..., VllmServer]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment whose `python -m vllm...` and `vllm serve` start the script."""
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    script = f'#!/bin/sh\n[ "$1" = "-c" ] && exit 0\nexec "{sys.executable}" "{FAKE}" "$@"\n'
    for name in ("python", "vllm"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder / "python"


@pytest.fixture
def make(environment: Path, tmp_path: Path) -> Iterator[MakeServer]:
    made: list[VllmServer] = []

    def server(machine: Machine | None = None, api_key: SecretStr | None = None, **given: Any) -> VllmServer:
        values = {"python": environment, "port": free_port(), "grace_seconds": 1.0, "logs": tmp_path / "logs", **given}
        settings = ServerSettings(model=str(make_model(tmp_path / "small")), **values)
        made.append(VllmServer(settings, api_key, machine or Machine(16 * GIB, ())))
        return made[-1]

    yield server
    for one in made:
        one.stop()


@pytest.mark.parametrize("machine", [Machine(16 * GIB, ()), Machine(16 * GIB, ((24.0 * GIB, 24.0 * GIB),))])
def test_it_is_ready_when_it_answers_and_gone_when_stopped(make: MakeServer, machine: Machine) -> None:
    server = make(machine)
    seen: list[str] = []
    url = server.start(lambda seconds, line: seen.append(line))
    assert url == server.base_url == f"http://127.0.0.1:{server.settings.port}/v1"
    assert server.models() == ["small"] and "INFO loading the model" in seen
    pid = server.pid
    assert pid is not None and alive(pid) and server.start() == url and server.pid == pid
    server.stop()
    assert not alive(pid) and server.pid is None
    assert server.log is not None and server.log.read_text().splitlines()[-1] == "INFO shutting down"
    assert server.log.stat().st_mode & 0o077 == 0
    with pytest.raises(ModelUnavailableError):
        server.models()
    server.stop()


def test_it_can_be_started_again_and_keeps_the_log_before(make: MakeServer) -> None:
    with make() as server:
        server.stop()
        server.start()
        assert server.models() == ["small"] and server.log is not None
        assert server.log.with_suffix(".log.old").exists()


def test_a_key_is_sent_and_asked_for(make: MakeServer) -> None:
    with make(api_key=SecretStr("sesame")) as server:
        assert server.models() == ["small"] and "sesame" not in str(server.command)


def test_death_before_readiness_brings_the_log_and_the_setting(
    make: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "dies-early")
    server = make()
    with pytest.raises(ModelUnavailableError, match=r"server\.memory_share") as caught:
        server.start()
    assert "exit code 1" in str(caught.value) and "No available memory" in str(caught.value)
    assert str(server.log) in str(caught.value) and server.pid is None


def test_death_while_serving_is_told(make: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "dies-later")
    server = make()
    server.start()
    with pytest.raises(ModelUnavailableError, match="exit code 7") as caught:
        server.wait()
    assert "boom" in str(caught.value) and "\x1b" not in str(caught.value)


def test_one_that_is_never_ready_is_ended_at_the_time_out(make: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "never-ready")
    server, pids = make(ready_seconds=0.6), set[int]()
    with pytest.raises(ModelTimeoutError, match=r"server\.ready_seconds"):
        server.start(lambda seconds, line: pids.add(server.pid or 0))
    assert len(pids) == 1 and not any(map(alive, pids))


def test_one_that_ignores_the_request_to_end_is_killed(make: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "stubborn")
    server = make(grace_seconds=0.5)
    server.start()
    pid, started = server.pid, time.monotonic()
    assert pid is not None
    server.stop()
    assert not alive(pid) and 0.5 <= time.monotonic() - started < 30


def test_its_workers_end_with_it(make: MakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_VLLM", "worker")
    monkeypatch.setenv("FAKE_WORKER", str(tmp_path / "worker"))
    server = make()
    server.start()
    worker = int((tmp_path / "worker").read_text())
    assert alive(worker)
    server.stop()
    assert soon(lambda: not alive(worker))


def test_a_taken_port_starts_nothing(make: MakeServer) -> None:
    with make() as first:
        second = make(port=first.settings.port)
        with pytest.raises(InputError, match=r"server\.port"):
            second.start()
        assert second.log is None and second.pid is None and first.models() == ["small"]


def command_line(environment: Path, folder: Path, **variables: str) -> subprocess.Popen[str]:
    model = make_model(folder / "small")
    command = [sys.executable, "-c", "from intentmem.serving.cli import main; main()", "llm", "serve", str(model)]
    given = {
        "INTENTMEM_SERVER__PYTHON": str(environment),
        "INTENTMEM_SERVER__LOGS": str(folder / "logs"),
        "INTENTMEM_SERVER__PORT": str(free_port()),
        "INTENTMEM_SERVER__PROFILE": "cpu",
        **variables,
    }
    return subprocess.Popen(
        [*command, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **given},
    )


@contextlib.contextmanager
def served(environment: Path, folder: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    import json

    process = command_line(environment, folder, **variables)
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.stderr.read())
        shown = json.loads(line)
        assert shown["models"] == ["small"] and Path(shown["log"]).exists() and shown["base_url"].endswith("/v1")
        yield process, int(shown["pid"])
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_its_server_when_told_to(environment: Path, tmp_path: Path, number: signal.Signals) -> None:
    with served(environment, tmp_path) as (process, pid):
        process.send_signal(number)
        assert process.wait(10) == 0 and not alive(pid)


def test_a_second_interrupt_kills_at_once(environment: Path, tmp_path: Path) -> None:
    with served(environment, tmp_path, FAKE_VLLM="stubborn", INTENTMEM_SERVER__GRACE_SECONDS="60") as (process, pid):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert alive(pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130 and not alive(pid)


def test_a_command_that_is_killed_leaves_no_server(environment: Path, tmp_path: Path) -> None:
    with served(environment, tmp_path) as (process, pid):
        process.kill()
        assert soon(lambda: not alive(pid))


def test_a_server_that_dies_is_started_again_so_often_as_the_settings_say(environment: Path, tmp_path: Path) -> None:
    variables = {"FAKE_VLLM": "dies-later", "INTENTMEM_SERVER__RESTARTS": "1"}
    with served(environment, tmp_path, **variables) as (process, _):
        out, err = process.communicate(timeout=20)
        assert process.returncode == 1 and out.count("base_url") == 1
        assert "starting it again (1 left)" in err and "exit code 7" in err


def test_the_command_checks_and_shows_without_a_start(environment: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "small")
    code = "from intentmem.serving.cli import main; main()"
    flags = ["llm", "serve", str(model), "--python", str(environment), "--profile", "cpu", "--dry-run", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *flags], capture_output=True, text=True, check=True)
    assert "api_server" in done.stdout and not (tmp_path / "logs").exists()
