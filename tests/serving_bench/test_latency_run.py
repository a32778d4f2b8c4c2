import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from intentmem.memory.errors import InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.tasks import PLAN, SCOPE, SUPPORT
from intentmem.serving.bench.commands import app
from intentmem.serving.bench.latency.files import write_all
from intentmem.serving.bench.latency.plan import LatencyPlan
from intentmem.serving.bench.latency.run import Run, run
from intentmem.serving.bench.latency.stand_in import StandInServer
from intentmem.serving.bench.latency.subjects import Context, make_decider, make_subject, register
from intentmem.serving.bench.report import Row
from intentmem.serving.llm import LLMClient, LLMSettings, TextRequest
from intentmem.serving.settings import load_settings

HASH = {"embedder": {"profile": "hash"}}


def measured(**given: Any) -> tuple[Run, dict[tuple[str, str, str], Row]]:
    options = {"subjects": ("baseline", "stand-in"), "requests": 3, "warmup": 1, "samples": 20, "overrides": HASH}
    found = run(LatencyPlan(**{**options, "concurrencies": (1, 2), **given}))
    return found, {(row.subject, row.group, row.metric): row for row in found.report.rows}


@pytest.fixture(scope="module")
def whole() -> tuple[Run, dict[tuple[str, str, str], Row]]:
    """Every kind of group by rules and by a stand-in that thinks first and takes 20 ms."""
    return measured(
        groups=("scope", "plan", "support", "write", "read"),
        teacher="stand-in",
        rates=(50.0,),
        check=True,
        options={"delay_ms": 20, "token_delay_ms": 5, "thinking": True},
    )


def test_every_group_has_its_figures_side_by_side(whole: tuple[Run, dict[tuple[str, str, str], Row]]) -> None:
    made, rows = whole
    for group in ("scope", "plan", "write", "read"):
        for subject in ("baseline", "stand-in"):
            for metric in ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "throughput_per_s", "goodput_per_s", "cold_ms"):
                assert (subject, group, metric) in rows, (subject, group, metric)
            assert (subject, group, "p95_ms@c2") in rows and (subject, group, "p95_ms@r50") in rows
        assert rows["stand-in", group, "p50_ms"].value >= 20
        assert rows["baseline", group, "calls"].value == 0 and rows["stand-in", group, "tokens_in"].value > 0
    assert made.report.header["failures"] == {}
    assert made.report.header["not_answered"] == {"baseline": ["support"]}


def test_agreement_stands_beside_latency_with_its_interval(whole: tuple[Run, dict[tuple[str, str, str], Row]]) -> None:
    made, rows = whole
    row = rows["baseline", "plan", "agreement"]
    assert row.n == 11 and row.low is not None and row.high is not None and 0 <= row.low <= row.high <= 1
    assert ("stand-in", "plan", "agreement") not in rows and made.report.header["teacher"] == "stand-in"


def test_m14_reasoning_comes_before_text(whole: tuple[Run, dict[tuple[str, str, str], Row]]) -> None:
    _, rows = whole
    for group in ("read", "answer"):
        first, output = (rows["stand-in", group, f"first_{name}_p50_ms"].value for name in ("token", "output"))
        assert output - first > 10, "three pieces of reasoning, 5 ms each"
    assert ("baseline", "read", "first_token_p50_ms") not in rows


def test_m11_a_second_client_times_the_same_stream(whole: tuple[Run, dict[tuple[str, str, str], Row]]) -> None:
    made, rows = whole
    header = made.report.header
    for subject in ("stand-in", "stand-in (second client)"):
        assert rows[subject, "check", "first_token_p50_ms"].value >= 20
        assert rows[subject, "check", "first_output_p50_ms"].value > rows[subject, "check", "first_token_p50_ms"].value
    assert "intentmem" in header["tools"]["client"] and "http.client" in header["tools"]["second client"]
    assert "reasoning" in header["definitions"]["first_token"]


def test_a_report_says_what_is_needed_to_judge_it(whole: tuple[Run, dict[tuple[str, str, str], Row]]) -> None:
    header = whole[0].report.header
    assert header["benchmark"] == "latency" and header["commit"] and header["data_hash"]
    assert {"cpu", "cores", "memory_bytes", "gpu"} == set(header["hardware"])
    about = header["subjects"]["stand-in"]
    assert about["model"] == "stand-in" and about["flags"] == {"delay_s": 0.02} and about["server_version"]
    assert header["stand_ins"] == ["stand-in"] and "no model" in about["stand_in"]
    assert header["prices"]["date"] and header["configuration"]["concurrencies"] == (1, 2)


def test_files_hold_all_rows_and_name_the_stand_in(
    whole: tuple[Run, dict[tuple[str, str, str], Row]], tmp_path: Path
) -> None:
    made, rows = whole
    paths = write_all(made, tmp_path / "out")
    assert [path.name for path in paths] == [
        *("report.json", "report.csv", "report.md"),
        *("latency.png", "cost.png", "throughput.png"),
    ]
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in paths[3:])
    with (tmp_path / "out" / "report.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert len(json.loads(paths[0].read_text(encoding="utf-8"))["rows"]) == len(rows)
    text = paths[2].read_text(encoding="utf-8")
    assert "stand-in is a stand-in" in text and "## plan" in text and "![cost](cost.png)" in text


def test_m08_a_server_that_fails_is_counted(tmp_path: Path) -> None:
    options = {"delay_ms": 1, "fail_every": 2}
    given = {**HASH, "llm": {"max_retries": 0}}
    made, rows = measured(subjects=("stand-in",), groups=("support",), options=options, overrides=given)
    failed = sum(rows["stand-in", "support", f"failed{end}"].value for end in ("", "@c2"))
    assert failed > 0 and made.report.header["failures"]["stand-in"] >= failed
    assert "told to fail" in made.report.header["errors"]["stand-in"]


def test_items_of_a_trace_file_are_asked_and_compared(tmp_path: Path) -> None:
    from intentmem.distill.trace_files import write_traces
    from intentmem.distill.traces import Trace

    labels = ("point", "value", "one", "direct")
    traces = [
        Trace(PLAN.name, PLAN.hash, {"question": f"What is the price of thing {n}?"}, labels, "gold:made up", f"c{n}")
        for n in range(6)
    ]
    write_traces(tmp_path / "traces.jsonl", traces)
    made, rows = measured(subjects=("baseline",), groups=("plan",), traces=tmp_path / "traces.jsonl")
    assert rows["baseline", "plan", "agreement"].n == 6
    assert made.report.header["teacher"] == "traces"


def test_a_corpus_is_measured_too(two_people: Path) -> None:
    made, rows = measured(subjects=("baseline",), groups=("scope", "read"), path=two_people, concurrencies=(1,))
    assert rows["baseline", "scope", "p50_ms"].corpus == "locomo"
    assert made.report.header["configuration"]["turns"] == 6


def test_a_decider_of_the_users_own_is_one_more_subject() -> None:
    from intentmem.memory.deciders import BaselineDecider
    from intentmem.serving.bench.latency.subjects import SUBJECTS, Subject

    register("mine", lambda context: Subject("mine", BaselineDecider(), {"model": "mine"}))
    try:
        _, rows = measured(subjects=("mine",), groups=("plan",))
        assert rows["mine", "plan", "p50_ms"].n == 3
        context = Context(load_settings(HASH), HashEmbedder())
        assert make_decider("mine", context).name == "baseline"
    finally:
        del SUBJECTS["mine"]


@pytest.mark.parametrize(
    ("name", "field"), [("vllm", "llm.base_url"), ("api", "api_url"), ("gpt", "subjects"), ("students", "decider.kind")]
)
def test_a_subject_that_cannot_be_made_says_what_it_needs(name: str, field: str) -> None:
    with pytest.raises(InputError) as caught:
        make_subject(name, Context(load_settings(HASH), HashEmbedder()))
    assert caught.value.field == field


def test_students_and_a_cascade_over_a_served_model_are_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    from intentmem.distill.cascade import CascadeDecider
    from intentmem.memory.deciders import BaselineDecider
    from intentmem.memory.protocols import Decider

    def composed(settings: Any, embedder: Any, client: LLMClient | None = None) -> Decider:
        if client is None:
            return BaselineDecider()
        from intentmem.serving.llm.asking import Asker
        from intentmem.serving.llm.deciders import LLMDecider

        return CascadeDecider(BaselineDecider(), LLMDecider(Asker(client)), {PLAN.name: 0.0})

    monkeypatch.setattr("intentmem.serving.compose.make_decider", composed)
    made, rows = measured(
        subjects=("students", "cascade"),
        groups=("plan", "support", "read"),
        options={"delay_ms": 5, "cascade_teacher": "stand-in"},
        teacher="cascade",
    )
    assert made.report.header["failures"] == {} and made.report.header["stand_ins"] == ["cascade"]
    assert rows["cascade", "plan", "calls"].value == 0, "confident students are not asked about"
    assert rows["cascade", "support", "calls"].value == 1, "the teacher answers what no student does"
    assert rows["students", "plan", "agreement"].value == 1


def test_scope_items_are_the_same_in_any_space_but_for_their_vectors(tmp_path: Path) -> None:
    from support import make_memory

    from intentmem.memory.types import NewTurn
    from intentmem.serving.bench.latency.items import ItemMaker, Material

    turns = tuple(NewTurn("user", f"Let us talk about {s} again.") for s in ("kayak", "violin") * 4)
    source = Material("made up", "", turns, ("a", "b") * 4, ())
    with make_memory(tmp_path / "m") as memory:
        maker = ItemMaker(source, memory, 20)
        ours, theirs = maker.of(SCOPE), maker.of(SCOPE, HashEmbedder(64))
        assert len(maker.of(SUPPORT)) == 8
    assert len(ours) == len(theirs) == 7
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.fields, mine.candidates.ids) == (other.fields, other.candidates.ids)
        assert mine.vector is not None and other.vector is not None and other.vector.shape == (64,)
    assert ours[0].candidates.ids == ("a",), "an item is not changed by the turns after it"


def test_a_stand_in_streams_thoughts_before_text() -> None:
    with StandInServer(0.0, thinking=True) as server, LLMClient(LLMSettings(base_url=server.url)) as client:
        tokens: list[str] = []
        request = TextRequest([{"role": "user", "content": "hello"}])
        text = "".join(client.stream(request, on_token=lambda: tokens.append("first")))
        assert text == "The memory says so [T1]." and tokens == ["first"]


def test_the_command_writes_its_files(tmp_path: Path) -> None:
    options = ["--subjects", "baseline", "--groups", "plan", "--profile", "hash", "--requests", "3"]
    done = CliRunner().invoke(
        app, ["latency", *options, "--out", str(tmp_path / "o"), "--json", str(tmp_path / "r.json")]
    )
    assert done.exit_code == 0, done.output
    assert (
        "sample, plan" in done.output and (tmp_path / "o" / "report.md").is_file() and (tmp_path / "r.json").is_file()
    )


def test_a_task_of_a_file_has_its_row(tmp_path: Path) -> None:
    head = 'name = "{0}"\nquestion = "How?"\nspace = "{1}"\n[labels]\ncalm = "at ease"\nupset = "not at ease"\n'
    files = []
    for name, space in (("tone", "closed"), ("moods", "open")):
        files += ["--task", str(tmp_path / f"{name}.toml")]
        (tmp_path / f"{name}.toml").write_text(head.format(name, space))
    options = ["--subjects", "stand-in", "--profile", "hash", "--requests", "3", "--groups", "tone,moods", *files]
    done = CliRunner().invoke(app, ["latency", *options, "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "r.json").read_text())
    assert {row["group"] for row in report["rows"] if row["metric"] == "p95_ms"} == {"tone", "moods"}
    assert report["header"]["failures"] == {} and report["header"]["not_answered"] == {}
    assert report["header"]["configuration"]["labels"] == {"moods": ["calm", "upset"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "absent.toml"], "absent.toml cannot be read"),
        (["--subjects", "gpt"], "'gpt' is unknown"),
        (["--subjects", "vllm"], "llm.base_url: is not set"),
        (["--rates", "fast"], "'fast' is no list of numbers"),
        (["--prices", "absent.toml"], "absent.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(options: list[str], message: str) -> None:
    given = ["latency", "--subjects", "baseline", "--profile", "hash", *options]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output
