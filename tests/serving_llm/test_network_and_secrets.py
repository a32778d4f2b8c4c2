"""Nothing but the configured server is contacted, and the key is shown nowhere."""

import logging
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from intentmem.memory.errors import InputError, ModelError
from intentmem.serving.llm import ChoiceRequest, JsonRequest, LLMClient, LLMSettings, TextRequest
from intentmem.serving.settings import explain_settings, load_settings

from .stand_in import Raw, StandIn, as_json, failure, said, streamed

Connect = Callable[..., LLMClient]
KEY = "sk-very-secret-0815"
ASK = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def contacted(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, int]]]:
    """Every address that anything in this process connects to or looks up."""
    found: set[tuple[str, int]] = set()
    connect, lookup = socket.socket.connect, socket.getaddrinfo

    def connecting(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            found.add((address[0], address[1]))
            assert address[0] == "127.0.0.1", f"contacts {address}"
        connect(self, address)

    def looking(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        found.add((name, int(port or 0)))
        assert name == "127.0.0.1", f"looks up {name}"
        return lookup(host, port, *rest, **more)

    def linking(self: Any, address: Any) -> int:
        raise AssertionError(f"contacts {address}")

    monkeypatch.setattr(socket.socket, "connect", connecting)
    monkeypatch.setattr(socket.socket, "connect_ex", linking)
    monkeypatch.setattr(socket, "getaddrinfo", looking)
    yield found


def test_nothing_but_the_configured_server_is_contacted(
    server: StandIn, connect: Connect, contacted: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://198.51.100.7:3128")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://198.51.100.8/v1")
    client = connect()
    server.says(as_json({"a": 1}), said("x"), streamed(["x"]), said("B"))
    client.structured([JsonRequest(ASK, SCHEMA)])
    client.text(TextRequest(ASK))
    list(client.stream(TextRequest(ASK)))
    client.choose([ChoiceRequest(ASK, ("x", "y"))])
    client.count_tokens(["x"])
    client.probe()
    assert {port for _, port in contacted} <= {server.port, 0}


def test_a_redirect_is_not_followed(server: StandIn, connect: Connect, contacted: set[tuple[str, int]]) -> None:
    server.says(Raw(b"", 307, headers={"Location": "http://198.51.100.9/v1/chat/completions"}))
    with pytest.raises(ModelError):
        connect(max_retries=0).text(TextRequest(ASK))
    assert {port for _, port in contacted} <= {server.port, 0}


def test_a_schema_that_points_elsewhere_fetches_nothing(
    server: StandIn, connect: Connect, contacted: set[tuple[str, int]]
) -> None:
    server.says(as_json({"a": 1}))
    schema = {"type": "object", "properties": {"a": {"$ref": "http://198.51.100.9/schema"}}}
    with pytest.raises(InputError, match="schema"):
        connect().structured([JsonRequest(ASK, schema)])


def test_keys_of_the_environment_go_nowhere(server: StandIn, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    server.says(said("x"))
    client = connect()
    client.text(TextRequest(ASK))
    client.count_tokens(["x"])
    server.says(streamed(["x"]))
    list(client.stream(TextRequest(ASK)))
    for request in server.requests:
        assert "authorization" not in {name.lower() for name in request.headers}
        assert KEY not in str(request.headers)


@pytest.mark.parametrize("reply", [failure(401, f"bad key {KEY}"), said(f"Your key is {KEY}"), failure(500, KEY)])
def test_the_key_is_sent_and_never_shown(
    server: StandIn, connect: Connect, caplog: pytest.LogCaptureFixture, reply: Raw
) -> None:
    server.says(reply)
    client = connect(api_key=KEY, max_retries=1)
    with caplog.at_level(logging.DEBUG):
        (failed,) = client.structured([JsonRequest(ASK, SCHEMA)])
    assert server.requests[-1].headers.get("authorization") == f"Bearer {KEY}"
    assert isinstance(failed, ModelError)
    shown = [
        str(failed),
        repr(failed),
        "".join(traceback.format_exception(failed)),
        str(vars(failed)),
        repr(client),
        repr(client.settings),
        str(client.settings.model_dump()),
        client.settings.model_dump_json(),
    ]
    assert not [text for text in shown if KEY in text]
    assert not [line for line in caplog.messages if KEY in line and "Your key is" not in line and "bad key" not in line]
    assert failed.__cause__ is None


@pytest.mark.parametrize("key", [1234567890, ["sk-very-secret-0815"]])
def test_an_unusable_key_is_not_shown_either(key: object) -> None:
    with pytest.raises(InputError) as caught:
        load_settings({"llm": {"api_key": key}})
    text = "".join(traceback.format_exception(caught.value))
    assert caught.value.field == "llm.api_key" and "0815" not in text and "1234567890" not in text


def test_the_settings_show_every_time_out_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTENTMEM_LLM__API_KEY", KEY)
    monkeypatch.setenv("INTENTMEM_LLM__CHOICE_SECONDS", "7")
    shown = {setting.name: setting.value for setting in explain_settings()}
    assert KEY not in str(shown) and shown["llm.api_key"] == "**********"
    assert shown["llm.choice_seconds"] == 7
    assert {"llm.structured_seconds", "llm.text_seconds", "llm.tokenize_seconds", "llm.probe_seconds"} <= set(shown)
    key = load_settings().llm.api_key
    assert isinstance(key, SecretStr) and key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("https://models.example/team/v1", "https://models.example/team/v1"),
    ],
)
def test_a_base_url_is_normalised(given: str, taken: str) -> None:
    assert LLMSettings(base_url=given).base_url == taken


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x/v1", "http://", f"http://me:{KEY}@x/v1", "http://x/v1?k=1"]
)
def test_an_unusable_base_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        LLMSettings(base_url=url)
    assert KEY not in str(caught.value)
    with pytest.raises(InputError) as shown:
        load_settings({"llm": {"base_url": url}})
    assert shown.value.field == "llm.base_url" and KEY not in "".join(traceback.format_exception(shown.value))


def test_a_client_needs_a_base_url() -> None:
    with pytest.raises(InputError, match=r"llm\.base_url"):
        LLMClient(LLMSettings())
