"""Layers that are run directly: the same token states as the library's, and where they are not, the library's."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import AdaptedEncoder, padded
from intentmem.distill.layers import Layers, layer_stack, section

ROWS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=20), min_size=1, max_size=4)


@settings(deadline=None, max_examples=30)
@given(rows=ROWS)
def test_token_states_are_those_of_the_library_with_and_without_padding(tiny: Backbone, rows: list[list[int]]) -> None:
    ids, mask = padded(rows, 0, "cpu")
    with torch.inference_mode():
        layers = Layers(tiny.module)
        expected = tiny.module(input_ids=ids, attention_mask=mask).last_hidden_state
        assert layers.direct
        assert torch.allclose(layers(ids, mask)[mask.bool()], expected[mask.bool()], atol=1e-5)


def test_a_section_goes_on_from_the_states_of_the_one_below(tiny: Backbone) -> None:
    stack = layer_stack(tiny.module)
    lower, upper = Layers(section(tiny.module, stack[:1], True)), Layers(section(tiny.module, stack[1:], False), False)
    ids, _ = padded([[3, 4, 5]], 0, "cpu")
    with torch.inference_mode():
        assert torch.allclose(upper(lower(ids)), Layers(tiny.module)(ids), atol=1e-5)


def test_an_encoder_without_adapters_has_a_section_without_layers(tiny: Backbone) -> None:
    assert AdaptedEncoder(tiny, ()).encode(["hello"], ["plain"])["plain"][0].pooled.shape == (tiny.dimension,)


class Louder(torch.nn.Linear):
    """A linear map that does more than its weights say, as those of quantised models do."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(given)


def loaded() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    return BertModel(BertConfig(vocab_size=64, **shape)).eval()


def test_a_layer_with_parts_of_another_kind_is_left_to_the_library() -> None:
    model: Any = loaded()
    layer = model.encoder.layer[0]
    own = layer.output.dense
    layer.output.dense = Louder(own.in_features, own.out_features)
    layers = Layers(model)
    ids, _ = padded([[1, 2, 3]], 0, "cpu")
    assert not layers.direct
    with torch.inference_mode():
        assert torch.equal(layers(ids), model(input_ids=ids).last_hidden_state)


def test_an_encoder_of_another_family_is_left_to_the_library() -> None:
    from transformers import DistilBertConfig, DistilBertModel

    model = DistilBertModel(DistilBertConfig(vocab_size=64, dim=16, n_layers=1, n_heads=2, hidden_dim=32)).eval()
    layers = Layers(model)
    ids, mask = padded([[1, 2, 3], [4, 5]], 0, "cpu")
    assert not layers.direct
    with torch.inference_mode():
        assert torch.equal(layers(ids, mask), model(input_ids=ids, attention_mask=mask).last_hidden_state)


def test_what_does_not_come_out_as_in_the_library_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = loaded()
    whole = type(model.encoder).forward

    def otherwise(self: Any, hidden: torch.Tensor, *args: Any, **more: Any) -> Any:
        return whole(self, hidden.flip(-1), *args, **more)

    monkeypatch.setattr(type(model.encoder), "forward", otherwise)
    assert not Layers(model).direct
