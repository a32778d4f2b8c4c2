"""A pretrained encoder on a device: token ids in, one pooled vector a sequence out.

Runs the transformer directly: `SentenceTransformer.encode` computes the same vectors (a test holds them within 1e-4)
with more work around each call.
"""

from __future__ import annotations

import copy
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import EmbedderError, MissingExtraError
from intentmem.memory.types import Vector

from .layers import Layers
from .profiles import EmbedderProfile

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)
_AGREEMENT = 0.999
_CANARY = (
    "What time does the train to Kyoto leave on Friday?",
    "It is priced at around 76.22, breakfast included.",
    "I moved from Lisbon to Oslo in March 2023, and my sister Ana stayed.",
    "No.",
)
_CANARY_COPIES = 8


class Backbone:
    """A loaded encoder. `module` and `tokenizer` are what students build upon.

    Args:
        folder: the model's files.
        profile: pooling and window, where the model's files do not settle them.
        device: "auto" or a torch device.
        dtype: "auto" or the name of a torch dtype.
    """

    def __init__(self, folder: Path, profile: EmbedderProfile, device: str, dtype: str) -> None:
        torch, transformers = _libraries()
        self.folder, self.name = folder, profile.name
        self.pooling = profile.pooling or _pooling_of(folder)
        self.device = torch.device(_best_device() if device == "auto" else device)
        try:
            wrapped = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self.tokenizer: Any = wrapped.backend_tokenizer
            self._states = Layers(_quietly_loaded(folder).eval().to(self.device))
        except (OSError, ValueError, AttributeError, RuntimeError) as error:
            raise EmbedderError(f"the encoder in {folder} could not be loaded: {error}") from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.opening, self.closing = _special_ids(self.tokenizer)
        self.padding = int(getattr(self.module.config, "pad_token_id", 0) or 0)
        self.window = profile.max_tokens or _window_of(folder, self.module)
        self.dimension = len(self.pooled([[*self.opening, *self.closing] or [self.padding]])[0])
        if dtype == "auto":
            self._choose_dtype()
        else:
            self.module.to(_named_dtype(dtype))

    @property
    def module(self) -> Any:
        """The transformer itself."""
        return self._states.module

    @property
    def dtype(self) -> torch.dtype:
        """Arithmetic in use."""
        found: torch.dtype = self.module.dtype
        return found

    def bodies(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, special ones left out, nothing cut."""
        encoded = self.tokenizer.encode_batch_fast([readable(text) for text in texts], add_special_tokens=False)
        return [one.ids for one in encoded]

    def framed(self, body: Sequence[int], limit: int) -> list[int]:
        """Token ids between the special ones, cut so that they are `limit` at most, special ones included."""
        return [*self.opening, *body[: limit - len(self.opening) - len(self.closing)], *self.closing]

    def pooled(self, sequences: Sequence[Sequence[int]]) -> Vector:
        """One forward pass over B sequences of token ids, special ones included: (B, D) float32, not normalised."""
        import torch

        lengths = [len(ids) for ids in sequences]
        longest = max(lengths)
        padded = np.full((len(sequences), longest), self.padding, np.int64)
        for row, ids in zip(padded, sequences, strict=True):
            row[: len(ids)] = ids
        inputs = torch.from_numpy(padded).to(self.device)
        mask = None  # without padding there is nothing to mask, and attention is faster
        if min(lengths) < longest:
            sizes = torch.tensor(lengths, device=self.device)
            mask = (torch.arange(longest, device=self.device) < sizes[:, None]).long()
        with torch.inference_mode():
            hidden = self._states(inputs, mask).float()
            if self.pooling == "cls":
                vectors = hidden[:, 0]
            elif mask is None:
                vectors = hidden.mean(dim=1)
            else:
                vectors = (hidden * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        found: Vector = vectors.cpu().numpy()
        return found

    def _choose_dtype(self) -> None:
        """Switch to a faster arithmetic where the hardware has one and its vectors agree with float32."""
        if (candidate := _fast_dtype(self.device)) is None:
            return
        plain, reduced = self._states, Layers(copy.deepcopy(self.module).to(candidate))
        canary = [encoded.ids for encoded in self.tokenizer.encode_batch(list(_CANARY))] * _CANARY_COPIES
        expected, plain_seconds = self._timed(plain, canary)
        found, reduced_seconds = self._timed(reduced, canary)
        agreement = float(_cosines(expected, found).min())
        keep = agreement >= _AGREEMENT and reduced_seconds < plain_seconds
        self._states = reduced if keep else plain
        _log.info("%s: cosine %.5f to float32, %.2f x its time", candidate, agreement, reduced_seconds / plain_seconds)

    def _timed(self, states: Layers, canary: list[list[int]]) -> tuple[Vector, float]:
        """Pooled canary and seconds of the faster of two runs, the first of three being a warm-up."""
        self._states, seconds = states, []
        for _ in range(3):
            started = time.perf_counter()
            vectors = self.pooled(canary)
            seconds.append(time.perf_counter() - started)
        return vectors, min(seconds[1:])


def readable(text: str) -> str:
    """The text as the tokenizer can take it: half of a surrogate pair becomes U+FFFD, NUL a space."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", " ")


def declared_dimension(folder: Path) -> int:
    """The dimension that the model's configuration declares.

    Raises:
        EmbedderError: there is no configuration, or it declares none.
    """
    settings = _settings(folder / "config.json")
    for name in ("hidden_size", "n_embd", "dim"):
        if isinstance(settings.get(name), int):
            return int(settings[name])
    raise EmbedderError(f"{folder}: config.json declares no dimension")


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "cpu") from error
    return torch, transformers


def _quietly_loaded(folder: Path) -> Any:
    """The transformer in float32, without a progress bar on stderr."""
    from transformers import AutoModel
    from transformers.utils import logging

    reports: Any = logging
    bar = reports.is_progress_bar_enabled()
    reports.disable_progress_bar()
    try:
        return AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True).float()
    finally:
        if bar:
            reports.enable_progress_bar()


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _named_dtype(name: str) -> torch.dtype:
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise EmbedderError(f"{name!r} is not an arithmetic for an encoder: auto, float32, bfloat16 or float16")
    return found


def _fast_dtype(device: torch.device) -> torch.dtype | None:
    """What this hardware computes faster than float32. Emulated bfloat16 on a CPU is several times slower."""
    import torch

    if device.type == "cuda":
        return torch.float16
    if device.type == "cpu":
        try:
            flags = Path("/proc/cpuinfo").read_text("ascii", "ignore")
        except OSError:
            return None
        return torch.bfloat16 if "avx512_bf16" in flags or "amx_bf16" in flags else None
    return None


def _cosines(a: Vector, b: Vector) -> Vector:
    found: Vector = (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return found


def _special_ids(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids that the tokenizer puts before and after a text."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a").ids
    start = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    return full[:start], full[start + len(bare) :]


def _settings(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _pooling_of(folder: Path) -> str:
    """Pooling as the model's own files declare it; mean where they do not."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text("utf-8")) if path.is_file() else []
    kinds = {module["type"].rsplit(".", 1)[-1] for module in modules}
    if kinds - {"Transformer", "Pooling", "Normalize"}:
        raise EmbedderError(f"{folder}: {', '.join(sorted(kinds))} is more than a transformer with pooling")
    declared = _settings(folder / "1_Pooling" / "config.json")
    if declared.get("pooling_mode_cls_token") or declared.get("pooling_mode") == "cls":
        return "cls"
    if declared and not declared.get("pooling_mode_mean_tokens") and declared.get("pooling_mode") != "mean":
        raise EmbedderError(f"{folder}: neither mean nor first-token pooling")
    return "mean"


def _window_of(folder: Path, module: Any) -> int:
    """Tokens the model takes at once, special ones included."""
    declared = _settings(folder / "sentence_bert_config.json").get("max_seq_length")
    limit = int(getattr(module.config, "max_position_embeddings", 0) or 512)
    return min(int(declared), limit) if declared else limit
