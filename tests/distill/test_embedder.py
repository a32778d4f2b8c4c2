from __future__ import annotations

import builtins
import hashlib
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intentmem.distill import backbone as backbone_module
from intentmem.distill import weights
from intentmem.distill.backbone import Backbone
from intentmem.distill.embedder import SentenceTransformerEmbedder
from intentmem.distill.layers import Layers
from intentmem.distill.profiles import PROFILES, EmbedderProfile, resolve_profile
from intentmem.memory.errors import EmbedderError, InputError, MissingExtraError
from intentmem.memory.protocols import Embedder
from intentmem.memory.types import Vector

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
WORDS = [f"w{number}" for number in range(200)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Matrices this small only lose by threads, most of all where tests run side by side."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer encoder with random weights and a tokenizer of whole words: all the code, in milliseconds."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    place = tmp_path_factory.mktemp("encoder")
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", ":", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(place)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(place)
    return place


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(weights, "user_cache_path", lambda _: cache)


@pytest.fixture(scope="module")
def shared_embedder(folder: Path) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(EmbedderProfile("tiny", str(folder), query_prefix="query: "), device="cpu")


def fresh(folder: Path, **options: Any) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(EmbedderProfile("tiny", str(folder), query_prefix="query: "), "cpu", **options)


texts_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join), max_size=12)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts_of_words)
def test_sorting_by_length_and_batching_keep_the_order(
    shared_embedder: SentenceTransformerEmbedder, texts: list[str]
) -> None:
    rows = shared_embedder.encode(texts, "passage")
    assert rows.shape == (len(texts), 16)
    for row, text in zip(rows, texts, strict=True):
        np.testing.assert_allclose(row, shared_embedder.encode([text], "passage")[0], atol=1e-5)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(categories=None), max_size=30), max_size=5))
def test_any_text_gets_a_finite_unit_vector(shared_embedder: SentenceTransformerEmbedder, texts: list[str]) -> None:
    rows = shared_embedder.encode([*texts, "", "\0", "\ud800 w1", " "], "passage")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert len(shared_embedder.count_tokens(texts)) == len(texts)


def test_constructing_loads_nothing_and_threads_load_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Path] = []
    real = backbone_module._quietly_loaded

    def counted(place: Path) -> Any:
        loads.append(place)
        return real(place)

    monkeypatch.setattr(backbone_module, "_quietly_loaded", counted)
    embedder = fresh(folder)
    assert embedder.fingerprint.dimension == 16
    assert loads == []
    threads = [threading.Thread(target=embedder.encode, args=(["w1"], "query")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [folder]


def test_h07_prefixes_belong_to_the_profile_and_are_applied_by_kind(
    folder: Path, shared_embedder: SentenceTransformerEmbedder
) -> None:
    query, passage = (shared_embedder.encode(["w1 w2"], kind) for kind in ("query", "passage"))
    assert float((query @ passage.T)[0, 0]) < 0.999
    np.testing.assert_allclose(query, shared_embedder.encode(["query: w1 w2"], "passage"), atol=1e-6)
    np.testing.assert_allclose(passage, shared_embedder.encode(["w1 w2"], "label"), atol=1e-6)
    plain = SentenceTransformerEmbedder(EmbedderProfile("tiny", str(folder)))
    assert plain.fingerprint != shared_embedder.fingerprint
    with pytest.raises(InputError, match="kind"):
        shared_embedder.encode(["w1"], "document")  # type: ignore[arg-type]


def test_j08_the_end_of_a_text_of_five_thousand_tokens_changes_its_vector(folder: Path) -> None:
    embedder = fresh(folder)
    rng = np.random.default_rng(0)
    long = " ".join(rng.choice(WORDS[:100], 5000))
    rows = embedder.encode([long, f"{long} w150", "w3"], "query")
    assert np.abs(rows[0] - rows[1]).max() > 1e-5
    assert embedder.windowed_texts == 2
    assert embedder.count_tokens([long]) == [5000]


def test_windows_overlap_cover_the_text_and_carry_the_prefix(folder: Path) -> None:
    embedder = fresh(folder)
    text = " ".join(WORDS[:100])
    windows = embedder._windows(text, "query: ")
    head, tail = [2, 4, 5], [3]
    assert all(w[:3] == head and w[-1:] == tail and len(w) == 32 for w in windows)
    body = embedder.backbone.tokenizer.encode(text, add_special_tokens=False).ids
    assert windows[0][3:-1] == body[:28]
    assert windows[-1][3:-1] == body[-28:]
    assert {token for w in windows for token in w[3:-1]} == set(body)
    assert all(set(a[3:-1]) & set(b[3:-1]) for a, b in pairwise(windows))
    mean = np.mean([v / np.linalg.norm(v) for v in embedder.backbone.pooled(windows)], axis=0)
    expected = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(embedder.encode([text], "query")[0], expected, atol=1e-5)


def test_j07_a_text_of_thirty_thousand_tokens_is_encoded(shared_embedder: SentenceTransformerEmbedder) -> None:
    assert shared_embedder.encode(["w5 " * 32_000], "passage").shape == (1, 16)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(lambda rows: rows[:, :8], "shape"), (lambda rows: rows[:-1], "shape"), (lambda rows: rows * np.nan, "finite")],
)
def test_h03_a_vector_of_the_wrong_shape_or_value_is_an_error(folder: Path, spoil: Any, message: str) -> None:
    embedder = fresh(folder)
    embedder._forward = lambda sequences: spoil(np.ones((len(sequences), 16), np.float32))  # type: ignore[method-assign]
    with pytest.raises(EmbedderError, match=message):
        embedder.encode(["w1", "w2"], "passage")


def test_running_out_of_memory_halves_the_batch_and_remembers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = fresh(folder)
    texts = [" ".join(WORDS[start : start + 5]) for start in range(40)]
    expected = embedder.encode(texts, "passage")
    real, sizes = embedder.backbone.pooled, []

    def limited(sequences: Sequence[Sequence[int]]) -> Vector:
        sizes.append(len(sequences))
        if len(sequences) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(sequences)

    monkeypatch.setattr(embedder.backbone, "pooled", limited)
    np.testing.assert_allclose(embedder.encode(texts, "passage"), expected, atol=1e-5)
    sizes.clear()
    embedder.encode(texts, "passage")
    assert max(sizes) <= 6


def test_other_failures_of_the_encoder_are_translated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = fresh(folder)

    def broken(*_: object) -> Vector:
        raise RuntimeError("kernel image is missing")

    monkeypatch.setattr(embedder.backbone, "pooled", broken)
    with pytest.raises(EmbedderError, match="kernel image"):
        embedder.encode(["w1", "w2"], "passage")
    with pytest.raises(EmbedderError, match="kernel image"):
        embedder.encode(["w1"], "passage")


def test_a_faster_arithmetic_is_kept_only_where_it_agrees(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone_module, "_fast_dtype", lambda _: torch.bfloat16)
    seconds = {torch.float32: 1.0, torch.bfloat16: 0.5}

    def timed(self: Backbone, states: Layers, canary: list[list[int]]) -> tuple[Vector, float]:
        self._states = states
        return self.pooled(canary), seconds[states.module.dtype]

    monkeypatch.setattr(Backbone, "_timed", timed)
    assert fresh(folder).backbone.dtype is torch.bfloat16
    seconds[torch.bfloat16] = 2.0
    assert fresh(folder).backbone.dtype is torch.float32
    seconds[torch.bfloat16] = 0.5
    monkeypatch.setattr(backbone_module, "_AGREEMENT", 1.1)
    assert fresh(folder).backbone.dtype is torch.float32
    assert fresh(folder, dtype="bfloat16").backbone.dtype is torch.bfloat16
    with pytest.raises(EmbedderError, match="arithmetic"):
        _ = fresh(folder, dtype="int8").backbone


def test_the_fingerprint_follows_the_weights_and_survives_an_unwritable_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh(folder).fingerprint
    monkeypatch.setattr(weights, "user_cache_path", lambda _: Path("/proc/nowhere"))
    assert fresh(folder).fingerprint == first
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    raw = bytearray((other / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (other / "model.safetensors").write_bytes(raw)
    assert fresh(other).fingerprint.weights != first.weights
    (other / "model.safetensors").unlink()
    with pytest.raises(EmbedderError, match="safetensors"):
        _ = fresh(other).fingerprint


def test_weights_are_hashed_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "user_cache_path", lambda _: tmp_path)
    first = weights.weights_digest(folder)

    def never(*_: object) -> None:
        raise AssertionError("hashed again")

    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", never)
        assert weights.weights_digest(folder) == first
    (tmp_path / "weights.json").write_text("not json")
    assert weights.weights_digest(folder) == first


def test_a_missing_package_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "transformers":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"intentmem\[cpu\]"):
        _ = fresh(folder).backbone
    with pytest.raises(MissingExtraError, match=r"intentmem\[cpu\]"):
        EmbedderProfile("gone", "package:gone_weights/model").folder()


def test_models_that_are_not_here_or_of_another_kind_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="hf download nobody/nothing"):
        resolve_profile("nobody/nothing").folder()
    assert resolve_profile(str(folder)).folder() == folder
    assert resolve_profile("e5-small").query_prefix == "query: "
    with pytest.raises(InputError, match="embedder"):
        resolve_profile(" ")
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    with pytest.raises(EmbedderError, match="Dense"):
        backbone_module._pooling_of(tmp_path)


def test_one_text_instead_of_a_list_is_refused(shared_embedder: SentenceTransformerEmbedder) -> None:
    with pytest.raises(InputError, match="texts"):
        shared_embedder.encode("w1 w2", "query")


@pytest.mark.real
def test_the_shipped_encoder_agrees_with_sentence_transformers(recwarn: pytest.WarningsRecorder) -> None:
    from sentence_transformers import SentenceTransformer

    embedder: Embedder = SentenceTransformerEmbedder(device="cpu", dtype="float32")
    texts = [
        "What did Ana order for breakfast?",
        "",
        "It is priced at around 76.22.",
        "Ωmega, 東京 and emoji 🎉",
        " ".join(f"Stop {number} is a small town on the coast." for number in range(20)),
    ]
    reference = SentenceTransformer(str(PROFILES["embedded"].folder()), device="cpu", local_files_only=True)
    expected = reference.encode(texts, normalize_embeddings=True)
    assert (embedder.encode(texts, "passage") * expected).sum(axis=1).min() >= 0.9999
    assert embedder.fingerprint.dimension == 384


@pytest.mark.real
def test_j08_the_shipped_encoder_finds_an_entity_at_the_end_of_a_long_text() -> None:
    embedder = SentenceTransformerEmbedder(device="cpu", dtype="float32")
    filler = "We talked about the weather and the garden for a while. " * 60
    rows = embedder.encode([filler, f"{filler} Then Priya booked the Ritz-Carlton in Osaka."], "passage")
    query = embedder.encode(["Which hotel in Osaka was booked?"], "query")[0]
    assert embedder.windowed_texts == 2
    assert rows[1] @ query > rows[0] @ query + 0.05
