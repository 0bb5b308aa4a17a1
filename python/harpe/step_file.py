"""Tells ``harpe run --optimize`` when training steps begin and epochs end."""

from __future__ import annotations

import os
import warnings

__all__ = ["StepFile"]


class StepFile:
    """Writes a line to the file that ``HARPE_STEPS`` names when each step begins. Without that
    variable, and on every rank of a node except the first, does nothing::

        steps = harpe.StepFile()
        for epoch in range(epochs):
            steps.on_epoch_begin()
            for batch in loader:
                steps.on_step_begin()
                train(batch)
                steps.on_step_end()
            steps.on_epoch_end()

    Start training with ``harpe run --optimize energy --max-slowdown 3% -- python train.py``.
    Training continues, with one warning, if the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file: int | None = None
        path = path or os.environ.get("HARPE_STEPS")
        if not path or local_rank():
            return
        try:
            # No O_CREAT: `harpe run` reads only a file that it has created.
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            self._give_up(error)

    def on_epoch_begin(self) -> None:
        """Does nothing: the first step begins the epoch."""

    def on_step_begin(self) -> None:
        """Begins a training step. Call it after waiting for the GPU, if possible."""
        self._write(b"\n")

    def on_step_end(self) -> None:
        """Does nothing: a step ends when the next one begins, or the epoch ends."""

    def on_epoch_end(self) -> None:
        """Ends the last step, so that later work, such as a validation, does not count."""
        self._write(b"epoch\n")

    def close(self) -> None:
        """Closes the file; later calls write nothing."""
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
            f"training steps cannot be reported to harpe run: {error}; training continues",
            RuntimeWarning,
            stacklevel=3,
        )


def local_rank() -> int | None:
    """Returns the rank of this process on its node, if a launcher sets it."""
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
