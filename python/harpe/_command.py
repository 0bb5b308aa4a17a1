"""The commands of an installed wheel, by the names that people type."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import NoReturn

__all__ = ["agent", "command_path", "lab", "main"]

# Python ignores these signals from its start on, and child processes would inherit that.
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def command_path(name: str = "harpe") -> str | None:
    """Returns the path of the program: HARPE_COMMAND, the package's own, or the first on PATH."""
    named = os.environ.get("HARPE_COMMAND")
    if named and name == "harpe":
        return named
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    if os.access(inside, os.X_OK):
        return inside
    return shutil.which(name)


def main() -> NoReturn:
    """Replaces the process by ``harpe``: process, arguments, signals and exit status are the
    program's."""
    _become("harpe")


def agent() -> NoReturn:
    """Replaces the process by ``harpe-agent``."""
    _become("harpe-agent")


def lab() -> NoReturn:
    """Replaces the process by ``harpe-lab``."""
    _become("harpe-lab")


def _become(name: str) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    for ignored in _IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, ignored), signal.SIG_DFL)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"{name}: {program}: {error.strerror}; this package was not installed by pip, "
            "which builds the program and puts it there (docs/python.md)"
        )
