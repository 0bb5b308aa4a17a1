"""A folder for temporary files, removed also after its process was killed: by the next one.

By the rule of src/harpe/base/temporary_folder.h: its maker keeps the file ``lock`` in it locked,
which names the machine. Processes that the maker starts do not inherit this lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["temporary_folder"]

_LOCK = "lock"
_TRIES = 10


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Makes ``harpe-KIND-XXXXXXXX`` in the folder that TMPDIR names, and removes it at the end.

    First removes folders of this user whose process ended without removing them.
    """
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder, lock = _make(kind)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(kind: str) -> tuple[Path, int]:
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=f"harpe-{kind}-"))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Until it is locked, another process may take it for abandoned.
        if _take(lock) and (folder / _LOCK).exists():
            os.pwrite(lock, socket.gethostname().encode(), 0)
            return folder, lock
        os.close(lock)
    raise OSError(f"other processes remove what is made in {tempfile.gettempdir()}")


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # on a file system without locks, no folder counts as abandoned
        return True
    return True


def _remove_abandoned(parent: Path) -> None:
    try:
        above = parent.stat()
        # In other folders, other users could replace a folder that is being checked by their own.
        if above.st_uid not in (0, os.geteuid()) or not (
            above.st_mode & stat.S_ISVTX or not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            return
        with os.scandir(parent) as entries:
            folders = [Path(entry.path) for entry in entries if entry.name.startswith("harpe-")]
    except OSError:
        return
    for folder in folders:
        _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        found = folder.lstat()
        if (
            not stat.S_ISDIR(found.st_mode)
            or found.st_uid != os.geteuid()
            or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        ):
            return
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        lock = os.open(folder / _LOCK, flags)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # On network file systems, a lock held on another machine may appear free.
        if os.pread(lock, 256, 0) == socket.gethostname().encode():
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # it is in use, or the file system has no locks
    finally:
        os.close(lock)
