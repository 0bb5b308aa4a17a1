"""The built module, from python/extension."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

KINDS: dict[str, int]
VERSION: str

class Failure(Exception):  # noqa: N818
    """With arguments (code, text)."""

class RankClient:
    registered: bool
    closed: bool
    label: str
    def __init__(self, options: str) -> None: ...
    def on_instruction_begin(
        self, kind: str | int, chunk: int = 0, micro_batch: int = -1
    ) -> None: ...
    def on_instruction_end(self) -> None: ...
    def on_iteration_begin(self, iteration: int) -> None: ...
    def on_iteration_end(self, device_times: Sequence[int] | None = None) -> None: ...
    def events(self) -> list[str]: ...
    def close(self) -> None: ...
    def _counts(self) -> tuple[int, int, int, int, int, int, int, int, int, int]: ...
    def _pause_requested(self, iteration: int) -> tuple[float | None, str] | None: ...
    def _wait_for_resume(self, most: float) -> bool: ...
    def _follow_stream(self, stream: int) -> str | None: ...
    def _say(self, text: str) -> None: ...

class PowerOptimizer:
    def __init__(
        self,
        reduce: Callable[[str, list[float]], Sequence[float]] | None,
        optimize: str,
        eta: float,
        max_slowdown: float,
        host_power: float,
        online: bool,
        measures_node: bool,
        gpus: str,
        local_rank: int,
        profile: str,
        socket: str,
        job: str,
        batch_size: int,
        writes_profile: bool,
        /,
    ) -> None: ...
    def on_step_begin(self) -> bool: ...
    def on_epoch_end(self) -> None: ...
    def finish(self) -> str: ...

_Estimate: TypeAlias = tuple[float | None, float | None, float, float, str, float, float]
_Device: TypeAlias = tuple[str, str, str, _Estimate, str | None, float, str]

class EnergyMeter:
    simulated: bool
    notes: list[str]
    backends: list[tuple[str, str]]
    def __init__(self, gpus: str, /) -> None: ...
    def begin(self, name: str, with_lead: bool, /) -> None: ...
    def end(self, name: str, settles: bool, /) -> tuple[float, float, _Estimate, list[_Device]]: ...
    def so_far(self, name: str, /) -> tuple[float, float, _Estimate, list[_Device]]: ...
    def close(self) -> None: ...

def carbon_intensity(text: str, /) -> tuple[float, str, str, str]: ...
def measure_recorded(
    counter: bytes,
    power: bytes,
    power_is_average: bool,
    highest_power: float,
    windows: bytes,
    settles: bool,
    seed: int,
    /,
) -> list[_Estimate]: ...
