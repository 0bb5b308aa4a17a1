"""Tells ``harpe run --optimize`` when training steps begin and epochs end."""

from __future__ import annotations

import os
import warnings

__all__ = ["StepFile"]


class StepFile:
    """Writes a line into the file that ``HARPE_STEPS`` names as each step begins; without that
    variable, and on every rank of a node but its first, does nothing::

        steps = harpe.StepFile()
        for epoch in range(epochs):
            steps.on_epoch_begin()
            for batch in loader:
                steps.on_step_begin()
                train(batch)
                steps.on_step_end()
            steps.on_epoch_end()

    and started as ``harpe run --optimize energy --max-slowdown 3% -- python train.py``.
    Training goes on, with one warning, where the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file: int | None = None
        path = path or os.environ.get("HARPE_STEPS")
        if not path or local_rank():
            return
        try:
            # No O_CREAT: a file that `harpe run` has not made is one that it does not read.
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            self._give_up(error)

    def on_epoch_begin(self) -> None:
        """An epoch begins; its first step says so itself."""

    def on_step_begin(self) -> None:
        """A training step begins. Best called where the GPU has been waited for."""
        self._write(b"\n")

    def on_step_end(self) -> None:
        """A step ends where the next one begins, or the epoch ends."""

    def on_epoch_end(self) -> None:
        """What follows, such as a validation, is no step."""
        self._write(b"epoch\n")

    def close(self) -> None:
        """Nothing is written any more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, line)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.close()
        warnings.warn(
            f"training steps cannot be told to harpe run: {error}; training goes on",
            RuntimeWarning,
            stacklevel=3,
        )


def local_rank() -> int | None:
    """Of this process among its node's, where a launcher says it."""
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
