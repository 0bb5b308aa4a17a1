"""What tests of the package share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harpe

NOWHERE = "http://127.0.0.1:9"
"""A server that is not there: the client is at work all the same."""


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes variables that tests have to set themselves."""
    for name in os.environ:
        if name.startswith(("HARPE_", "TORCHELASTIC_", "SLURM_")) or name in ("RANK", "LOCAL_RANK"):
            monkeypatch.delenv(name)


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Starts clients of a small job, and closes them."""
    clients = []

    def start(**options: Any) -> Any:
        defaults: dict[str, Any] = {
            "server": NOWHERE,
            "job": "test",
            "schedule": "1f1b",
            "stages": 2,
            "micro_batches": 4,
            "coordinates": (0, 0, 0),
            "clock_socket": "",
        }
        client = harpe.start(**{**defaults, **options})
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def package() -> Path:
    """The path of the tested package."""
    assert harpe.__file__ is not None
    return Path(harpe.__file__).parent
