from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.distill.backbone import Backbone
from intentmem.distill.profiles import EmbedderProfile
from intentmem.distill.students.spans_reading import HISTORY_OF_LONG, MOST_WINDOWS, kept_in_length, passages

WORDPIECES = ["caf", "##e", "7", ":", "30", "pm", "at", "zur", "##ich", "$", ".", "a", "##b", "東", "京", "b"]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    """A small encoder with BERT's own normaliser and word pieces: it lower-cases, and strips accents."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    place = tmp_path_factory.mktemp("pieces")
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDPIECES])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(place)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(place)
    return Backbone(place, EmbedderProfile("pieces", str(place), pooling="mean"), "cpu", "float32")


def words(base: Backbone, text: str, limit: int = 32) -> list[str]:
    (found,) = passages(base, [text], [[]], limit)
    return [text[start:end] for start, end in found.words]


def test_words_are_cut_from_the_text_as_it_was_written(pieces: Backbone) -> None:
    assert words(pieces, "CAFÉ at 7:30 pm") == ["CAFÉ", "at", "7", ":", "30", "pm"]
    assert words(pieces, "Cafe\u0301 東京.") == ["Cafe\u0301", "東", "京", "."]


def test_half_a_surrogate_pair_moves_no_character(pieces: Backbone) -> None:
    text = "\ud83d at \ud83d\ude00 7\0pm"
    assert len(kept_in_length(text)) == len(text)
    assert {"at", "7", "pm"} <= set(words(pieces, text))


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=200), limit=st.integers(8, 40))
def test_every_word_is_a_piece_of_its_text_and_is_read_in_some_window(pieces: Backbone, text: str, limit: int) -> None:
    (found,) = passages(pieces, [text], [["at 7 pm", text]], limit)
    ends = [0, *(end for _, end in found.words)]
    assert all(last <= start < end <= len(text) for last, (start, end) in zip(ends, found.words, strict=False))
    read = {window.first + number for window in found.windows for number in range(len(window.words))}
    assert read == set(range(len(found.words))) or len(found.windows) == MOST_WINDOWS
    for window in found.windows:
        assert len(window.ids) <= limit
        assert all(0 < start < end < len(window.ids) for start, end in window.words[:1])


def test_a_turn_that_fits_takes_one_window_after_what_was_said_before(pieces: Backbone) -> None:
    (found,) = passages(pieces, ["at 7"], [["b", "pm ."]], 32)
    at = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDPIECES])}
    assert [w.ids for w in found.windows] == [
        (2, at["b"], 3, at["pm"], at["."], 3, at["at"], at["7"], 3),
    ]


def test_a_long_turn_takes_windows_that_overlap_and_ends_somewhere(pieces: Backbone) -> None:
    (long, endless) = passages(pieces, ["at 7 pm . " * 20, "at 7 pm . " * 500], [["b " * 200]] * 2, 60)
    assert all(len(window.ids) <= 60 for window in (*long.windows, *endless.windows))
    assert len(long.windows) > 1 and len(endless.windows) == MOST_WINDOWS
    first, second = long.windows[:2]
    assert second.first < first.first + len(first.words)
    assert sum(id == WORDPIECES.index("b") + 4 for id in first.ids) <= HISTORY_OF_LONG * 60
