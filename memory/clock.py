"""The system clock."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The present, in UTC."""

    def now(self) -> datetime:
        """The present instant."""
        return datetime.now(UTC)
