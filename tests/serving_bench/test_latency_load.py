import threading
import time

import pytest

from intentmem.memory.errors import DecisionError, InputError, ModelUnavailableError
from intentmem.serving.bench.latency.figures import Place, cost_rows, load_rows, money_of
from intentmem.serving.bench.latency.load import Load, Reply, Sample, Unanswerable, closed_loop, once, open_loop
from intentmem.serving.bench.latency.measure import measure
from intentmem.serving.bench.latency.plan import LatencyPlan
from intentmem.serving.bench.latency.prices import Prices, read_prices
from intentmem.serving.llm.requests import Usage

PLACE = Place("made up", "someone", "scope")


def answered(number: int, worker: int) -> Reply:
    return Reply({number: ("a",)}, Usage(1, 100, 10))


def test_a_closed_loop_keeps_so_many_at_once_and_sends_each_request_once() -> None:
    guard, now, most = threading.Lock(), 0, 0
    sent: list[int] = []

    def call(number: int, worker: int) -> Reply:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
            sent.append(number)
        time.sleep(0.01)
        with guard:
            now -= 1
        return Reply()

    load = closed_loop(call, 12, 3, first=5)
    assert most == 3 and sorted(sent) == list(range(5, 17))
    assert load.name == "c3" and [sample.number for sample in load.samples] == list(range(5, 17))


def test_an_open_loop_counts_from_when_a_request_was_due() -> None:
    lock = threading.Lock()

    def one_at_a_time(number: int, worker: int) -> Reply:
        with lock:
            time.sleep(0.02)
        return Reply()

    load = open_loop(one_at_a_time, 8, rate=1000.0, seed=3)
    # All are due at once, so that the last one waits for seven others.
    assert max(sample.seconds for sample in load.samples) > 0.1
    assert load.name == "r1000" and len(load.answered) == 8


def test_m08_failed_requests_are_counted_and_never_scored() -> None:
    def call(number: int, worker: int) -> Reply:
        if number % 2:
            raise ModelUnavailableError("m", "gone")
        return answered(number, worker)

    load = closed_loop(call, 10, 1)
    rows = {row.metric: row for row in load_rows(PLACE, load, 1000.0, plain=True)}
    assert rows["failed"].value == 5 and rows["failed"].n == 10
    assert rows["p50_ms"].n == 5
    assert len(load.errors) == 5 and "gone" in load.errors[0]
    plan = LatencyPlan(["x"], requests=10, warmup=0, concurrencies=(1,))
    measured = measure(PLACE, call, plan)
    assert set(measured.labels) == {0, 2, 4, 6, 8, 10}
    assert sum(measured.errors.values()) == 5


def test_m08_a_load_that_fails_whole_has_no_latency() -> None:
    def call(number: int, worker: int) -> Reply:
        raise OSError("no")

    rows = list(load_rows(PLACE, closed_loop(call, 3, 1), 1000.0, plain=True))
    assert [row.metric for row in rows] == ["failed"]


def test_m12_the_first_request_and_the_warm_up_are_in_no_other_figure() -> None:
    def call(number: int, worker: int) -> Reply:
        time.sleep({0: 0.2}.get(number, 0.1 if number <= 2 else 0.001))
        return answered(number, worker)

    plan = LatencyPlan(["x"], requests=5, warmup=2, concurrencies=(1, 2), rates=(500.0,))
    measured = measure(PLACE, call, plan)
    rows = {row.metric: row for row in measured.rows(plan, read_prices())}
    assert rows["cold_ms"].value >= 200 and rows["cold_ms"].n == 1
    assert rows["warmup_p50_ms"].value >= 100 and rows["warmup_p50_ms"].n == 2
    assert rows["p50_ms"].n == rows["p99_ms@c2"].n == rows["p50_ms@r500"].n == 5
    numbers = [sample.number for load in measured.loads for sample in load.samples]
    assert sorted(numbers) == list(range(3, 18)), "every request of a load is about something else"


def test_m13_tokens_are_those_of_each_request() -> None:
    rows = {row.metric: row for row in cost_rows(PLACE, closed_loop(answered, 4, 1), "gpt-4o-mini", read_prices())}
    assert (rows["calls"].value, rows["tokens_in"].value, rows["tokens_out"].value) == (1, 100, 10)
    assert rows["money_per_1000"].value == pytest.approx(1000 * (100 * 0.15 + 10 * 0.60) / 1e6)


def test_goodput_leaves_out_what_was_too_late() -> None:
    samples = [Sample(n, seconds, Reply()) for n, seconds in enumerate((0.1, 0.2, 0.9))]
    rows = {row.metric: row.value for row in load_rows(PLACE, Load("c1", samples, 2.0), 500.0, plain=False)}
    assert rows["throughput_per_s@c1"] == 1.5 and rows["goodput_per_s@c1"] == 1.0


def test_m14_the_first_token_and_the_first_text_are_two_figures() -> None:
    sample = Sample(0, 1.0, Reply(), "", first_token_seconds=0.2, first_output_seconds=0.7)
    rows = {row.metric: row.value for row in load_rows(PLACE, Load("c1", [sample], 1.0), 1000.0, plain=True)}
    assert rows["first_token_p50_ms"] == pytest.approx(200) and rows["first_output_p50_ms"] == pytest.approx(700)


def test_a_task_that_a_subject_does_not_answer_is_no_failure() -> None:
    def call(number: int, worker: int) -> Reply:
        raise DecisionError("cannot answer")

    with pytest.raises(Unanswerable):
        once(call, 0)


def prices(text: str, tmp_path: object) -> Prices:
    from pathlib import Path

    path = Path(str(tmp_path)) / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return read_prices(path)


HEAD = 'date = "2026-01-01"\ncurrency = "EUR"\nsource = "here"\n'


def test_a_price_file_of_the_user_counts(tmp_path: object) -> None:
    model = '[[model]]\nname = "mine*"\ninput = 2\noutput = 4\n'
    found = prices(f'{HEAD}{model}[[hour]]\nsubject = "vllm"\nprice = 3.6\n', tmp_path)
    assert found.as_dict() == {"date": "2026-01-01", "currency": "EUR", "source": "here"}
    usage = Usage(1, 1_000_000, 500_000)
    assert money_of("api", "mine-7b", usage, 1.0, found) == pytest.approx(4.0)
    assert money_of("api", "other", usage, 1.0, found) is None
    assert money_of("vllm", "other", usage, 10.0, found) == pytest.approx(0.01)
    assert money_of("students", None, Usage(), 10.0, found) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "date = 1",
        "nonsense",
        HEAD.replace("2026-01-01", "lately"),
        f'{HEAD}[[model]]\nname = "m"\ninput = -1\noutput = 1',
    ],
)
def test_an_unusable_price_file_is_named(text: str, tmp_path: object) -> None:
    with pytest.raises(InputError, match="prices"):
        prices(text, tmp_path)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"subjects": ()}, "subjects"),
        ({"subjects": ("a", "a")}, "subjects"),
        ({"groups": ("thoughts",)}, "groups"),
        ({"teacher": "vllm"}, "teacher"),
        ({"requests": 0}, "requests"),
        ({"concurrencies": (0,)}, "concurrencies"),
        ({"rates": (0.0,)}, "rates"),
        ({"limit_ms": 0}, "limit_ms"),
    ],
)
def test_an_unusable_plan_is_refused(options: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        LatencyPlan(**{"subjects": ("baseline",), **options})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_m10_an_unknown_argument_raises() -> None:
    with pytest.raises(TypeError, match="top_k"):
        LatencyPlan(("baseline",), top_k=3)  # type: ignore[call-arg]


def test_a_key_is_in_no_report() -> None:
    shown = LatencyPlan(("api",), options={"api_key": "sk-secret", "api_url": "http://h/v1"}).as_dict()
    assert "sk-secret" not in repr(shown) and shown["options"]["api_url"] == "http://h/v1"
