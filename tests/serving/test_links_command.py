import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import make_memory


def test_links_lists_how_episodes_hang_together_and_close_adds_the_open_ones(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    said = ("I want to book the Apollo Hotel in Lisbon.", "Following up on the Apollo Hotel in Lisbon: two nights.")
    with make_memory(tmp_path / "memory") as memory:
        for day, text in enumerate(said):
            memory.add(text, namespace="default", session=f"s{day}", time=1_772_359_200.0 + day * 86_400)

    assert "no links" in cli("links", "-n", "default").out
    outcome = cli("links", "-n", "default", "--json", "--close")
    assert outcome.code == 0, outcome.err
    (link,) = json.loads(outcome.out)["results"]
    assert (link["type"], link["between"]) == ("follow_up_of", "episode")
    shown = cli("links", "-n", "default", "--turn", link["evidence"][0], "--type", "follow_up_of").out
    assert "follow_up_of" in shown and "two nights" in shown
    assert cli("links", "-n", "default", "--type", "likes").code == 2
