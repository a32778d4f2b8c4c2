"""The card that lies beside each student: what it decides, what it learnt from, how good it is, where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intentmem.train_data import CARDS

from .manifest import Manifest, MetricRecord


def model_card(manifest: Manifest) -> str:
    """The card as Markdown, from the manifest alone."""
    task = manifest.declaration
    lines = [
        f"# {manifest.task}: a student of intentmem",
        "",
        f"{task['question']}",
        "",
        f"- version `{manifest.version}`, task `{manifest.task_hash}`, made {manifest.created} "
        f"with intentmem {manifest.package}, seed {manifest.seed}",
        f"- base: {manifest.base.profile}, {manifest.base.layers} layers, weights `{manifest.base.weights[:12]}`; "
        "trained from the base, not from another student",
        f"- LoRA of rank {manifest.adapter.rank} on layers {manifest.adapter.first_layer + 1} to "
        f"{manifest.base.layers}; texts are read up to {manifest.adapter.max_tokens} tokens",
        *([f"- labels: {', '.join(manifest.labels)}"] if manifest.labels else ["- labels: open, encoded when met"]),
        f"- when unsure: {task['unsure']}" if task.get("unsure") else "",
        "",
        "## Data",
        "",
        *_sources(manifest),
        *(f"- {name}: {split.n} conversations (`{split.digest}`)" for name, split in manifest.splits.items()),
        "",
        "## Measured",
        "",
        *_table(manifest.metrics),
        *_calibration(manifest),
        *(f"- {name}: {value:.4g}" for name, value in manifest.latency.items()),
        "",
        "## Limits",
        "",
        "- It knows the kinds of text it was trained on: measure it on your own with `intentmem distill evaluate`.",
        "- It works on its own base only, and refuses to load on another.",
        "- Its confidence is calibrated on data like that above; on other data the order of confidences holds better "
        "than their values.",
        "- It was trained on English, except where the data above says otherwise.",
        "",
    ]
    return "\n".join(lines)


_OURS = {
    "built": "questions and conversations that intentmem simulates, invented, Apache-2.0",
    "written": "conversations written by hand for intentmem, by language models, invented, Apache-2.0",
}


def _sources(manifest: Manifest) -> Iterator[str]:
    for name, found in manifest.data.items():
        card = CARDS.get(name.partition(":")[0])
        what = f"{card.title}, {card.licence}, {card.home}" if card else _OURS.get(name, "the user's own")
        yield f"- {name}: {what} (`{found[:12]}`)"


def _table(metrics: Sequence[MetricRecord]) -> Iterator[str]:
    if not metrics:
        yield "Nothing was measured."
        return
    yield "| data | group | metric | value | 95% interval | n |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one in metrics:
        between = f"{one.low:.3f} to {one.high:.3f}" if one.low is not None and one.high is not None else ""
        yield f"| {one.data or 'development'} | {one.group} | {one.metric} | {one.value:.3f} | {between} | {one.n} |"


def _calibration(manifest: Manifest) -> Iterator[str]:
    yield ""
    if manifest.calibration.ece is not None:
        yield f"- expected calibration error on the calibration split: {manifest.calibration.ece:.3f}"
    for one in manifest.calibration.thresholds:
        yield (
            f"- agreement of {one.target:.0%}: from confidence {one.value:.3f} on, {one.coverage:.0%} of decisions "
            f"(measured {one.agreement:.3f}, lower bound {one.bound:.3f}, n = {one.n})"
        )
