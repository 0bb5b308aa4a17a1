"""The ``harpe`` command, run for what it prints as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ._command import command_path
from .errors import Diagnostic, UnavailableError, error_of

__all__ = ["run_command"]


def run_command(arguments: Sequence[str], within: str | None = None) -> dict[str, Any]:
    """Runs the command in a folder and returns its output. The arguments include ``--json``."""
    program = command_path()
    if program is None:
        raise UnavailableError(
            "the harpe command is missing: install the package with pip, which builds it, or name "
            "the program in HARPE_COMMAND"
        )
    if os.path.dirname(program):
        program = os.path.abspath(program)
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=within,
        )
    except OSError as error:
        raise UnavailableError(f"{program}: {error.strerror}") from None
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = None
    if done.returncode == 0 and isinstance(said, dict):
        return said
    if isinstance(said, dict) and "error" in said:
        raise _error_in(said["error"])
    if isinstance(said, dict) and said.get("warnings"):  # files not found where expected
        raise error_of("io", "\n".join(said["warnings"]))
    told = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
    raise error_of("internal", f"{program} failed: {told}")


def _error_in(said: Mapping[str, Any]) -> Exception:
    diagnostics = [
        Diagnostic(each["message"], each["file"], each["line"], each["column"])
        for each in said["diagnostics"]
    ]
    text = "\n".join(str(each) for each in diagnostics)
    return error_of(said["code"], text, diagnostics=diagnostics)
