"""How a vLLM server is started: profiles that ship, and settings that win over them. Values only."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, field_validator

from intentmem.memory.errors import InputError

AUTO = "auto"
_FILE = "server_profiles.toml"
_BFLOAT16 = frozenset(["avx512_bf16", "amx_bf16", "bf16"])
"""Flags of processors that multiply bfloat16; the last one is ARM's."""


def _log_folder() -> Path:
    return Path(platformdirs.user_data_dir("intentmem", appauthor=False)) / "logs"


class Profile(BaseModel):
    """How vLLM is started on one kind of machine.

    dtype: of the weights and the KV cache; on a CPU, auto is what it multiplies fastest. memory_share: of each GPU, 0
    to 1. kv_cache_gib: of main memory, on a CPU.
    tensor_parallel, pipeline_parallel, data_parallel: GPUs a layer is split over, stages the layers are split into, and
    copies of the model; their product is the number of GPUs. None leaves a value to vLLM.
    structured_backend: guidance builds a grammar as it goes; xgrammar took 2 to 4 s of a core for each schema that
    limits the length of a string, and ours differ from turn to turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    name: str
    title: str = ""
    device: Literal["cpu", "gpu"] = "gpu"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    distributed_backend: Literal["mp", "ray"] | None = None
    memory_share: float = Field(default=0.9, gt=0, le=1)
    kv_cache_gib: int = Field(default=2, ge=1)
    context_tokens: int | None = Field(default=None, ge=1)
    max_sequences: int | None = Field(default=None, ge=1)
    eager: bool = False
    prefix_caching: bool = True
    quantisation: str | None = None
    structured_backend: Literal["auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"] = "guidance"
    disable_any_whitespace: bool = True

    @property
    def gpus(self) -> int:
        """GPUs that it takes, over all machines."""
        return 0 if self.device == "cpu" else self.tensor_parallel * self.pipeline_parallel * self.data_parallel


class ServerSettings(BaseModel):
    """A vLLM server of our own. A value that is None is taken from the profile."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    profile: str = Field(
        default=AUTO, min_length=1, description="`intentmem llm profiles` lists them; auto goes by the GPUs found"
    )
    model: str | None = Field(default=None, min_length=1, description="folder of the model, or its id on the hub")
    served_name: str | None = Field(default=None, min_length=1, description="name as served; none: the folder's name")
    python: Path | None = Field(
        default=None, description="interpreter of vLLM's own environment; none: `.venv-vllm` here, else this one"
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on; this machine alone")
    port: int = Field(default=8000, ge=1, le=65535, description="port to listen on")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = Field(
        default=None, description="number format of weights and cache"
    )
    tensor_parallel: int | None = Field(default=None, ge=1, description="GPUs that each layer is split over")
    pipeline_parallel: int | None = Field(default=None, ge=1, description="stages that the layers are split into")
    data_parallel: int | None = Field(default=None, ge=1, description="copies of the model")
    distributed_backend: Literal["mp", "ray"] | None = Field(
        default=None, description="what joins the GPUs: mp (one machine), ray (several)"
    )
    memory_share: float | None = Field(default=None, gt=0, le=1, description="share of each GPU's memory")
    kv_cache_gib: int | None = Field(default=None, ge=1, description="room of the KV cache on a CPU, whole GiB")
    context_tokens: int | None = Field(default=None, ge=1, description="context length")
    max_sequences: int | None = Field(default=None, ge=1, description="requests worked on at once")
    eager: bool | None = Field(default=None, description="no compilation: starts sooner, serves slower on a GPU")
    prefix_caching: bool | None = Field(default=None, description="keep the cache of prompts that begin alike")
    quantisation: str | None = Field(
        default=None, min_length=1, description="fp8, bitsandbytes, ...; as stored if none"
    )
    structured_backend: Literal["auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"] | None = Field(
        default=None, description="what holds replies to a JSON schema"
    )
    disable_any_whitespace: bool | None = Field(
        default=None, description="no free whitespace in JSON: a model cannot loop in it"
    )
    adapters: tuple[str, ...] = Field(default=(), description='LoRA adapters, each "name=folder"')
    runtime_adapters: bool = Field(default=False, description="adapters may be loaded and dropped while it runs")
    max_adapter_rank: int = Field(default=32, ge=1, description="largest rank of an adapter")
    extra_flags: tuple[str, ...] = Field(default=(), description="further flags of vLLM, as they are")
    download: bool = Field(default=False, description="fetch a model that is not on this machine from the hub")
    ready_seconds: float = Field(default=900.0, gt=0, description="longest wait for the server to be ready")
    grace_seconds: float = Field(default=20.0, gt=0, description="wait for it to end before it is killed")
    restarts: int = Field(default=2, ge=0, description="how often a server that died while serving is started again")
    logs: Path = Field(default_factory=_log_folder, description="folder of its log files")

    @field_validator("adapters")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for adapter in value:
            name, _, folder = adapter.partition("=")
            if not name or not folder:
                raise ValueError(f'must be like "name=folder", not {adapter!r}')
        return value

    def resolved(self, gpus_gib: tuple[float, ...]) -> Profile:
        """The profile with these settings over it.

        Args:
            gpus_gib: memory of each GPU of this machine, by which `auto` chooses.

        Raises:
            InputError: no such profile; the known ones are named.
        """
        known = profiles()
        name = automatic(gpus_gib) if self.profile == AUTO else self.profile
        if name not in known:
            raise InputError("server.profile", f"{name!r} does not exist", f"known: {AUTO}, {', '.join(known)}")
        values = known[name].model_dump()
        if self.profile == AUTO and name == "gpus":
            values |= {"tensor_parallel": 1, "data_parallel": len(gpus_gib)}
        given = {key: value for key in Profile.model_fields if (value := getattr(self, key, None)) is not None}
        made = Profile(**{**values, **given, "name": name})
        if made.device == "cpu" and made.dtype == "auto":
            return made.model_copy(update={"dtype": cpu_dtype(_cpu_flags())})
        return made


def cpu_dtype(flags: str) -> Literal["bfloat16", "float32"]:
    """The number format for a CPU with these flags.

    One without instructions for bfloat16 (AVX2 alone) multiplied float32 matrices seven times as fast.
    """
    return "bfloat16" if _BFLOAT16.intersection(flags.split()) else "float32"


def automatic(gpus_gib: tuple[float, ...]) -> str:
    """The profile for a machine with these GPUs."""
    if not gpus_gib:
        return "cpu"
    if len(gpus_gib) > 1:
        return "gpus"
    return "large-gpu" if gpus_gib[0] >= 39 else "small-gpu"


@cache
def profiles() -> Mapping[str, Profile]:
    """The profiles that ship, by name."""
    text = (files(__package__) / _FILE).read_text(encoding="utf-8")
    return {name: Profile(name=name, **values) for name, values in tomllib.loads(text).items()}


def structured_config(profile: Profile) -> str:
    """vLLM's JSON for how replies are held to a schema."""
    values: dict[str, Any] = {"backend": profile.structured_backend}
    # Only these two know it; vLLM refuses the combination with others.
    if profile.disable_any_whitespace and profile.structured_backend in ("xgrammar", "guidance"):
        values["disable_any_whitespace"] = True
    return json.dumps(values)


def _cpu_flags() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))), "")
