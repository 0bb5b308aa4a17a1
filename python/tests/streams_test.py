"""Training that runs ahead of its GPU, over what looks like CUDA's driver (scripted_cuda.cc)."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harpe.streams import HostRecorder, StreamRecorder

LIBRARY = os.environ.get("HARPE_SCRIPTED_CUDA", "")
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Device:
    """A GPU in use on this thread, whose work waits at gates."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL(LIBRARY)
        self.cuda.cuCtxSetCurrent(ctypes.c_void_p(1))
        self._kept: list[Any] = []

    def put_gate(self) -> threading.Event:
        gate = threading.Event()
        work = WORK(lambda _: gate.wait() and None)
        self._kept.append(work)
        assert self.cuda.cuLaunchHostFunc(None, work, None) == 0
        return gate


class Cuda:
    """The part of ``torch.cuda`` that is used."""

    def __init__(self) -> None:
        self.streams = [0]

    def current_stream(self, _: Any) -> Any:
        class Stream:
            cuda_stream = self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]

        return Stream()


def reaches(client: Any, instructions: int) -> bool:
    deadline = time.monotonic() + 20
    while client.counts().instructions != instructions:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def test_a_process_without_a_gpu_is_told_once_and_goes_on(start: Callable[..., Any]) -> None:
    client = start()
    recorder = StreamRecorder(client, Cuda(), 0)
    for number in range(2):
        recorder.iteration_begin(number)
        recorder.begin(0, 0, 0)
        recorder.end()
        recorder.iteration_end()
    assert client.counts().instructions == 2
    assert sum("neither CUDA" in text for text in client.events()) == 1


@pytest.mark.skipif(not LIBRARY, reason="HARPE_SCRIPTED_CUDA is not set")
def test_instructions_count_from_when_the_device_gets_there(start: Callable[..., Any]) -> None:
    device, client = Device(), start()
    recorder = StreamRecorder(client, Cuda(), 0)
    gates = [device.put_gate()]
    recorder.iteration_begin(0)
    for micro_batch in range(3):
        recorder.begin(0, 0, micro_batch)
        gates.append(device.put_gate())
        recorder.end()
    recorder.iteration_end()
    for passed, gate in enumerate(gates):
        assert client.counts().instructions == passed
        gate.set()
        assert reaches(client, min(passed + 1, 3))
    client.close()
    assert client.counts().iterations == 1
    assert not any("stream" in text for text in client.events())


@pytest.mark.skipif(not LIBRARY, reason="HARPE_SCRIPTED_CUDA is not set")
def test_a_stream_of_torch_or_its_number(start: Callable[..., Any]) -> None:
    Device()
    client = start()
    assert client.follow_stream(Cuda().current_stream(0))
    assert client.follow_stream(0)
    assert not client.follow_stream("the first")
    client.close()
    assert not client.follow_stream(0)


def test_a_device_that_cannot_be_asked_raises_nothing_into_training() -> None:
    class Broken:
        def current_stream(self, _: Any) -> Any:
            raise RuntimeError("CUDA error: device-side assert triggered")

    calls = []

    class Client:
        def on_instruction_begin(self, *arguments: int) -> None:
            calls.append(arguments)

        def on_instruction_end(self) -> None:
            calls.append(())

        on_iteration_end = on_instruction_end

    recorder = StreamRecorder(Client(), Broken(), 0)
    recorder.begin(1, 2, 3)
    recorder.end()
    assert calls == [(1, 2, 3), ()]


def test_on_a_cpu_calls_are_the_clients_own() -> None:
    class Client:
        def __getattr__(self, name: str) -> str:
            return name

    recorder: Any = HostRecorder(Client())
    assert recorder.begin == "on_instruction_begin"
    assert recorder.end == "on_instruction_end"
    assert recorder.iteration_begin == "on_iteration_begin"
    assert recorder.iteration_end == "on_iteration_end"
