"""The command line and environment that start vLLM."""

from __future__ import annotations

import os
from pathlib import Path

from .server_settings import Profile, ServerSettings, structured_config

ENTRY = "vllm.entrypoints.openai.api_server"
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONWARNINGS")
"""Variables that belong to this environment and would mislead vLLM's."""


def command_line(python: Path, model: str, profile: Profile, settings: ServerSettings) -> list[str]:
    """The command: `vllm serve` on GPUs, the module on a CPU, whose distribution lacks what the former needs."""
    if profile.device == "cpu":
        start = [str(python), "-m", ENTRY, "--model", model]
    else:
        start = [str(python.with_name("vllm")), "serve", model]
    name = settings.served_name or Path(model).name
    flags = ["--host", settings.host, "--port", str(settings.port), "--served-model-name", name]
    return [*start, *flags, *_shape(profile), *_adapters(settings), *settings.extra_flags]


def environment(profile: Profile, settings: ServerSettings, api_key: str | None = None) -> dict[str, str]:
    """Variables of the process. The key is among them, not on the command line, which every user can read."""
    made = {name: value for name, value in os.environ.items() if name not in _OURS}
    made |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    if not settings.download:
        made |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if profile.device == "cpu":
        made["VLLM_TARGET_DEVICE"] = "cpu"
        made["VLLM_CPU_KVCACHE_SPACE"] = str(profile.kv_cache_gib)
        made.setdefault("VLLM_CPU_OMP_THREADS_BIND", _cores())
    if settings.runtime_adapters:
        made["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    if api_key:
        made["VLLM_API_KEY"] = api_key
    return made


def _shape(profile: Profile) -> list[str]:
    flags = ["--dtype", profile.dtype, "--structured-outputs-config", structured_config(profile)]
    for flag, value in (("tensor", profile.tensor_parallel), ("pipeline", profile.pipeline_parallel)):
        if value > 1:
            flags += [f"--{flag}-parallel-size", str(value)]
    if profile.data_parallel > 1:
        flags += ["--data-parallel-size", str(profile.data_parallel)]
        if profile.distributed_backend == "ray":
            flags += ["--data-parallel-backend", "ray"]
    if profile.distributed_backend:
        flags += ["--distributed-executor-backend", profile.distributed_backend]
    if profile.device == "gpu":
        flags += ["--gpu-memory-utilization", f"{profile.memory_share:g}"]
    if profile.context_tokens:
        flags += ["--max-model-len", str(profile.context_tokens)]
    if profile.max_sequences:
        flags += ["--max-num-seqs", str(profile.max_sequences)]
    if profile.eager:
        flags.append("--enforce-eager")
    flags.append("--enable-prefix-caching" if profile.prefix_caching else "--no-enable-prefix-caching")
    if profile.quantisation:
        flags += ["--quantization", profile.quantisation]
    return flags


def _adapters(settings: ServerSettings) -> list[str]:
    if not settings.adapters and not settings.runtime_adapters:
        return []
    flags = ["--enable-lora", "--max-lora-rank", str(settings.max_adapter_rank)]
    flags += ["--max-loras", str(max(1, len(settings.adapters)))]
    if not settings.adapters:
        return flags
    pairs = (adapter.partition("=") for adapter in settings.adapters)
    return [*flags, "--lora-modules", *(f"{name}={Path(folder).expanduser().absolute()}" for name, _, folder in pairs)]


def _cores() -> str:
    """The cores that this process may use, like "0-1" or "0,2"."""
    cores = sorted(os.sched_getaffinity(0))
    whole = cores == list(range(cores[0], cores[-1] + 1))
    return f"{cores[0]}-{cores[-1]}" if whole else ",".join(map(str, cores))
