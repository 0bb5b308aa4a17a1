"""The client of a training rank."""

from __future__ import annotations

import atexit
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, NamedTuple

from .errors import error_of
from .options import PerStage, RankCoordinates, client_options

try:
    from ._client import KINDS, Failure, RankClient
except ImportError as error:
    raise ImportError(
        "harpe's built module is missing, so that training cannot use it (harpe.Server can be used "
        "all the same); install the package on Linux with 'pip install .' in Harpe's repository: "
        f"{error}"
    ) from error

__all__ = ["KINDS", "Client", "Counts", "Pause", "start"]

_STEP = 0.2  # seconds; Python handles signals between steps of a wait


class Counts(NamedTuple):
    """Counts of events since the start."""

    iterations: int
    instructions: int
    clock_changes: int
    """Requested clock changes, ahead of time or not."""
    asked_ahead: int
    """Clock changes requested while an earlier instruction ran."""
    unexpected: int
    """Instructions of the schedule that ran out of order."""
    unknown: int
    """Instructions that are not in the schedule."""
    reports_sent: int
    reports_dropped: int
    events_lost: int
    version: int
    """Version of the assignments in force; 0 if there are none."""


class Pause(NamedTuple):
    """A request to pause training."""

    until: datetime | None
    """The expected end, in UTC; None if unknown."""
    reason: str
    """Text for the user, such as "412 g/kWh"; may be empty."""


class _Instruction:
    """Context manager for one computation."""

    __slots__ = ("_chunk", "_client", "_kind", "_micro_batch")

    def __init__(self, client: Client, kind: int | str, chunk: int, micro_batch: int) -> None:
        self._client = client
        self._kind = kind
        self._chunk = chunk
        self._micro_batch = micro_batch

    def __enter__(self) -> None:
        self._client.on_instruction_begin(self._kind, self._chunk, self._micro_batch)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.on_instruction_end()


class _Iteration:
    """Context manager for one iteration."""

    __slots__ = ("_client", "_number")

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number

    def __enter__(self) -> int:
        self._client.on_iteration_begin(self._number)
        return self._number

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.on_iteration_end()


class Client(RankClient):
    """Reports the costs of instructions to the server, and sets this rank's GPU as planned.

    Created by :func:`start`. No method raises: without a server or an agent training runs at
    all-max, and a line on standard error reports it once. ``on_instruction_begin`` and similar
    calls take well under a microsecond and never wait; the context managers around them are Python,
    and take about one. Use it from one thread at a time.
    """

    _next_iteration = 0
    _told_refused = False

    def instruction(self, kind: int | str, chunk: int = 0, micro_batch: int = -1) -> _Instruction:
        """Context manager for one computation of any kind (``harpe.client.KINDS``).

        ``micro_batch`` is -1 if training does not count them: the next of that kind and chunk.
        """
        return _Instruction(self, kind, chunk, micro_batch)

    def forward(self, chunk: int = 0, micro_batch: int = -1) -> _Instruction:
        """Context manager for the forward computation of one micro-batch, without communication."""
        return _Instruction(self, _FORWARD, chunk, micro_batch)

    def backward(self, chunk: int = 0, micro_batch: int = -1) -> _Instruction:
        """Context manager for the backward computation of one micro-batch, without
        communication."""
        return _Instruction(self, _BACKWARD, chunk, micro_batch)

    def follow_stream(self, stream: Any = 0) -> bool:
        """Follows a GPU stream, for calls that only queue work: from now on, a call takes effect
        when the device reaches it.

        ``stream`` is one of torch's (``torch.cuda.current_stream()``) or its number; 0 is the
        default one. Call it once the model is on the device, and again whenever training changes to
        another stream. Returns False if the stream cannot be followed, which is logged once.
        Returns True for a client without a server, which has nothing to follow.
        """
        handle = getattr(stream, "cuda_stream", stream)
        refused = self._follow_stream(handle)
        if refused and not self._told_refused:
            self._told_refused = True
            self._say(f"{refused}; clocks follow training's calls")
        return refused is None

    def iteration(self, number: int | None = None) -> _Iteration:
        """Context manager for one iteration; optional. Numbers are equal on all ranks, and rise."""
        if number is None:
            number = self._next_iteration
        self._next_iteration = number + 1
        return _Iteration(self, number)

    def pause_requested(self, iteration: int | None = None) -> Pause | None:
        """Returns the request to pause before this iteration (by default the next), or None.

        Call it between iterations, before each one or every few, on all ranks before the same ones:
        all get the same answer, so that saving may be a collective operation. When requested,
        training saves its state, then waits (``wait_for_resume``), or ends. It is never forced: if
        it does neither, the request is repeated before the next iteration.
        """
        asked = self._pause_requested(-1 if iteration is None else iteration)
        if asked is None:
            return None
        until, reason = asked
        return Pause(None if until is None else datetime.fromtimestamp(until, timezone.utc), reason)

    def wait_for_resume(self, timeout: float | None = None) -> bool:
        """Waits until training may continue. Returns False after ``timeout`` seconds.

        This time does not count as part of an iteration, and the server shows that this rank waits.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _STEP if end is None else min(_STEP, max(0.0, end - time.monotonic()))
            if self._wait_for_resume(left):
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def pause_if_requested(
        self,
        save: Callable[[], object] | None = None,
        iteration: int | None = None,
        agree: Callable[[bool], bool] | None = None,
    ) -> bool:
        """Pauses if requested. Call it between iterations, on all ranks. Returns whether it paused.

        ``save`` is called first, on all ranks before the same iteration, such as ``lambda:
        save_checkpoint(step)``. If a rank is disconnected at the time of the request, it may be the
        only one that pauses, or the only one that does not. ``agree`` prevents that: it is called
        each time with this rank's answer, and returns whether all ranks pause (a reduction over
        them).
        """
        pause = self.pause_requested(iteration)
        if agree is not None and not agree(pause is not None):
            return False
        if pause is None:
            return False
        if save is not None:
            save()
        until = "" if pause.until is None else f" until {pause.until:%F %H:%M} UTC or so"
        self._say(f"training pauses{until}" + (f" ({pause.reason})" if pause.reason else ""))
        self.wait_for_resume()
        return True

    def counts(self) -> Counts:
        """Returns the counts since the start; also after ``close``."""
        return Counts(*self._counts())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_FORWARD, _BACKWARD = KINDS["forward"], KINDS["backward"]


def start(
    *,
    server: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    job: str | None = None,
    run: str | None = None,
    take_over: bool | None = None,
    observe: bool | None = None,
    coordinates: RankCoordinates | None = None,
    clock_socket: str | os.PathLike[str] | None = None,
    gpu: int | None = None,
    lease_s: float | None = None,
    patience_s: float | None = None,
    look_ahead_s: float | None = None,
    name: str | None = None,
    data: int | None = None,
    stages: int | None = None,
    tensor: int | None = None,
    schedule: str | Mapping[str, Any] | None = None,
    micro_batches: int | None = None,
    chunks: int | None = None,
    transfers: Mapping[str, Any] | None = None,
    load_s: PerStage | None = None,
    reduce_s: PerStage | None = None,
    optimizer_s: PerStage | None = None,
    fit: bool | None = None,
    blocking_power_w: PerStage | None = None,
    switch_latency_s: float | str | None = None,
    min_dwell_s: float | None = None,
    plans: int | None = None,
    profiling: Mapping[str, Any] | None = None,
    objective: Mapping[str, Any] | None = None,
    carbon: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    profile: str | None = None,
) -> Client:
    """Creates a client from the arguments, completed from Harpe's and the launcher's variables.

    Options of the rank: ``server``, its URL (without one, and without ``HARPE_SERVER``, the client
    does nothing), with ``token`` or ``token_file`` and ``ca_file``; ``job``, its id, and ``run``, a
    name for this start of training; ``observe``, the same on all ranks: training is measured as it
    is, and no clock is set; ``coordinates`` (data, stage, tensor); ``gpu`` and ``clock_socket``,
    the agent's; ``lease_s`` on the GPU's clock, ``patience_s`` without the server until the clock
    is released, ``look_ahead_s`` by which clocks are requested in advance.

    Options of the job, the same on all ranks: ``schedule``, ``stages``, ``micro_batches``,
    ``chunks``, degrees ``data`` and ``tensor``, ``objective``, ``profiling`` and other members of a
    job (docs/python.md).

    Waits for neither server nor agent. Raises :class:`harpe.InvalidInputError` if options are
    wrong, and nothing else.
    """
    return start_with(locals())


def start_with(options: Mapping[str, Any]) -> Client:
    """Calls :func:`start` with a mapping of options. Names are checked, too."""
    text = client_options(**options)
    try:
        client = Client(text)
    except Failure as failure:
        code, message = failure.args
        # Positions in the JSON made from these options mean nothing to the user.
        raise error_of(code, re.sub(r"^options:\d+:\d+: ", "", message, flags=re.M)) from None
    _alive.add(client)
    return client


_alive: weakref.WeakSet[Client] = weakref.WeakSet()


def _close_all() -> None:
    for client in list(_alive):
        client.close()


# Before the interpreter shuts down; and so that forked children of data loaders, which have none of
# the client's threads, report nothing.
atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
