"""The command of an installed package becomes the program, and leaves nothing of Python behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """#!/bin/sh
printf '%s|' "$#" "$@"
grep SigIgn /proc/$$/status | tr -d '[:space:]'
[ "$1" = wait ] && { echo; exec sleep 60; }
exit 7
"""


@pytest.fixture
def installed(package: Path, tmp_path: Path) -> Path:
    """A package that contains a test program."""
    inside = tmp_path / "harpe"
    inside.mkdir()
    for file in package.glob("*.py"):
        (inside / file.name).symlink_to(file.resolve())
    # This file determines the package's location, so it is not a link.
    (inside / "_command.py").unlink()
    (inside / "_command.py").write_text((package / "_command.py").read_text())
    program = inside / "bin" / "harpe"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return tmp_path


def start(installed: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harpe", *arguments],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=installed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_arguments_and_exit_status_are_untouched(installed: Path) -> None:
    arguments = ["run", "--", "sh", "-c", "a b  'c' \"d\"\n$x", "", "ü"]
    process = start(installed, *arguments)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 7, said
    words = out.split("|")
    assert words[:-1] == [str(len(arguments)), *arguments]
    ignored = int(words[-1].partition(":")[2], 16)
    for name in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        assert not ignored >> (name - 1) & 1, name


def test_a_signal_ends_the_program_itself(installed: Path) -> None:
    process = start(installed, "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM


def test_a_program_that_is_missing_is_said(installed: Path) -> None:
    (installed / "harpe" / "bin" / "harpe").unlink()
    process = start(installed, "plan")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "this package was not installed by pip" in said
