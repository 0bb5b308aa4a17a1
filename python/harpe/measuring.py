"""What a piece of a program costs: joules with an error bar, seconds, watts, grams of CO2."""

from __future__ import annotations

import atexit
import functools
import inspect
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from ._run_command import run_command
from .drawing import html_paragraph, html_table
from .errors import Error, InvalidInputError, error_of

try:
    from . import _client
except ImportError as error:
    raise ImportError(
        "harpe's built module is missing, so that nothing can be measured; install the package on "
        f"Linux with 'pip install .' in Harpe's repository: {error}"
    ) from error

__all__ = ["Carbon", "DeviceEnergy", "Measure", "Measured", "Measurement", "measure"]

P = ParamSpec("P")
R = TypeVar("R")

_J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Carbon:
    """The greenhouse gas per kilowatt-hour, and its source."""

    grams_per_kwh: float
    kind: str
    zone: str = ""
    source: str = ""


@dataclass(frozen=True)
class DeviceEnergy:
    """Energy of one device."""

    device: str
    """Such as "GPU 0", "CPU 0" or "DRAM 0"."""
    name: str
    uuid: str
    joules: float | None
    """None if nothing could be read."""
    joules_error: float | None
    """Half-width of the 95 % interval; None if unknown."""
    sensor_error: float
    """Systematic error of the sensor, in J, not part of ``joules_error``."""
    seconds: float
    source: str
    """Source of the joules, such as "counter, edges by power"."""
    missing_s: float = 0.0
    """Time after the device failed; ``joules`` is then a lower bound."""
    problem: str | None = None
    throttled: float = 0.0
    """Share of the time in which the GPU was throttled."""
    throttled_by: str = ""
    """Causes of the throttling."""

    @property
    def watts(self) -> float | None:
        return _watts(self.joules, self.seconds)


class Measurement:
    """Measurement of a block. While it runs, ``running`` is true and there are no figures yet: use
    ``so_far()``.

    ``joules`` are None if no device could be read, ``joules_error`` if the error is unknown.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.running = True
        self.failed = False
        """The block ended by an exception."""
        self.seconds: float = math.nan
        self.started_at: float = math.nan
        """Seconds since 1970."""
        self.joules: float | None = None
        self.joules_error: float | None = None
        """Half of the 95 % interval."""
        self.sensor_error: float | None = None
        """J that the sensors themselves may be off, apart from the error."""
        self.source = ""
        """Where the joules come from, the least exact of the devices' sources."""
        self.missing_s: float = 0.0
        """Above 0: a device failed, and the joules are the least that was used."""
        self.devices: tuple[DeviceEnergy, ...] = ()
        self.simulated = False
        """The GPUs are simulated: these are figures of no real device."""
        self.carbon: Carbon | None = None
        self.notes: tuple[str, ...] = ()
        self._so_far: Callable[[], Measurement] | None = None

    @property
    def watts(self) -> float | None:
        """The average power."""
        return _watts(self.joules, self.seconds)

    @property
    def grams_co2(self) -> float | None:
        """The CO2 equivalent; None without ``carbon``, or without joules."""
        if self.carbon is None or self.joules is None:
            return None
        return self.joules / _J_PER_KWH * self.carbon.grams_per_kwh

    def so_far(self) -> Measurement:
        """Returns the energy so far of a running block. After its end, returns this measurement."""
        return self if self._so_far is None else self._so_far()

    def __str__(self) -> str:
        label = f"{self.name}: " if self.name else ""
        if self.running and math.isnan(self.seconds):
            return f"{label}being measured"
        parts = [_seconds(self.seconds)]
        if self.joules is None:
            why = f" ({'; '.join(self.notes)})" if self.notes else ""
            parts.append("no device gave its energy" + why)
        else:
            parts.append(_energy(self.joules, self.joules_error, self.missing_s))
            if self.watts is not None:
                parts.append(f"{self.watts:.1f} W")
            if self.grams_co2 is not None:
                parts.append(_grams(self.grams_co2))
        remarks = [self.source, *(["simulated GPUs"] if self.simulated else [])]
        remarks += ["it failed"] if self.failed else []
        said = "; ".join(filter(None, remarks))
        return f"{label}{', '.join(parts)}" + (f" ({said})" if said else "")

    def __repr__(self) -> str:
        return f"<harpe.Measurement {self}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{device.device} {device.name}",
                _energy(device.joules, device.joules_error, device.missing_s),
                "" if device.watts is None else f"{device.watts:.1f} W",
                device.source,
            )
            for device in self.devices
            if device.joules is not None
        ]
        if len(rows) > 1 and self.joules is not None:
            total = _energy(self.joules, self.joules_error, self.missing_s)
            rows.append(("total", total, f"{self.watts or 0:.1f} W", ""))
        notes = "".join(html_paragraph(note) for note in self.notes)
        if self.simulated:
            notes += html_paragraph(
                "The GPUs are simulated: figures of no real device.", warns=True
            )
        table = html_table(
            ("device", "energy (95 %)", "mean", "source"), rows, marked=len(rows) - 1
        )
        return html_paragraph(str(self)) + (table if rows else "") + notes


class Measured(Generic[P, R]):
    """A function whose calls are measured; ``measurements`` has the last 1000."""

    def __init__(self, function: Callable[P, R], again: Callable[[], Measure]) -> None:
        functools.update_wrapper(self, function)
        self.measurements: deque[Measurement] = deque(maxlen=1000)
        self._function = function
        self._again = again

    @property
    def last(self) -> Measurement | None:
        """The measurement of the last completed call."""
        return self.measurements[-1] if self.measurements else None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if inspect.iscoroutinefunction(self._function):
            return cast(R, self._awaited(*args, **kwargs))
        with self._measured():
            return self._function(*args, **kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """Supports methods of classes."""
        return self if owner is None else functools.partial(self, owner)

    async def _awaited(self, *args: Any, **kwargs: Any) -> Any:
        with self._measured():
            return await cast(Any, self._function)(*args, **kwargs)

    def _measured(self) -> Measure:
        measure = self._again()
        measure._ended = self.measurements.append
        return measure


class Measure:
    """The result of :func:`measure`: for one ``with``, or for a function."""

    def __init__(
        self, name: str, gpus: str, carbon: str | float | None, settle: bool, synchronize: bool
    ) -> None:
        self._name, self._gpus, self._settle, self._carbon = name, gpus, settle, carbon
        self._synchronizes = synchronize
        self._intensity = None if carbon is None else _known_intensity(carbon)
        self._ended: Callable[[Measurement], object] | None = None
        self._measurement: Measurement | None = None

    def __call__(self, function: Callable[P, R]) -> Measured[P, R]:
        name = self._name or getattr(function, "__qualname__", "")
        arguments = (name, self._gpus, self._carbon, self._settle, self._synchronizes)
        return Measured(function, lambda: Measure(*arguments))

    def __enter__(self) -> Measurement:
        if self._measurement is not None:
            raise RuntimeError("this measurement has begun already: each with takes its own")
        measurement = Measurement(self._name)
        self._meter = _meter_for(self._gpus)
        self._window = _next_window()
        if self._synchronizes:
            _synchronize()
        measurement._so_far = self._so_far
        self._measurement = measurement
        self._begun, self._process = time.time(), os.getpid()
        try:
            self._meter.begin(self._window, self._settle)
        except _client.Failure as failure:
            raise error_of(*failure.args) from None
        return measurement

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        measurement = self._measurement
        assert measurement is not None
        if self._synchronizes and kind is None:
            _synchronize()
        measurement.failed = kind is not None
        measurement.running = False
        measurement._so_far = None
        try:
            if os.getpid() != self._process:
                raise RuntimeError("the process forked meanwhile, and this is its child")
            self._fill(measurement, self._meter.end(self._window, self._settle and kind is None))
            self._price(measurement)
        except (_client.Failure, RuntimeError) as failure:
            # A failed measurement must not replace the block's result or exception. Meters are
            # closed at the interpreter's end.
            measurement.seconds = time.time() - self._begun
            measurement.started_at = self._begun
            measurement.notes += (f"Only the time was measured: {failure.args[-1]}",)
        if self._ended is not None:
            self._ended(measurement)

    def _so_far(self) -> Measurement:
        measurement = Measurement(self._name)
        try:
            self._fill(measurement, self._meter.so_far(self._window))
        except _client.Failure as failure:
            raise error_of(*failure.args) from None
        measurement.carbon = self._intensity
        return measurement

    def _fill(self, into: Measurement, window: Any) -> None:
        started_at, seconds, total, devices = window
        into.started_at, into.seconds = started_at, seconds
        into.joules, into.joules_error, sensor_error, _, into.source, _, into.missing_s = total
        into.sensor_error = None if into.joules is None else sensor_error
        into.devices = tuple(_device(*each) for each in devices)
        into.simulated = self._meter.simulated
        into.notes = (*self._meter.notes, *_remarks(into.devices))
        if into.joules is None and not into.devices:
            into.notes += tuple(f"{name}: {detail}" for name, detail in self._meter.backends)

    def _price(self, measurement: Measurement) -> None:
        """Computes grams after the end: queries providers of intensities, or their cache."""
        if self._carbon is None or measurement.joules is None:
            return
        try:
            measurement.carbon = self._intensity or _provided_intensity(str(self._carbon))
        except Error as error:
            measurement.notes += (f"There are no grams of CO2: {error}",)


def measure(
    name: str = "",
    *,
    gpus: str = "",
    carbon: str | float | None = None,
    settle: bool = False,
    synchronize: bool = True,
) -> Measure:
    """Measures a block, or each call of a function::

        with harpe.measure("epoch", carbon="DE") as m:
            train()
        print(m)  # epoch: 61.2 s, 21534 ± 12 J, 351.8 W, 2.28 g CO2eq (counter, edges by power)

        @harpe.measure()
        def validate(): ...
        validate()
        validate.last.joules

    Blocks may nest and overlap; each counts all energy of the devices in the meantime, other
    programs included. Nothing is printed. Without a readable device there is only the time, and
    ``notes`` explains what is missing. No rights are needed for GPUs; most CPUs are readable only
    for root. ``HARPE_SIMULATION`` names simulated GPUs (docs/simulated-gpus.md).

    :param name: of the measurement; by default the function's name
    :param gpus: as for ``harpe run --gpus``, such as ``"0,1"``; by default all that this process
        may use
    :param carbon: g/kWh, a country's code for its yearly mean (``"DE"``), or a source of ``harpe
        carbon now``, which is queried at the end
    :param settle: for a narrower error bar, reads counter steps on both sides: half a second before
        the block and about a third after it, neither of which is counted
    :param synchronize: waits for torch's pending CUDA work at both edges, if torch is loaded and
        uses CUDA
    :raises InvalidInputError: there is no such country
    :raises NotFoundError: there is no such GPU
    """
    return Measure(name, gpus, carbon, settle, synchronize)


# --- Intensities ---------------------------------------------------------------------------------


def _known_intensity(carbon: str | float) -> Carbon | None:
    """Returns None if a provider has to be queried."""
    text = carbon if isinstance(carbon, str) else repr(float(carbon))
    if ":" in text or text == "uk":
        return None
    try:
        return Carbon(*_client.carbon_intensity(text))
    except _client.Failure as failure:
        raise (_unknown_source(text) or error_of(*failure.args)) from None


def _unknown_source(text: str) -> Error | None:
    """Returns the command's error for a source: it knows all sources, the module only countries."""
    try:
        _provided_intensity(text)
    except InvalidInputError as error:
        return InvalidInputError(str(error).replace("SOURCE:", "carbon:", 1))
    except Error:
        pass  # no command, or no answer
    return None


def _provided_intensity(source: str) -> Carbon:
    said = run_command(["carbon", "now", "--json", source])
    origin = said["data_source"] or said["provider"]
    return Carbon(said["grams_per_kwh"], said["kind"], said["zone"] or "", origin)


# --- Meters --------------------------------------------------------------------------------------

# One meter per choice of GPUs, opened on first use, since opening devices takes time. A forked
# child has none of the threads, so it opens its own meter and leaves its parent's alone.
_meters: dict[tuple[str, ...], _client.EnergyMeter] = {}
_left_alone: list[_client.EnergyMeter] = []
_lock = threading.Lock()
_windows = 0
_VARIABLES = (
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HARPE_NVML_LIBRARY",
    "HARPE_POWERCAP_ROOT",
    "HARPE_SIMULATION",
)


def _meter_for(gpus: str) -> _client.EnergyMeter:
    key = (gpus, *(os.environ.get(name, "") for name in _VARIABLES))
    with _lock:
        if key not in _meters:
            try:
                _meters[key] = _client.EnergyMeter(gpus)
            except _client.Failure as failure:
                raise error_of(*failure.args) from None
        return _meters[key]


def _next_window() -> str:
    global _windows
    with _lock:
        _windows += 1
        return str(_windows)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _left_alone.extend(_meters.values())
    _meters.clear()


@atexit.register
def _close_all() -> None:
    """Closes all meters before the interpreter shuts down."""
    with _lock:
        for meter in _meters.values():
            meter.close()
        _meters.clear()


os.register_at_fork(after_in_child=_after_fork)


# --- Text ----------------------------------------------------------------------------------------


def _synchronize() -> None:
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _device(
    label: str,
    name: str,
    uuid: str,
    estimate: tuple[float | None, float | None, float, float, str, float, float],
    problem: str | None,
    throttled: float,
    throttled_by: str,
) -> DeviceEnergy:
    joules, joules_error, sensor_error, seconds, source, _, missing = estimate
    return DeviceEnergy(
        label, name, uuid, joules, joules_error, sensor_error, seconds, source, missing, problem,
        throttled, throttled_by,
    )  # fmt: skip


def _remarks(devices: tuple[DeviceEnergy, ...]) -> list[str]:
    remarks = []
    for device in devices:
        if device.problem is not None:
            remarks.append(f"{device.device}: {device.problem}")
        if device.throttled > 0.001 and device.throttled_by:
            share = f"{device.throttled:.0%}"
            remarks.append(
                f"{device.device}: held back for {share} of the time ({device.throttled_by})"
            )
    return remarks


def _watts(joules: float | None, seconds: float) -> float | None:
    return joules / seconds if joules is not None and seconds > 0 else None


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.4g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _energy(joules: float | None, error: float | None, missing: float) -> str:
    if joules is None:
        return "?"
    scale, unit = (1000, "mJ") if max(abs(joules), error or 0) < 1 else (1, "J")
    joules *= scale
    if missing > 0:
        return f"at least {joules:.4g} {unit}"
    if error is None:
        return f"{joules:.1f} ± ? {unit}"
    # Two digits of the error.
    decimals = max(0, min(3, 1 - math.floor(math.log10(error * scale)))) if error > 0 else 1
    return f"{joules:.{decimals}f} ± {error * scale:.{decimals}f} {unit}"


def _grams(grams: float) -> str:
    if grams >= 1000:
        return f"{grams / 1000:.3f} kg CO2eq"
    return f"{grams:.{4 if grams < 1 else 2}f} g CO2eq"
