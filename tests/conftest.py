from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The development data, which lies beside a checkout and is no part of it."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"no development data at {folder}")
    return folder
