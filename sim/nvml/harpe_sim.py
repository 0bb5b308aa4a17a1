"""Work for Harpe's simulated GPUs, and the truth about them, from Python.

The simulation is the one that the environment variable HARPE_SIMULATION names. GPUs are counted
from 0, as by NVML. Every failure raises SimulationError with what went wrong.

    import harpe_sim
    harpe_sim.set_load(0, 0.8)                          # constant load until changed
    harpe_sim.run(0, seconds=0.1, memory_bound=0.2)     # returns when it is done
    harpe_sim.run_profile(0, "profile.csv", stage=1, instruction="forward")
    print(harpe_sim.truth(0).energy)                    # joules, exactly
"""

import ctypes
import functools
import pathlib
from typing import NamedTuple


class SimulationError(RuntimeError):
    """A failed call; `code` is NVML's."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Span(NamedTuple):
    """Begin and end of a work, in seconds on CLOCK_BOOTTIME."""

    begin: float
    end: float


class Truth(NamedTuple):
    """Values that the sensors only approximate."""

    time: float  # seconds on CLOCK_BOOTTIME
    energy: float  # joules since the simulation began
    power: float  # watts
    clock: float  # megahertz, in force
    temperature: float  # degrees Celsius


class _Span(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in Span._fields]


class _Truth(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in Truth._fields]


@functools.lru_cache(maxsize=1)
def _library():
    beside = pathlib.Path(__file__).resolve().parent / "libnvidia-ml.so.1"
    library = ctypes.CDLL(str(beside) if beside.exists() else "libnvidia-ml.so.1")
    library.harpe_sim_error.restype = ctypes.c_char_p
    library.harpe_sim_set_load.argtypes = [ctypes.c_int, ctypes.c_double]
    library.harpe_sim_run.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_double, ctypes.POINTER(_Span)]
    library.harpe_sim_run_profile.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
                                              ctypes.POINTER(_Span)]
    library.harpe_sim_truth.argtypes = [ctypes.c_int, ctypes.POINTER(_Truth)]
    return library


def _call(name, *arguments):
    code = getattr(_library(), name)(*arguments)
    if code != 0:
        raise SimulationError(code, _library().harpe_sim_error().decode(errors="replace"))


def gpus() -> int:
    """Returns the number of GPUs."""
    count = ctypes.c_int()
    _call("harpe_sim_gpus", ctypes.byref(count))
    return count.value


def set_load(gpu: int, activity: float) -> None:
    """Sets a constant load until any process changes it: 0 idle, 1 fully busy."""
    _call("harpe_sim_set_load", gpu, activity)


def run(gpu: int, seconds: float, memory_bound: float = 0.1) -> Span:
    """Runs work that takes `seconds` at the highest clock without a power limit, of which the share
    `memory_bound` takes as long at any clock. Returns when it is done."""
    span = _Span()
    _call("harpe_sim_run", gpu, seconds, memory_bound, ctypes.byref(span))
    return Span(span.begin, span.end)


def run_profile(gpu: int, profile, stage: int, instruction: str) -> Span:
    """Runs one instruction of a stage with the time and energy of a profile (CSV), at the clock in force."""
    span = _Span()
    _call("harpe_sim_run_profile", gpu, str(profile).encode(), stage, instruction.encode(), ctypes.byref(span))
    return Span(span.begin, span.end)


def truth(gpu: int) -> Truth:
    """Returns the exact values now."""
    found = _Truth()
    _call("harpe_sim_truth", gpu, ctypes.byref(found))
    return Truth(*(getattr(found, name) for name in Truth._fields))
