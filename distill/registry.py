"""Which student answers which task: those that ship, those of the user, and the way back from one to the other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from intentmem.memory.errors import ArtifactError, InputError, StoreError
from intentmem.memory.tasks import Task

from . import artifacts, canary
from .artifacts import Artifact
from .backbone import Backbone
from .manifest import NAME, Manifest, read_manifest

_POINTER, _VERSIONS = "current.json", "versions"
_LEFT_BEHIND = (".png",)


@dataclass(frozen=True, slots=True)
class Version:
    """A student that could answer. origin: "shipped" or "registry"; current: whether it is the one that answers."""

    task: str
    version: str
    origin: str
    current: bool
    folder: Path
    manifest: Manifest


def shipped_folder() -> Path:
    """Where the students lie that come with the package."""
    return Path(str(files("intentmem.distill"))) / "shipped"


class Registry:
    """Students by task.

    Args:
        folder: where the user's are kept; created by the first promotion.
        shipped: a folder of artifacts, one a task; None takes those of the package.
    """

    def __init__(self, folder: Path, shipped: Path | None = None) -> None:
        self.folder = folder.expanduser()
        self._shipped = shipped if shipped is not None else shipped_folder()

    def current(self) -> dict[str, Path]:
        """Folder of the student in use, by task."""
        found = {path.name: path for path in _artifacts_in(self._shipped)}
        for task, entry in self._pointer().items():
            if (path := self._place(task, entry["version"])) is not None:
                found[task] = path
        return found

    def open(self, tasks: Mapping[str, Task] | None = None) -> list[Artifact]:
        """The students in use, read and checked, in the order of their names.

        Args:
            tasks: declarations of now, by name; a student of another declaration is refused.

        Raises:
            ArtifactError: one of them cannot be used.
        """
        return [artifacts.read(path, (tasks or {}).get(task)) for task, path in sorted(self.current().items())]

    def stamp(self) -> tuple[int, int]:
        """Changes whenever a student is promoted or rolled back; costs one look at a file's date."""
        try:
            found = (self.folder / _POINTER).stat()
            return found.st_mtime_ns, found.st_ino
        except OSError:
            return 0, 0

    def versions(self, task: str | None = None) -> list[Version]:
        """Every version of every task, or of one, the oldest first, shipped ones before.

        Raises:
            ArtifactError: a manifest cannot be read.
        """
        current = self.current()
        places = [("shipped", path.name, path) for path in _artifacts_in(self._shipped)]
        for inside in sorted(self.folder.glob("*")):
            places += [("registry", inside.name, path) for path in _artifacts_in(inside / _VERSIONS)]
        found = [
            Version(name, (made := read_manifest(path)).version, origin, current.get(name) == path, path, made)
            for origin, name, path in places
            if task in (None, name)
        ]
        return sorted(found, key=lambda one: (one.task, one.origin != "shipped", one.manifest.created))

    def find(self, task: str, version: str | None = None) -> Version:
        """One version by the beginning of its name; the one in use where none is given.

        Raises:
            InputError: there is none, or several.
        """
        known = self.versions(task)
        chosen = [one for one in known if (one.current if version is None else one.version.startswith(version))]
        if len(chosen) != 1:
            names = ", ".join(one.version for one in known) or "none"
            named = "none of its students answers" if version is None else f"{version!r} names {len(chosen)} of them"
            problem = named if known else "has no student"
            raise InputError("task" if not known else "version", f"{task}: {problem}", f"there: {names}")
        return chosen[0]

    def promote(self, folder: Path, base: Backbone, task: Task | None = None) -> Version:
        """Copy a student into the registry and let it answer from now on, in running processes too.

        Raises:
            ArtifactError: it cannot be used on this base; what answered before goes on.
            StoreError: the registry cannot be written; likewise.
        """
        artifact, _, _ = artifacts.load(folder, base, task)
        name, version = artifact.task.name, artifact.manifest.version
        target = self.folder / _file_name(name) / _VERSIONS / version
        try:
            with self._writing():
                if not target.exists():
                    _copy(folder, target)
                self._point(name, version)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be written: {error.strerror or error}") from error
        return self.find(name, version)

    def use(self, task: str, version: str) -> Version:
        """Let a version answer that is there already.

        Raises:
            InputError: there is no such version.
        """
        chosen = self.find(task, version)
        with self._writing():
            self._point(task, chosen.version)
        return self.find(task, chosen.version)

    def rollback(self, task: str) -> Version | None:
        """Let the version answer again that did before the last promotion; None where no student did.

        Raises:
            InputError: nothing was ever promoted.
        """
        with self._writing():
            pointer = self._pointer()
            if task not in pointer:
                raise InputError("task", f"{task}: nothing was promoted", "there is nothing to go back from")
            history = list(pointer[task]["history"])
            while history and self._place(task, history[-1]) is None:
                history.pop()
            if history:
                pointer[task] = {"version": history.pop(), "history": history, "at": _now()}
            else:
                del pointer[task]
            self._write(pointer)
        return self.find(task) if task in self.current() else None

    def _place(self, task: str, version: str) -> Path | None:
        own = self.folder / _file_name(task) / _VERSIONS / version
        if (own / NAME).is_file():
            return own
        shipped = self._shipped / task
        return shipped if (shipped / NAME).is_file() and read_manifest(shipped).version == version else None

    def _point(self, task: str, version: str) -> None:
        pointer = self._pointer()
        before = pointer.get(task, {"version": None, "history": []})
        history = [*before["history"], *([before["version"]] if before["version"] not in (None, version) else [])]
        pointer[task] = {"version": version, "history": history, "at": _now()}
        self._write(pointer)

    def _pointer(self) -> dict[str, dict[str, Any]]:
        path = self.folder / _POINTER
        try:
            found = json.loads(path.read_text("utf-8"))
            if not all(isinstance(e["version"], str) and isinstance(e["history"], list) for e in found.values()):
                raise ValueError("an entry lacks its version or history")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError("registry", f"{path} cannot be read: {error}", "delete it and promote again") from error
        return cast(dict[str, dict[str, Any]], found)

    def _write(self, pointer: Mapping[str, Any]) -> None:
        fresh = self.folder / f"{_POINTER}.{os.getpid()}"
        try:
            fresh.write_text(json.dumps(pointer, indent=1), "utf-8")
            fresh.replace(self.folder / _POINTER)
        finally:
            fresh.unlink(missing_ok=True)

    def _writing(self) -> AbstractContextManager[Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock", timeout=60)


def _artifacts_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{NAME}") if not path.parent.name.startswith("."))


def _copy(folder: Path, target: Path) -> None:
    """A copy of what a student needs, plots left behind; there whole or not at all."""
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        for path in folder.iterdir():
            if path.is_file() and path.suffix not in _LEFT_BEHIND:
                shutil.copy2(path, fresh / path.name)
        fresh.replace(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _file_name(task: str) -> str:
    if not task or task.startswith(".") or any(c in task for c in "/\\:\0"):
        raise InputError("task", f"{task!r} cannot be the name of a folder", "rename the task")
    return task


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def ship(folder: Path, target: Path | None = None) -> Path:
    """Copy a trained student to where students lie that come with the package: weights, manifest, canary and card only.

    Raises:
        ArtifactError: it is incomplete.
    """
    artifact = artifacts.read(folder)
    place = (target or shipped_folder()) / artifact.task.name
    place.mkdir(parents=True, exist_ok=True)
    for name in (artifacts.ADAPTER, artifacts.HEAD, canary.NAME, artifacts.CARD, NAME):
        shutil.copyfile(folder / name, place / name)
    return place
