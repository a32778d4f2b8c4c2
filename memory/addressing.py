"""Who is meant: one place that turns ids of callers into a namespace, a session and a trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from .errors import InputError

DEFAULT_TRAJECTORY = "main"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a call reads or writes. `session` and `trajectory` None mean all of them to a read.

    `whole_run` says that the session is all there is in the namespace: a run of no named user or agent.
    """

    namespace: str
    trajectory: str | None = None
    session: str | None = None
    whole_run: bool = False


def address(
    namespace: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    trajectory: str | None = None,
    session: str | None = None,
) -> Address:
    """The address of a call.

    A namespace is given as such, or by `user_id`, `agent_id` or both. Ids are percent-encoded and typed, so that no two
    combinations meet in one namespace ("a:b" and "a" with "b" stay apart). `run_id` is one sitting of that user: a
    session of the trajectory, not a wall; alone it is its own namespace.

    Raises:
        InputError: nothing was given, or two things that contradict each other.
    """
    given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "trajectory": trajectory, "session": session}
    for name, value in given.items():
        if value is not None and (not isinstance(value, str) or not value.strip() or not _storable(value)):
            raise InputError(name, f"{value!r} is not a usable id", "pass a non-empty string of valid characters")
    typed = [f"{kind}:{quote(value, safe='')}" for kind, value in (("user", user_id), ("agent", agent_id)) if value]
    if namespace is not None and typed:
        raise InputError("namespace", "was given together with user_id or agent_id", "pass one or the other")
    if run_id is not None and session is not None and run_id != session:
        raise InputError("session", "was given together with another run_id", "pass one or the other")
    whole_run = namespace is None and not typed
    if whole_run:
        if run_id is None:
            raise InputError("namespace", "is required", "pass namespace=, user_id=, agent_id= or run_id=")
        typed = [f"run:{quote(run_id, safe='')}"]
    return Address(namespace if namespace is not None else "/".join(typed), trajectory, session or run_id, whole_run)


def _storable(value: str) -> bool:
    """Whether SQLite can hold a text: no NUL, no lone surrogate."""
    return not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value)
