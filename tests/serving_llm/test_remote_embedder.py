import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import assert_sound

from intentmem.memory.clock import SystemClock
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import EmbedderError, EmbedderMismatchError, InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory
from intentmem.memory.store import Store
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.serving import open_memory
from intentmem.serving.llm import RemoteEmbedder, RemoteEmbedderSettings

from .stand_in import MODEL, Raw, StandIn, failure

Make = Callable[..., RemoteEmbedder]
DIMENSION = 8


def vector(text: str, dimension: int = DIMENSION) -> list[float]:
    counts = np.zeros(dimension)
    for character in text:
        counts[ord(character) % dimension] += 1
    return [float(value) for value in counts + 0.1]


def embeds(limit: int = 10_000, dimension: int = DIMENSION) -> Callable[[dict[str, Any]], Raw]:
    """An endpoint that accepts so many texts a request, and returns them in another order."""

    def answer(body: dict[str, Any]) -> Raw:
        if len(body["input"]) > limit:
            return failure(400, f"batch size is invalid, it should not be larger than {limit}")
        rows = [{"index": i, "embedding": vector(text, dimension)} for i, text in enumerate(body["input"])]
        return Raw(json.dumps({"object": "list", "data": rows[::-1]}).encode())

    return answer


@pytest.fixture
def make(server: StandIn) -> Iterator[Make]:
    made: list[RemoteEmbedder] = []
    server.on["/v1/embeddings"] = embeds()

    def embedder(**settings: Any) -> RemoteEmbedder:
        given = {"base_url": server.url, "backoff_seconds": 0.01, **settings}
        made.append(RemoteEmbedder(RemoteEmbedderSettings(**given)))
        return made[-1]

    yield embedder
    for one in made:
        one.close()


def sizes(server: StandIn) -> list[int]:
    return [len(request.body["input"]) for request in server.requests if request.path == "/v1/embeddings"]


def test_texts_become_unit_vectors_in_order(make: Make, server: StandIn) -> None:
    texts = [f"text {i}" for i in range(70)]
    found = make(batch_size=32).encode(texts, "passage")
    expected = np.array([vector(text) for text in texts], np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert found.dtype == np.float32 and np.allclose(found, expected, atol=1e-6)
    assert sorted(sizes(server)) == [6, 32, 32]
    assert set(server.requests[-1].body) == {"model", "input", "encoding_format"}
    assert server.paths <= {"/v1/embeddings", "/v1/models", "/tokenize"}


def test_a24_a_batch_that_is_refused_is_halved_and_the_size_kept(make: Make, server: StandIn) -> None:
    server.on["/v1/embeddings"] = embeds(limit=10)
    embedder = make(batch_size=64, max_concurrency=1)
    assert embedder.encode([f"text {i}" for i in range(64)], "passage").shape == (64, DIMENSION)
    assert embedder.batch_size == 8
    del server.requests[:]
    embedder.encode([f"text {i}" for i in range(24)], "passage")
    assert sizes(server) == [8, 8, 8]


def test_a24_a_memory_is_filled_through_a_server_that_takes_ten_texts(
    make: Make, server: StandIn, tmp_path: Path
) -> None:
    server.on["/v1/embeddings"] = embeds(limit=10)
    store = Store(tmp_path / "memory")
    with Memory(store, make(), BaselineDecider(), ExtractiveWriter(), SystemClock()) as memory:
        turns = [{"role": "user", "content": f"Remark number {i} about Porto."} for i in range(40)]
        assert memory.add(turns, namespace="n")["status"] == "done"


def test_one_text_that_is_refused_is_named_and_leaves_the_size_alone(make: Make, server: StandIn) -> None:
    def picky(body: dict[str, Any]) -> Raw:
        return failure(400, "too long") if any("bad" in text for text in body["input"]) else embeds()(body)

    server.on["/v1/embeddings"] = picky
    embedder = make(batch_size=8)
    with pytest.raises(EmbedderError, match=r"text 5 \(3 characters\): too long"):
        embedder.encode([*"abcde", "bad", "f"], "passage")
    assert embedder.batch_size == 8


@pytest.mark.parametrize(
    "wrong",
    [
        embeds(dimension=DIMENSION - 2),
        Raw(b'{"data": []}'),
        Raw(b"{}"),
        Raw(b'{"data": [{"index": 0, "embedding": [0, 0, 0, 0, 0, 0, 0, 0]}]}'),
        Raw(b'{"data": [{"index": 0, "embedding": [NaN, 0, 0, 0, 0, 0, 0, 0]}]}'),
        Raw(b'{"data": [{"index": 1, "embedding": [1, 0, 0, 0, 0, 0, 0, 0]}]}'),
    ],
)
def test_h03_each_reply_is_checked(make: Make, server: StandIn, wrong: Any) -> None:
    embedder = make()
    assert embedder.fingerprint.dimension == DIMENSION
    server.on["/v1/embeddings"] = wrong
    with pytest.raises(EmbedderError):
        embedder.encode(["text"], "passage")


def test_h03_a_turn_whose_vector_has_the_wrong_length_waits(make: Make, server: StandIn, tmp_path: Path) -> None:
    store = Store(tmp_path / "memory")
    with Memory(store, make(), BaselineDecider(), ExtractiveWriter(), SystemClock()) as memory:
        memory.add([{"role": "user", "content": "The key lies under the can."}], namespace="n")
        server.on["/v1/embeddings"] = embeds(dimension=DIMENSION * 2)
        failed = memory.add([{"role": "user", "content": "The gate is green."}], namespace="n")
        assert failed["status"] == "failed"
        assert "16 dimensions, expected 8" in str(memory.status("n"))
        server.on["/v1/embeddings"] = embeds()
        memory.process(namespace="n", retry_failed=True)
        assert memory.status("n")["namespaces"][0]["embedded"] == 2


def test_a_configured_dimension_is_held_against_the_first_reply(make: Make) -> None:
    with pytest.raises(EmbedderError, match="8 dimensions, expected 1024"):
        make(dimension=1024).encode(["text"], "passage")


def test_the_fingerprint_names_the_model_and_its_prefixes(make: Make, server: StandIn) -> None:
    embedder = make(query_prefix="query: ")
    assert embedder.fingerprint.name == f"remote:{MODEL}" and embedder.fingerprint.query_prefix == "query: "
    embedder.encode(["where"], "query")
    assert server.requests[-1].body["input"] == ["query: where"]
    assert make(model="other").fingerprint.weights != embedder.fingerprint.weights


def test_a_long_text_is_read_in_windows(make: Make, server: StandIn) -> None:
    text = " ".join(f"word{i}" for i in range(100))
    embedder = make(window_tokens=32, model=MODEL)
    assert embedder.encode([text, "short"], "passage").shape == (2, DIMENSION)
    sent = [part for request in server.requests if request.path == "/v1/embeddings" for part in request.body["input"]]
    assert len(sent) > 4 and max(len(part.split()) for part in sent) <= 31
    assert set(" ".join(sent).split()) >= set(text.split())


def test_tokens_are_counted_or_guessed(make: Make, server: StandIn) -> None:
    embedder = make()
    assert embedder.count_tokens(["one two three"]) == [3] and embedder.counts_exactly
    server.on["/tokenize"] = failure(404)
    assert embedder.count_tokens(["one two three"])[0] > 0 and not embedder.counts_exactly


def test_an_overloaded_server_is_asked_again_and_one_that_is_away_is_an_error(make: Make, server: StandIn) -> None:
    turns = iter([failure(503), failure(429, retry_after="0"), None])
    server.on["/v1/embeddings"] = lambda body: next(turns, None) or embeds()(body)
    embedder = make()
    assert embedder.encode(["a"], "passage").shape == (1, DIMENSION)
    server.on["/v1/embeddings"] = failure(500)
    with pytest.raises(EmbedderError, match="500"):
        embedder.encode(["a"], "passage")


def test_no_texts_are_no_rows_and_a_bare_text_is_refused(make: Make) -> None:
    embedder = make()
    assert embedder.encode([], "passage").shape == (0, DIMENSION)
    for call in (lambda: embedder.encode("text", "passage"), lambda: embedder.count_tokens("text")):
        with pytest.raises(InputError, match="texts"):
            call()


@pytest.fixture
def served_as_hash(server: StandIn) -> HashEmbedder:
    """The server makes the vectors that the hash embedder makes: one encoder behind another program."""
    inner = HashEmbedder()

    def answer(body: dict[str, Any]) -> Raw:
        rows = inner.encode(body["input"], "passage")
        data = [{"index": at, "embedding": [float(value) for value in row]} for at, row in enumerate(rows)]
        return Raw(json.dumps({"object": "list", "data": data}).encode())

    server.on["/v1/embeddings"] = answer
    return inner


def remote(server: StandIn, **more: Any) -> dict[str, Any]:
    return {"embedder": {"profile": "remote", "base_url": server.url, "backoff_seconds": 0.01, **more}}


def test_a_served_encoder_is_a_profile(server: StandIn, served_as_hash: HashEmbedder, folder: Path) -> None:
    with open_memory(folder, **remote(server)) as memory:
        assert memory.add("The hotel in Porto is by the river.", namespace="n")["status"] == "done"
        assert memory.embedder.fingerprint.name == f"remote:{MODEL}"
        assert memory.search("hotel in Porto", namespace="n", recipe="dense")["results"]
    assert server.paths == {"/v1/models", "/v1/embeddings", "/tokenize"} or server.paths == {
        "/v1/models",
        "/v1/embeddings",
    }


def test_a_served_encoder_without_an_address_names_the_setting(folder: Path) -> None:
    with pytest.raises(InputError, match=r"embedder\.base_url: is not set"):
        open_memory(folder, embedder="remote")


def test_h08_a_served_encoder_keeps_the_vectors_only_where_it_makes_the_same(
    server: StandIn, served_as_hash: HashEmbedder, folder: Path
) -> None:
    texts = [f"Note {number} is about the garden and the kayak." for number in range(120)]
    with open_memory(folder, embedder="hash") as memory:
        memory.add([{"role": "user", "content": text} for text in texts], namespace="n")
    with open_memory(folder, **remote(server)) as memory:
        with pytest.raises(EmbedderMismatchError):
            memory.search("kayak", namespace="n", recipe="dense")
        before = len(sizes(server))
        assert memory.reembed(keep=True) == 0
        assert 100 <= sum(sizes(server)[before:]) <= 101, "a hundred turns are compared, nothing is encoded anew"
        assert memory.search(texts[7], namespace="n", recipe="dense")["results"][0]["memory"] == texts[7]
        memory.add("Note 120 is about the garden too.", namespace="n")
        assert_sound(memory, "n")


def test_h08_other_vectors_are_refused_and_nothing_changes(
    server: StandIn, served_as_hash: HashEmbedder, folder: Path
) -> None:
    with open_memory(folder, embedder="hash") as memory:
        memory.add([{"role": "user", "content": f"Note {n} on kayaks."} for n in range(20)], namespace="n")
        stored = memory.store.embeddings.active(memory.store.namespaces.ordinal("n"))
    right = server.on["/v1/embeddings"]

    def slightly_off(body: dict[str, Any]) -> Raw:
        found = json.loads(right(body).body)
        for row in found["data"]:
            row["embedding"][0] += 0.1
        return Raw(json.dumps(found).encode())

    server.on["/v1/embeddings"] = slightly_off
    with open_memory(folder, **remote(server)) as memory:
        with pytest.raises(InputError, match=r"embedder\.profile: .*below 0\.999 for 20 of 20"):
            memory.reembed(keep=True)
        assert memory.store.embeddings.active(memory.store.namespaces.ordinal("n")) == stored
    server.on["/v1/embeddings"] = right
    with open_memory(folder, **remote(server, query_prefix="query: ")) as memory:
        with pytest.raises(InputError, match="prefixes"):
            memory.reembed(keep=True)
        assert memory.reembed() == 20
    with open_memory(folder, embedder="hash") as memory, pytest.raises(EmbedderMismatchError):
        memory.search("kayak", namespace="n", recipe="dense")
