"""Jobs that recur: which batch size a training is to use, asked of a server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from .errors import Error

if TYPE_CHECKING:
    from .server import Server

__all__ = ["RecurringJob", "Trial", "Verdict"]


class Verdict(NamedTuple):
    """The server's decision on a trial."""

    stop: bool
    converged: bool
    """True if the trial reached the target within its cost bound."""
    reason: str
    """One of "go_on", "reached", "too_costly", "max_epochs", "will_not_reach" (judged by its metric
    so far and the epochs left) and "reported"."""
    cost: float
    """Cost so far, in J."""
    bound: float
    """Cost at which the trial is stopped, in J; infinite if there is no bound."""


class RecurringJob:
    """A job that is trained repeatedly; created by ``Server.recurring_job``.

    The server finds the batch size that reaches the target metric at the least cost::

        job = harpe.Server().recurring_job("mnist")
        job.register(batch_sizes=[32, 64, 128], default_batch_size=64, target_metric=0.98,
                     max_power=300, number_of_gpus=1, gpu_model="NVIDIA A40")
        with job.next() as trial:
            for epoch in range(1, 101):
                metric, seconds, joules = train_epoch(trial.batch_size)  # since the trial began
                if trial.report(epoch, seconds, joules, metric).stop:
                    break
    """

    def __init__(self, server: Server, id: str) -> None:
        self.server = server
        self.id = id

    def __repr__(self) -> str:
        return f"harpe.RecurringJob({self.id!r} of {self.server.url})"

    def register(self, spec: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
        """Registers the job with members that are the same for all recurrences (docs/openapi.yaml,
        RecurringJob). Repeating it is harmless; different members are a ``ConflictError``."""
        return self._ask("PUT", "", {**(spec or {}), **members})

    def next(self) -> Trial:
        """Begins a recurrence. Returns the trial with its batch size."""
        return Trial(self, self._ask("POST", "/trials"))

    def trial(self, number: int) -> Trial:
        """Returns a trial that has already begun, for example before a restart of this process."""
        return Trial(self, self._ask("GET", f"/trials/{number:d}"))

    def retract(self, number: int) -> None:
        """Retracts a trial whose reports were wrong: its result no longer counts, nor do results of
        trials that were stopped because they cost more than it."""
        self._ask("DELETE", f"/trials/{number:d}")

    def status(self) -> dict[str, Any]:
        """Returns the knowledge on each batch size, and the newest 2000 trials."""
        return self._ask("GET", "")

    def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Returns the events, oldest first, up to 1000."""
        events: list[dict[str, Any]] = self._ask("GET", f"/log?after={after:d}")["events"]
        return events

    def remove(self) -> None:
        """Removes the job and everything learned."""
        self._ask("DELETE", "")

    def _ask(self, method: str, below: str, body: Any = None) -> dict[str, Any]:
        path = f"/v1/recurring-jobs/{quote(self.id, safe='')}{below}"
        response: dict[str, Any] = self.server.ask(method, path, body)
        return response


class Trial:
    """One training of a recurring job. As a context manager, it gives up a trial that ends without
    a verdict to stop, so that its batch size is explored again at once."""

    def __init__(self, job: RecurringJob, given: Mapping[str, Any]) -> None:
        self.job = job
        self.number: int = given["trial_number"]
        self.batch_size: int = given["batch_size"]
        self.why: str = given.get("why", "")
        """Why this batch size was chosen."""
        self.stopped = given["status"] != "dispatched"

    def __repr__(self) -> str:
        return f"harpe.Trial({self.number} of {self.job.id!r}, batch size {self.batch_size})"

    def report(self, epoch: int, time_s: float, energy_j: float, metric: float) -> Verdict:
        """Reports the end of an epoch. Time and energy count from the beginning of the trial; a NaN
        metric reaches no target."""
        body = {
            "epoch": epoch,
            "time_s": float(time_s),
            "energy_j": float(energy_j),
            "metric": float(metric) if math.isfinite(metric) else None,
        }
        verdict = self.job._ask("POST", f"/trials/{self.number}/reports", body)
        self.stopped = verdict["stop"]
        bound = verdict["bound"]
        return Verdict(
            stop=verdict["stop"],
            converged=verdict["converged"],
            reason=verdict["reason"],
            cost=verdict["cost"],
            bound=math.inf if bound is None else bound,
        )

    def give_up(self) -> None:
        """Ends the trial without a result; harmless if it has ended."""
        self.job._ask("POST", f"/trials/{self.number}/end")
        self.stopped = True

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stopped:
            return
        try:
            self.give_up()
        except Error:
            # Its lease also ends it, later; the user should see the error that ended the training.
            if kind is None:
                raise
