"""Finds the clock or power limit of a training's GPUs, from inside of the training."""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from .errors import InvalidInputError, error_of
from .step_file import local_rank

try:
    from . import _client
except ImportError as error:
    raise ImportError(
        "harpe's built module is missing, so that training cannot use it; install the package on "
        f"Linux with 'pip install .' in Harpe's repository: {error}"
    ) from error

__all__ = ["AllReduce", "PowerOptimizer", "PowerReport"]

AllReduce = Callable[[str, list[float]], Sequence[float]]
"""Called with "sum" or "max" and this process's values; gives those of all processes."""


class PowerOptimizer:
    """Tries clocks or power limits in the first hundreds of steps and keeps the setting with the
    least energy, time, or cost; restores everything at the end::

        optimizer = harpe.PowerOptimizer("energy", max_slowdown=0.03)
        for epoch in range(epochs):
            optimizer.on_epoch_begin()
            for batch in loader:
                optimizer.on_step_begin()
                train(batch)
                optimizer.on_step_end()
            optimizer.on_epoch_end()
        print(optimizer.close())

    Settings are applied by the node's agent (docs/agent.md), clocks before limits, within its
    policy. Without an agent it only measures, and the report has the possible savings. After
    construction nothing raises, and training continues whatever fails.

    Every process of a job creates one and calls it at the same steps, for its own GPU; they agree
    through ``all_reduce``. The default is that of torch.distributed, if initialised.

    :param optimize: ``"energy"``, ``"time"`` or ``"cost"`` (``eta`` weighs energy against time)
    :param max_slowdown: largest slowdown of a step relative to the highest setting: 0.03 is 3 %
    :param eta: of cost: from 0, time alone, to 1, energy alone (default 0.5)
    :param host_power: W that the node draws besides its GPUs, or ``"measured"``: its CPUs and
        memory
    :param gpus: as for ``harpe run --gpus``, such as ``"0,1"``; by default this rank's own
        (``LOCAL_RANK``), without a launcher all that this process may use
    :param profile: file that keeps the measurements, and is used again for the same job and GPUs; a
        folder has one file per batch size, which share their results
    :param job: the job of the profile; by default the command line
    :param batch_size: likewise
    :param socket: of the agent (default: HARPE_AGENT_SOCKET, then the usual one)
    :param all_reduce: see :data:`AllReduce`; ``None``: this process is the whole job
    :param synchronize: waits for the GPU's pending work; called before each step while settings are
        tried. By default torch's, if it uses CUDA; ``None``: nothing
    """

    def __init__(
        self,
        optimize: str = "energy",
        *,
        max_slowdown: float | None = None,
        eta: float | None = None,
        host_power: float | str = 0.0,
        gpus: str | None = None,
        profile: str | os.PathLike[str] | None = None,
        job: str | None = None,
        batch_size: int = 1,
        socket: str | os.PathLike[str] | None = None,
        all_reduce: AllReduce | str | None = "auto",
        synchronize: Callable[[], Any] | str | None = "auto",
    ) -> None:
        reduce = _all_reduce(all_reduce)
        rank = local_rank()
        watts = _watts(host_power)
        speaks_for_node = not rank
        try:
            self._native = _client.PowerOptimizer(
                reduce,
                str(optimize),
                _given("eta", eta, 0, 1),
                _given("max_slowdown", max_slowdown, 0, math.inf),
                watts if speaks_for_node else 0.0,
                host_power == "measured" and speaks_for_node,
                gpus or "",
                -1 if rank is None else rank,
                os.fspath(profile or ""),
                os.fspath(socket or ""),
                " ".join(sys.argv) if job is None else job,
                batch_size,
                speaks_for_node,
            )
        except _client.Failure as failure:
            raise error_of(*failure.args) from None
        self._synchronize = _synchronize(synchronize)
        self._profiles = True
        self._report: PowerReport | None = None
        _alive.add(self)

    def on_epoch_begin(self) -> None:
        """Does nothing: the first step begins the epoch."""

    def on_step_begin(self) -> None:
        """Begins a training step."""
        if self._profiles and self._synchronize is not None:
            self._synchronize()
        self._profiles = self._native.on_step_begin()

    def on_step_end(self) -> None:
        """Does nothing: a step ends when the next one begins, or the epoch ends."""

    def on_epoch_end(self) -> None:
        """Ends the last step, so that later work, such as a validation, does not count."""
        if self._profiles and self._synchronize is not None:
            self._synchronize()
        self._native.on_epoch_end()

    def close(self) -> PowerReport:
        """Restores the settings and returns the report. Does not wait for other processes."""
        if self._report is None:
            self._report = PowerReport(json.loads(self._native.finish()))
        return self._report

    def __enter__(self) -> PowerOptimizer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class PowerReport(dict[str, Any]):
    """The member ``optimize`` of the report of ``harpe run`` (docs/zeus.md). As text, one line."""

    def __str__(self) -> str:
        if self["why_nothing_was_set"]:
            return f"nothing was set: {self['why_nothing_was_set']}{self._advice()}"
        if self["choice"] is None:
            return "no setting was measured before the end"
        unit = "MHz" if self["knob"] == "clock_mhz" else "W"
        said = "was chosen" if self["decided"] else "is the best so far, and was not chosen yet"
        text = f"{self['choice']:g} {unit} {said}"
        if self["slowdown"] is not None:
            text += f"; a step takes {self['slowdown']:+.1%}"
        saving = self["all_processes"] or self
        if saving["saved_j"] > saving["saved_error_j"]:
            text += (
                f"; saved {saving['saved_j']:.4g} J +- {saving['saved_error_j']:.2g}"
                f" ({saving['saved_j'] / saving['at_highest_j']:.1%})"
            )
        if self["failure"]:
            text += f"; it ended early: {self['failure']}"
        return text

    def _advice(self) -> str:
        advice = self["advice"]
        if advice is None:
            return ""
        return (
            f"; a model fitted to other jobs expects of {advice['power_limit_w']:g} W"
            f" {advice['saving']:.0%} fewer joules, {advice['slowdown']:.0%} longer"
        )


_alive: weakref.WeakSet[PowerOptimizer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all optimizers before the interpreter shuts down."""
    for optimizer in list(_alive):
        optimizer.close()


def _given(name: str, value: float | None, lowest: float, highest: float) -> float:
    """Returns a value for the built module: -1 if it is not given."""
    if value is None:
        return -1.0
    if not lowest <= value <= highest or math.isinf(value):
        limit = f"from {lowest:g} to {highest:g}" if math.isfinite(highest) else "of 0 or more"
        raise InvalidInputError(f"{name} is a fraction {limit}, not {value!r}")
    return float(value)


def _watts(power: float | str) -> float:
    if power == "measured":
        return 0.0
    if isinstance(power, str):
        raise InvalidInputError(f"host_power is a number of watts or 'measured', not {power!r}")
    return float(power)


def _all_reduce(given: AllReduce | str | None) -> AllReduce | None:
    if given is None or callable(given):
        return given
    if given != "auto":
        raise InvalidInputError(f"all_reduce is a function, None or 'auto', not {given!r}")
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return _torch_all_reduce if distributed.get_world_size() > 1 else None
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes.isdigit() and int(processes) > 1:
        raise InvalidInputError(
            f"this job has {processes} processes (WORLD_SIZE), which must agree: initialise "
            "torch.distributed first, or give all_reduce"
        )
    return None


def _torch_all_reduce(how: str, values: list[float]) -> list[float]:
    import torch
    import torch.distributed as dist

    # NCCL reduces only tensors on a GPU; the other backends accept CPU tensors.
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM if how == "sum" else dist.ReduceOp.MAX)
    reduced: list[float] = tensor.tolist()
    return reduced


def _synchronize(given: Callable[[], Any] | str | None) -> Callable[[], Any] | None:
    if given is None or callable(given):
        return given
    if given != "auto":
        raise InvalidInputError(f"synchronize is a function, None or 'auto', not {given!r}")
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available():
        return None
    function: Callable[[], Any] = cuda.synchronize
    return function
