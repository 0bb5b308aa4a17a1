"""Times of instructions on a device that works through a queue, long after the calls have returned.

The device is a stand-in with the calls of ``torch.cuda`` that are used: streams, events, a clock of
its own that starts anywhere and runs a little fast. No GPU has been used to test this."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpe.device_times import CudaRecorder, HostRecorder, boot_time_ns

MICROSECOND = 1000
MILLISECOND = 1_000_000


class Device:
    """Work and events of a stream happen one after the other, at moments that are known at once."""

    def __init__(self, offset_ns: int, drift: float) -> None:
        self._offset, self._drift = offset_ns, drift
        self.busy_until: dict[int, int] = {}

    def put(self, stream: int, work_ns: int) -> int:
        """When it is done, on the machine's clock."""
        begin = max(boot_time_ns(), self.busy_until.get(stream, 0))
        self.busy_until[stream] = begin + work_ns
        return begin + work_ns

    def shown(self, moment: int) -> float:
        """A moment on the device's clock, in nanoseconds."""
        return (moment - self._offset) * (1 + self._drift)


class Cuda:
    """What looks like ``torch.cuda``."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.events = 0
        self.fails_from: int | None = None
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing
                cuda.events += 1
                self.moment: int | None = None

            def record(self, stream: Any = None) -> None:
                if cuda.fails_from is not None and cuda.events >= cuda.fails_from:
                    raise RuntimeError("CUDA error: out of memory")
                self.moment = cuda.device.put(0 if stream is None else stream.number, 0)

            def synchronize(self) -> None:
                assert self.moment is not None
                assert threading.current_thread() is not threading.main_thread()
                time.sleep(max(0.0, (self.moment - boot_time_ns()) * 1e-9))

            def elapsed_time(self, other: Event) -> float:
                assert self.moment is not None
                assert other.moment is not None
                between = cuda.device.shown(other.moment) - cuda.device.shown(self.moment)
                return round(between / 500) * 500 / 1e6  # half a microsecond, as CUDA says

        self.Event = Event

    class Stream:
        number = 1

        def __init__(self, device: Any) -> None:
            pass


class Client:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.times: dict[int, list[int]] = {}
        self.said: list[str] = []
        self.waits = 0.0

    def await_device_times(self, seconds: float) -> None:
        self.waits = seconds

    def on_instruction_begin(self, *arguments: int) -> None:
        self.told.append(("begin", *arguments))

    def on_instruction_end(self) -> None:
        self.told.append(("end",))

    def on_iteration_begin(self, number: int) -> None:
        self.told.append(("iteration", number))

    def on_iteration_end(self) -> None:
        self.told.append(("iteration end",))

    def on_device_times(self, iteration: int, times: list[int]) -> None:
        self.times[iteration] = times

    def _say(self, text: str) -> None:
        self.said.append(text)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(-(10**15), 10**15),
    st.floats(-2e-5, 2e-5),
    st.lists(st.lists(st.integers(1, 5 * MILLISECOND), min_size=1, max_size=6), max_size=4),
)
def test_times_are_those_of_the_work_whatever_the_devices_clock(
    offset: int, drift: float, iterations: list[list[int]]
) -> None:
    device, client = Device(offset, drift), Client()
    recorder = CudaRecorder(client, Cuda(device), 0)
    true: dict[int, list[int]] = {}
    for number, works in enumerate(iterations):
        recorder.iteration_begin(number)
        true[number] = []
        for k, work in enumerate(works):
            recorder.begin(0, 0, k)
            begin = device.busy_until[0]
            true[number] += [begin, device.put(0, work)]
            recorder.end()
        recorder.iteration_end()
    recorder.close()
    assert client.waits > 0
    assert client.times.keys() == true.keys()
    for number, moments in true.items():
        told = client.times[number]
        assert len(told) == len(moments)
        # Lengths are exact but for the clock's steps and rate; moments but for a busy machine.
        for k in range(0, len(moments), 2):
            length, true_length = told[k + 1] - told[k], moments[k + 1] - moments[k]
            assert abs(length - true_length) < 50 * MICROSECOND + 1e-4 * true_length
        assert abs(told[0] - moments[0]) < 20 * MILLISECOND
    assert client.said == []


def test_training_waits_for_nothing() -> None:
    device, client = Device(0, 0), Client()
    recorder = CudaRecorder(client, Cuda(device), 0)
    begun = time.monotonic()
    for number in range(3):
        recorder.iteration_begin(number)
        recorder.begin(0, 0, 0)
        device.put(0, 100 * MILLISECOND)
        recorder.end()
        recorder.iteration_end()
    # The device is busy for 300 ms.
    assert time.monotonic() - begun < 0.1
    recorder.close()
    assert sorted(client.times) == [0, 1, 2]


def test_events_are_used_again() -> None:
    device, client = Device(0, 0), Client()
    cuda = Cuda(device)
    recorder = CudaRecorder(client, cuda, 0)
    for number in range(20):
        recorder.iteration_begin(number)
        for _ in range(10):
            recorder.begin(0, 0, -1)
            recorder.end()
        recorder.iteration_end()
        while number not in client.times:
            time.sleep(0.001)
    recorder.close()
    anchors = 20 * 5
    assert cuda.events - anchors <= 2 * 20


def test_a_device_that_fails_is_told_once_and_training_goes_on() -> None:
    client = Client()
    cuda = Cuda(Device(0, 0))
    recorder = CudaRecorder(client, cuda, 0)
    cuda.fails_from = 0
    for number in range(3):
        recorder.iteration_begin(number)
        recorder.begin(0, 0, 0)
        recorder.end()
        recorder.iteration_end()
    recorder.close()
    assert len(client.said) == 1
    assert "out of memory" in client.said[0]
    assert client.times == {}
    assert [what[0] for what in client.told] == ["iteration", "begin", "end", "iteration end"] * 3


def test_on_a_cpu_calls_are_the_clients_own() -> None:
    client = Client()
    recorder = HostRecorder(client)
    recorder.iteration_begin(3)
    recorder.begin(1, 2, 3)
    recorder.end()
    recorder.iteration_end()
    recorder.close()
    assert client.told == [("iteration", 3), ("begin", 1, 2, 3), ("end",), ("iteration end",)]


@pytest.mark.parametrize("seed", range(3))
def test_a_recorder_may_be_told_out_of_order(seed: int) -> None:
    """As when training is interrupted; nothing raises, and events come in pairs."""
    client = Client()
    recorder = CudaRecorder(client, Cuda(Device(0, 0)), 0)
    dice = random.Random(seed)
    for number in range(100):
        call = dice.choice(["begin", "end", "iteration_begin", "iteration_end"])
        arguments = {"begin": (0, 0, 0), "iteration_begin": (number,)}.get(call, ())
        getattr(recorder, call)(*arguments)
    recorder.close()
    assert client.said == []
