"""Temporary folders: gone in the end, and those of killed processes at the next start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harpe._temporary_folder import temporary_folder

HOLDER = """
import sys
from harpe._temporary_folder import temporary_folder
with temporary_folder("test") as folder:
    (folder / "file").write_text("text")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def holder(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that uses such a folder."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def folder_of(holder: subprocess.Popen[str]) -> Path:
    assert holder.stdout is not None
    return Path(holder.stdout.readline().strip())


def test_it_is_for_its_user_alone_and_gone_afterwards(temporary: Path) -> None:
    with temporary_folder("test") as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").write_text("text")
    assert not list(temporary.iterdir())


def test_that_of_a_living_process_is_kept_and_that_of_a_killed_one_removed(
    temporary: Path, holder: subprocess.Popen[str]
) -> None:
    theirs = folder_of(holder)
    with temporary_folder("test"):
        assert (theirs / "file").exists()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert theirs.exists()
    with temporary_folder("test") as folder:
        assert list(temporary.iterdir()) == [folder]


def test_what_is_not_known_to_be_a_leftover_is_kept(temporary: Path) -> None:
    (temporary / "harpe-results").mkdir(mode=0o700)
    (temporary / "harpe-open").mkdir(mode=0o755)
    (temporary / "harpe-open" / "lock").write_text(socket.gethostname())
    (temporary / "other").mkdir(mode=0o700)
    (temporary / "other" / "lock").write_text(socket.gethostname())
    (temporary / "harpe-link").symlink_to("other")
    (temporary / "harpe-elsewhere").mkdir(mode=0o700)
    (temporary / "harpe-elsewhere" / "lock").write_text("another-host")
    kept = {"harpe-results", "harpe-open", "other", "harpe-link", "harpe-elsewhere"}
    if os.geteuid() == 0:
        theirs = temporary / "harpe-theirs"
        theirs.mkdir(mode=0o700)
        (theirs / "lock").write_text(socket.gethostname())
        os.chown(theirs, 65534, 65534)
        kept.add("harpe-theirs")
    with temporary_folder("test") as folder:
        assert {path.name for path in temporary.iterdir()} == kept | {folder.name}
