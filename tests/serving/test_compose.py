import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from intentmem.memory.errors import InputError, MissingExtraError
from intentmem.serving import compose, load_settings, open_async_memory, open_memory


def test_a_memory_opened_by_path_remembers(tmp_path: Path) -> None:
    with open_memory(tmp_path, embedder="hash") as memory:
        memory.add("The spare key lies under the mat.", user_id="mara")
    with open_memory(str(tmp_path), embedder={"profile": "hash"}) as memory:
        assert memory.search("key", user_id="mara")["results"][0]["memory"] == "The spare key lies under the mat."


def test_complete_settings_are_used_as_they_are(tmp_path: Path) -> None:
    settings = load_settings({"store": {"path": tmp_path}, "embedder": "hash"})
    with open_memory(settings) as memory:
        assert memory.store.folder == tmp_path
    with pytest.raises(InputError, match="read"):
        open_memory(settings, read={"limit": 1})


def test_strict_namespaces_reach_the_memory(tmp_path: Path) -> None:
    with (
        open_memory(tmp_path, embedder="hash", memory={"strict_namespaces": True}) as memory,
        pytest.raises(InputError, match="does not exist"),
    ):
        memory.add("hello", namespace="new")


@pytest.mark.parametrize("absent", ["torch", "sentence_transformers", "faiss"])
def test_a_missing_package_is_named_with_its_install_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(compose, "find_spec", lambda name: None if name == absent else real(name))
    with pytest.raises(MissingExtraError, match=r'pip install "intentmem\[cpu\]"'):
        open_memory(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_opening_loads_no_model(tmp_path: Path) -> None:
    code = f"""
import sys
from intentmem.serving import open_memory
open_memory({str(tmp_path)!r}).close()
print(sorted({{"torch", "transformers", "sentence_transformers", "faiss"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_opening_takes_less_than_three_tenths_of_a_second(tmp_path: Path) -> None:
    open_memory(tmp_path, embedder="hash").close()
    started = time.process_time()
    open_memory(tmp_path).close()
    assert time.process_time() - started < 1.0


async def _remembered(path: Path) -> str:
    async with open_async_memory(path, embedder="hash") as memory:
        await memory.add("Tea at four.", namespace="n")
        return str((await memory.search("tea", namespace="n"))["results"][0]["memory"])


def test_the_asynchronous_memory_is_composed_likewise(tmp_path: Path) -> None:
    import asyncio

    assert asyncio.run(_remembered(tmp_path)) == "Tea at four."
