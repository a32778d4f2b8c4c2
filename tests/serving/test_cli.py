import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Outcome

Cli = Callable[..., Outcome]


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A short chat with two subjects."""
    path = tmp_path / "chat.txt"
    path.write_text(
        "[2026-03-02 09:00] user: I want to plan a trip to Porto.\n"
        "[2026-03-02 09:01] assistant: The Casa do Cais costs 134 euros a night.\n"
        "[2026-03-03 18:00] user: How long does focaccia dough rise?\n"
        "[2026-03-03 18:01] assistant: Two hours in a warm oven.\n"
    )
    return path


@pytest.fixture
def filled(cli: Cli, chat: Path) -> Cli:
    assert cli("ingest", chat).code == 0
    return cli


def payload(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) == 1, "one JSON object and nothing else"
    return json.loads(lines[0])


def ids(cli: Cli) -> list[str]:
    return [turn["id"] for turn in payload(cli("list", "--json"))["results"]]


def test_an_explanation_shows_what_a_question_needed_and_what_was_found(filled: Cli) -> None:
    found = payload(filled("search", "What does the Casa do Cais cost?", "--explain", "--json"))
    assert found["reading"]["answerable"] == "covered" and found["reading"]["requirements"]
    shown = filled("search", "What does the Casa do Cais cost?", "--explain")
    assert shown.code == 0 and "answerable" in shown.out and "covered" in shown.out


def test_ingest_and_search_find_a_turn(filled: Cli) -> None:
    found = payload(filled("search", "price of the Casa do Cais", "--limit", 1, "--json"))
    assert found["results"][0]["memory"] == "The Casa do Cais costs 134 euros a night."
    assert "134 euros" in filled("search", "price of the Casa do Cais").out


def test_filters_of_the_search_reach_the_memory(filled: Cli) -> None:
    found = payload(filled("search", "Porto", "--role", "assistant", "--since", "2026-03-03", "--json"))
    assert [turn["memory"] for turn in found["results"]] == ["Two hours in a warm oven."]


def test_ingesting_again_stores_nothing_twice(filled: Cli, chat: Path) -> None:
    again = payload(filled("ingest", chat, "--json"))
    assert (again["added"], again["already_there"], again["llm_calls"]) == (0, 4, 0)
    assert len(ids(filled)) == 4


def test_b03_a_dry_run_counts_and_stores_nothing(cli: Cli, chat: Path, tmp_path: Path) -> None:
    found = payload(cli("ingest", chat, "--dry-run", "--json"))
    assert (found["turns"], found["llm_calls"], found["unusable"]) == (4, 0, [])
    assert found["tokens"] > 20 and found["estimated_seconds"] >= 0
    assert not (tmp_path / "memory").exists()


def test_a_file_with_unusable_messages_is_refused_as_a_whole(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"role": "user", "content": "fine"}\n{"role": "robot", "content": "what"}\n')
    refused = cli("ingest", path)
    assert refused.code == 2 and "line 2.role" in refused.err and not (tmp_path / "memory").exists()
    assert payload(cli("ingest", path, "--skip-unusable", "--json"))["added"] == 1


@pytest.mark.parametrize("command", ["scopes", "timeline", "list", "status"])
def test_looking_prints_a_table_or_one_object(filled: Cli, command: str) -> None:
    assert filled(command).out.strip()
    assert payload(filled(command, "--json"))


def test_context_is_quoted_text_within_the_budget(filled: Cli) -> None:
    found = payload(filled("context", "hotel price", "--budget", 120, "--json"))
    assert 0 < found["tokens"] <= 120
    assert "recalled_memory" in filled("context", "hotel price").out


def test_history_follows_the_scope_of_a_turn(filled: Cli) -> None:
    first = ids(filled)[0]
    assert first in [turn["id"] for turn in payload(filled("history", first, "--json"))["results"]]


def test_labels_are_set_merged_restored_and_split_by_hand(filled: Cli) -> None:
    turns = ids(filled)
    assert payload(filled("relabel", *turns[:2], "--scope", "Porto", "--json"))["relabelled"] == 2
    payload(filled("relabel", *turns[2:], "--scope", "Bread", "--json"))
    payload(filled("rename", "Bread", "Baking", "--json"))
    payload(filled("merge", "Baking", "--into", "Porto", "--json"))
    assert [s["label"] for s in payload(filled("scopes", "--json"))["results"]] == ["Porto"]
    payload(filled("unmerge", "Baking", "--json"))
    payload(filled("split", "Porto", turns[1], "--into", "Prices", "--json"))
    assert {s["label"] for s in payload(filled("scopes", "--json"))["results"]} == {"Porto", "Baking", "Prices"}


def test_delete_and_erase_need_a_yes(filled: Cli, tmp_path: Path) -> None:
    first = ids(filled)[0]
    refused = filled("delete", first)
    assert refused.code == 2 and "--yes" in refused.err and len(ids(filled)) == 4
    assert payload(filled("delete", first, "--yes", "--json"))["deleted"] == 1
    assert filled("erase", "--yes").code == 2, "what to erase has no default"
    assert payload(filled("erase", "-n", "default", "--yes", "--json"))["removed"]["turn"] == 3
    assert b"focaccia" not in (tmp_path / "memory" / "memory.sqlite3").read_bytes()


def test_export_and_import_keep_what_a_search_finds(filled: Cli, tmp_path: Path) -> None:
    target = tmp_path / "export.jsonl"
    assert payload(filled("export", target, "--json"))["lines"]["turn"] == 4
    before = payload(filled("search", "warm oven", "--json"))["results"]
    payload(filled("erase", "-n", "default", "--yes", "--json"))
    payload(filled("import", target, "--json"))
    after = payload(filled("search", "warm oven", "--json"))["results"]
    assert [(t["id"], t["scope"]) for t in after] == [(t["id"], t["scope"]) for t in before]


def test_process_and_reembed_report_what_they_did(filled: Cli) -> None:
    assert payload(filled("process", "--json")) == {"done": 0, "pending": 0, "failed": 0}
    assert payload(filled("reembed", "--json"))["embedder"].startswith("hash@")


def test_f19_the_doctor_writes_searches_and_deletes_for_real(filled: Cli) -> None:
    report = payload(filled("doctor", "--json"))
    assert report["sound"]
    assert {"write", "search", "delete", "namespace default"} <= {check["name"] for check in report["checks"]}
    assert [s["namespace"] for s in payload(filled("status", "--json"))["namespaces"]] == ["default"]


def test_the_doctor_fails_with_a_remedy(filled: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = filled("doctor", "--path", tmp_path / "file")
    assert failed.code == 1 and "FAIL" in failed.out and "writable" in failed.out


def test_owners_are_walls(cli: Cli, chat: Path) -> None:
    assert cli("ingest", chat, "--user", "mara").code == 0
    other = cli("search", "Porto", "--user", "tomas")
    assert other.code == 2 and "does not exist" in other.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("search", "x"), 2, "holds no memory yet"),
        (("ingest", "absent.json"), 2, "does not exist"),
        (("search",), 2, "Missing argument"),
        (("search", "x", "--embedder", "hash", "--no-such"), 2, "No such option"),
        (("config", "show", "--path", ""), 0, ""),
    ],
)
def test_mistakes_are_one_clear_line_without_traceback(
    cli: Cli, arguments: tuple[str, ...], code: int, said: str
) -> None:
    outcome = cli(*arguments)
    assert outcome.code == code and said in outcome.err and "Traceback" not in outcome.err


def test_control_characters_of_stored_text_are_shown_not_sent(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "red \x1b[31m[bold]alert[/bold] :smile:"}))
    assert cli("ingest", path).code == 0
    shown = cli("list").out
    assert "\x1b" not in shown and "[bold]alert[/bold] :smile:" in shown


def test_config_show_names_every_origin(cli: Cli) -> None:
    settings = payload(cli("config", "show", "--json"))["settings"]
    assert settings["store.path"]["origin"] == "INTENTMEM_STORE__PATH"
    assert "INTENTMEM_STORE__PATH" in cli("config", "show").out


def test_demo_shows_scopes_a_timeline_and_answers(cli: Cli, tmp_path: Path) -> None:
    found = payload(cli("demo", "--path", tmp_path / "demo", "--json"))
    assert found["turns"] == 62 and found["status"] == "done"
    assert len(found["answers"]) == 5 and all(answer["evidence"] for answer in found["answers"])
    assert len(found["scopes"]) > 1 and len(found["timeline"]) > 3
    assert not (tmp_path / "memory").exists()


def run_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from intentmem.serving.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "INTENTMEM_EMBEDDER__PROFILE": "hash", **environment},
    )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['intentmem', '--help']\n"
        "from intentmem.serving.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'pydantic', 'torch', 'faiss', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_process_prints_one_object_and_exits_cleanly() -> None:
    done = run_process("demo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["turns"] == 62
    assert run_process("--version").stdout.startswith("intentmem ")


def test_a_killed_ingest_continues_without_duplicates(tmp_path: Path) -> None:
    chat = tmp_path / "long.jsonl"
    lines = (json.dumps({"role": "user", "content": f"Note {n}: shelf {n % 7} holds box {n}."}) for n in range(400))
    chat.write_text("\n".join(lines))
    where = ("--path", str(tmp_path / "memory"), "--embedder", "hash", "--json")
    arguments = [sys.executable, "-c", "from intentmem.serving.cli import main; main()", "ingest", str(chat), *where]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    database = tmp_path / "memory" / "memory.sqlite3-wal"
    while process.poll() is None and not (database.exists() and database.stat().st_size > 100_000):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = json.loads(run_process("ingest", str(chat), *where).stdout)
    assert again["added"] + again["already_there"] == 400 and again["pending"] == again["failed"] == 0
    listed = json.loads(run_process("list", "--limit", "2000", *where).stdout)
    assert [turn["memory"].split(":")[0] for turn in listed["results"]] == [f"Note {n}" for n in range(400)]
