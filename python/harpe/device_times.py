"""When instructions run on a CUDA device, told to the client without waiting for the device.

Where training only puts work into a queue, the moments at which it calls say little about when the
work runs. So an event goes into the queue in front of and behind each instruction. A thread of this
module's own waits for the last one of an iteration, reads them all, and hands the client the times;
its reports wait for them. Training's own thread waits for nothing.

The device's clock is brought onto the machine's (``CLOCK_BOOTTIME``) anew for each iteration: an
event put into a queue that is empty happens between the two moments around it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["CudaRecorder", "HostRecorder", "Recorder", "boot_time_ns", "recorder_for"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MOST_WAITING = 16
"""Iterations whose events have not been read yet; more are let go, and counted by nobody."""
_LONGEST_WAIT_S = 60.0
"""Of reports for times, such as while a device loads its first kernels."""
_LOOKS = 5
"""At the two clocks side by side, of which the closest counts."""


def boot_time_ns() -> int:
    """On the clock of the client's own times."""
    return time.clock_gettime_ns(_CLOCK)


class Recorder(Protocol):
    """What hooks tell; never raises."""

    def begin(self, kind: int, chunk: int, micro_batch: int) -> None: ...
    def end(self) -> None: ...
    def iteration_begin(self, number: int) -> None: ...
    def iteration_end(self) -> None: ...
    def close(self) -> None: ...


class HostRecorder:
    """Where instructions are done when their call returns, as on a CPU: the client's own
    methods."""

    begin: Callable[[int, int, int], None]
    end: Callable[[], None]
    iteration_begin: Callable[[int], None]
    iteration_end: Callable[[], None]

    def __init__(self, client: Any) -> None:
        self.begin = client.on_instruction_begin
        self.end = client.on_instruction_end
        self.iteration_begin = client.on_iteration_begin
        self.iteration_end = client.on_iteration_end

    def close(self) -> None:
        pass


class CudaRecorder:
    """Where instructions are put into the current stream of a CUDA device.

    ``cuda`` is ``torch.cuda``, or what looks like it.
    """

    def __init__(self, client: Any, cuda: Any, device: Any) -> None:
        self._client = client
        self._cuda = cuda
        self._device = device
        self._spare: list[Any] = []
        self._events: list[Any] = []
        self._iteration = -1
        self._broken = False
        self._open = False
        client.await_device_times(_LONGEST_WAIT_S)
        self._waiting: queue.Queue[tuple[int, list[Any]] | None] = queue.Queue()
        self._thread = threading.Thread(
            target=self._read_all, name="harpe-device-times", daemon=True
        )
        self._thread.start()

    def begin(self, kind: int, chunk: int, micro_batch: int) -> None:
        self._client.on_instruction_begin(kind, chunk, micro_batch)
        self._open = True
        self._mark()

    def end(self) -> None:
        if self._open:
            self._mark()
            self._open = False
        self._client.on_instruction_end()

    def iteration_begin(self, number: int) -> None:
        self._hand_over()
        self._iteration = number
        self._client.on_iteration_begin(number)

    def iteration_end(self) -> None:
        self._hand_over()
        self._client.on_iteration_end()

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join(2.0)

    def _mark(self) -> None:
        if self._broken:
            return
        try:
            try:
                event = self._spare.pop()
            except IndexError:
                event = self._cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        except Exception as fault:
            self._give_up(fault)

    def _hand_over(self) -> None:
        events, self._events = self._events, []
        if not events or self._broken or self._iteration < 0:
            return
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put((self._iteration, events))
        else:
            # Reports of iterations without times are dropped by the client.
            self._spare.extend(events)

    def _give_up(self, fault: Exception) -> None:
        """Without times of the device; training goes on."""
        if not self._broken:
            self._broken = True
            # The moments of the calls would be told as times of the work.
            self._client._say(f"times cannot be taken on the device: {fault}; nothing is reported")

    # On the thread.

    def _read_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            if self._broken:
                continue
            iteration, events = item
            try:
                times = self._times(events)
            except Exception as fault:
                self._give_up(fault)
                continue
            self._client.on_device_times(iteration, times)
            self._spare.extend(events)

    def _times(self, events: list[Any]) -> list[int]:
        """Of events in the order of their queue, in nanoseconds on the machine's clock."""
        events[-1].synchronize()
        anchor, moment = self._anchor()
        first = events[0]
        behind = first.elapsed_time(anchor)
        return [moment - round((behind - first.elapsed_time(event)) * 1e6) for event in events]

    def _anchor(self) -> tuple[Any, int]:
        """An event, and when it happened."""
        best: tuple[Any, int] | None = None
        narrowest = 0
        stream = self._cuda.Stream(self._device)
        for _ in range(_LOOKS):
            event = self._cuda.Event(enable_timing=True)
            before = boot_time_ns()
            event.record(stream)
            event.synchronize()
            after = boot_time_ns()
            if best is None or after - before < narrowest:
                narrowest = after - before
                best = event, (before + after) // 2
        assert best is not None
        return best


def recorder_for(client: Any, device: Any = None) -> Recorder:
    """The recorder for computations on ``device``: ``None`` is the current CUDA device where torch
    has one, else the CPU."""
    try:
        import torch
    except ImportError:
        return HostRecorder(client)
    kind = getattr(device, "type", None) or (str(device).partition(":")[0] if device else None)
    if kind is None:
        kind = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
    if kind != "cuda":
        return HostRecorder(client)
    index = getattr(device, "index", None)
    return CudaRecorder(client, torch.cuda, torch.cuda.current_device() if index is None else index)
