"""What hooks report to, depending on where instructions run.

On a CPU an instruction is done when its call returns. On a GPU training only puts work into a
stream: then the client follows that stream, so that a call counts from when the device gets
there (:meth:`harpe.Client.follow_stream`). Training waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["HostRecorder", "Recorder", "StreamRecorder", "recorder_for"]


class Recorder(Protocol):
    """The target of hooks' reports; never raises."""

    def begin(self, kind: int, chunk: int, micro_batch: int) -> None: ...
    def end(self) -> None: ...
    def iteration_begin(self, number: int) -> None: ...
    def iteration_end(self) -> None: ...


class HostRecorder:
    """For instructions that are complete when their call returns: the client's own methods."""

    begin: Callable[[int, int, int], None]
    end: Callable[[], None]
    iteration_begin: Callable[[int], None]
    iteration_end: Callable[[], None]

    def __init__(self, client: Any) -> None:
        self.begin = client.on_instruction_begin
        self.end = client.on_instruction_end
        self.iteration_begin = client.on_iteration_begin
        self.iteration_end = client.on_iteration_end


class StreamRecorder:
    """For instructions that are queued in the current stream of a GPU.

    ``cuda`` is ``torch.cuda`` (for HIP, too), or an equivalent.
    """

    def __init__(self, client: Any, cuda: Any, device: Any) -> None:
        self._client = client
        self._cuda = cuda
        self._device = device
        self._stream: int | None = None
        self.end: Callable[[], None] = client.on_instruction_end
        self.iteration_end: Callable[[], None] = client.on_iteration_end

    def begin(self, kind: int, chunk: int, micro_batch: int) -> None:
        self._follow()
        self._client.on_instruction_begin(kind, chunk, micro_batch)

    def iteration_begin(self, number: int) -> None:
        self._follow()
        self._client.on_iteration_begin(number)

    def _follow(self) -> None:
        """Follows the stream that training uses now; tries again until that succeeds."""
        try:
            stream = int(self._cuda.current_stream(self._device).cuda_stream)
        except Exception:
            # If the device fails here, training itself will fail.
            return
        if stream != self._stream and self._client.follow_stream(stream):
            self._stream = stream


def recorder_for(client: Any, device: Any = None) -> Recorder:
    """Returns the recorder for computations on ``device``: ``None`` is the current CUDA device if
    torch has one, else the CPU."""
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
    return StreamRecorder(
        client, torch.cuda, torch.cuda.current_device() if index is None else index
    )
