"""What is installed is what is in the tree, and the arrows between the folders point one way."""

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import intentmem.memory
import intentmem.serving

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("memory", "train_data", "distill", "serving")
DATA = (".json", ".jsonl", ".toml", ".sql", ".typed", ".safetensors")


def files(*suffixes: str) -> Iterator[Path]:
    for top in TOPS:
        for path in (ROOT / top).rglob("*"):
            if (path.is_file() and path.suffix in suffixes) or path.name == "py.typed":
                yield path.relative_to(ROOT)


def declared() -> list[str]:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    return [str(name) for name in listed]


def in_tree() -> list[str]:
    folders = {path.parent for path in files(".py")}
    return sorted("intentmem." + ".".join(folder.parts) for folder in folders)


def test_the_packages_listed_are_those_of_the_tree() -> None:
    assert sorted(declared()) == in_tree()


def test_every_package_has_an_init() -> None:
    for package in declared():
        assert (ROOT / Path(*package.split(".")[1:]) / "__init__.py").is_file(), package


def test_folders_import_only_those_below_them() -> None:
    for path in files(".py"):
        mine = TOPS.index(path.parts[0])
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            elif isinstance(node, ast.ImportFrom):
                assert node.level < len(path.parts), f"{path}:{node.lineno} climbs out of its folder"
            for name in names:
                parts = name.split(".")
                if parts[0] == "intentmem" and len(parts) > 1:
                    assert TOPS.index(parts[1]) <= mine, f"{path}:{node.lineno} imports {name}"


def test_what_is_remembered_needs_no_model_and_no_network() -> None:
    code = (
        "import sys, intentmem.memory.memory, intentmem.memory.deciders\n"
        "from intentmem.memory import Memory\n"
        "print(sorted({'torch', 'faiss', 'httpx', 'sentence_transformers', 'transformers', 'requests', 'openai'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", [intentmem.memory, intentmem.serving])
def test_public_names_are_sorted_and_there(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    assert all(getattr(package, name) is not None for name in names)


def test_nothing_is_pickled_and_nothing_lives_under_tmp() -> None:
    for path in files(".py"):
        source = (ROOT / path).read_text()
        assert "import pickle" not in source and '"/tmp' not in source, path


@pytest.mark.slow
def test_wheel_and_sdist_hold_every_package_and_data_file(tmp_path: Path) -> None:
    copy = tmp_path / "source"
    subprocess.run(["git", "init", "-q", str(copy)], check=True)
    for path in [*files(".py", *DATA), *map(Path, ("pyproject.toml", "README.md", "LICENSE"))]:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes((ROOT / path).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))).namelist()
    wanted = {f"intentmem/{path.as_posix()}" for path in files(".py", *DATA)}
    assert wanted <= set(wheel), sorted(wanted - set(wheel))
    assert not [name for name in wheel if name.startswith(("tests/", "memory/"))]
    with tarfile.open(next((tmp_path / "dist").glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    missing = {path.as_posix() for path in files(".py", *DATA)} - inside
    assert not missing, sorted(missing)


def test_f04_every_direct_dependency_has_a_lower_bound_and_a_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    tested = {canonicalize_name(name): Version(version) for name, version in pinned.items()}
    extras = project["project"]["optional-dependencies"]
    # The builds for other machines are the user's: neither CUDA nor vLLM is part of the tested environment.
    direct = [*project["project"]["dependencies"], *(d for e in ("cpu", "train", "bench", "serve") for d in extras[e])]
    for requirement in map(Requirement, direct + project["dependency-groups"]["dev"]):
        version = tested.get(canonicalize_name(requirement.name))
        assert any(bound.operator == ">=" for bound in requirement.specifier), f"{requirement} has no lower bound"
        assert version is not None, f"{requirement.name} is not in constraints.txt"
        assert version in requirement.specifier, f"{requirement} does not admit the tested {version}"
