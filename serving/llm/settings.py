"""How a served model is reached. Values only: nothing here imports a client."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

Operation = Literal["choice", "structured", "text", "tokenize", "probe", "embed"]
"""Kinds of operation; each has one time-out."""


class EndpointSettings(BaseModel):
    """An OpenAI-compatible server."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    base_url: str | None = Field(default=None, description='like "http://127.0.0.1:8000/v1"; none: no served model')
    model: str | None = Field(default=None, min_length=1, description="name as served; none takes the first listed")
    api_key: SecretStr | None = Field(default=None, description="sent as a bearer token; none sends no such header")
    max_retries: int = Field(default=2, ge=0, le=20, description="further calls after a failed one; 0 is one call")
    max_concurrency: int = Field(default=16, ge=1, le=1024, description="calls in flight")
    backoff_seconds: float = Field(default=0.5, ge=0, description="first pause before a retry; it doubles each time")
    max_backoff_seconds: float = Field(
        default=30.0, ge=0, description="longest pause; a server that asks for a longer one is given up"
    )

    @field_validator("base_url")
    @classmethod
    def _usable(cls, value: str | None) -> str | None:
        """Normalise: no slash at the end, `/v1` where there is no path."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError('must be like "http://127.0.0.1:8000/v1"')
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a name or password: the key belongs in api_key")
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


class LLMSettings(EndpointSettings):
    """A served language model."""

    choice_seconds: float = Field(default=60.0, gt=0, description="time-out of a choice by one token, each call")
    structured_seconds: float = Field(default=180.0, gt=0, description="time-out of a JSON answer, each call")
    text_seconds: float = Field(default=300.0, gt=0, description="time-out of a free text, streamed or not, each call")
    tokenize_seconds: float = Field(default=10.0, gt=0, description="time-out of counting tokens, each call")
    probe_seconds: float = Field(
        default=120.0, gt=0, description="time-out of listing models and of each trial of the probe"
    )
    max_output_tokens: int = Field(
        default=4096, ge=1, description="room of a reply, at most: a reply that is cut gets twice the room, up to this"
    )
    context_tokens: int | None = Field(
        default=None, ge=1, description="context length; none takes what the server tells"
    )
    grammar_lengths: bool = Field(
        default=False,
        description="hold texts in JSON to their lengths as they are written: small models ramble less; with guidance "
        "(`intentmem llm serve`) it is free, with xgrammar it takes seconds a call",
    )
    temperature: float | None = Field(default=0.0, ge=0, description="none leaves it to the server")
    thinking: Literal["off", "server"] = Field(
        default="off", description='"off" asks the chat template for no thinking; "server" leaves it as it is'
    )
    background_tokens: int | None = Field(
        default=10_000_000, ge=0, description="tokens that background work may use in this process; none: no limit"
    )

    def seconds(self, operation: Operation) -> float:
        """The one time-out of a kind of operation, for each call."""
        return float(getattr(self, f"{operation}_seconds"))


class RemoteEmbedderSettings(EndpointSettings):
    """A served encoder."""

    embed_seconds: float = Field(default=60.0, gt=0, description="time-out of one batch")
    tokenize_seconds: float = Field(default=10.0, gt=0, description="time-out of counting tokens, each call")
    batch_size: int = Field(default=32, ge=1, le=4096, description="texts a request; halved where the server refuses")
    dimension: int | None = Field(default=None, ge=1, description="none takes it from the first reply")
    window_tokens: int | None = Field(default=None, ge=8, description="none takes what the server tells")
    query_prefix: str = Field(default="", description="put before a query")
    passage_prefix: str = Field(default="", description="put before a passage")

    def seconds(self, operation: Operation) -> float:
        """The one time-out of a kind of operation, for each call."""
        return self.embed_seconds if operation == "embed" else self.tokenize_seconds
