from collections.abc import Callable, Iterator
from typing import Any

import pytest

from intentmem.serving.llm import LLMClient, LLMSettings

from .stand_in import StandIn


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.close()


@pytest.fixture
def connect(server: StandIn) -> Iterator[Callable[..., LLMClient]]:
    """Clients of the stand-in that do not wait long."""
    made: list[LLMClient] = []

    def client(**settings: Any) -> LLMClient:
        given = {"base_url": server.url, "backoff_seconds": 0.01, **settings}
        made.append(LLMClient(LLMSettings(**given)))
        return made[-1]

    yield client
    for one in made:
        one.close()
