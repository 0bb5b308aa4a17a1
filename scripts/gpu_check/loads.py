"""Loads for the recording, one after the other, each with the moments at which it began and ended (ns, CLOCK_BOOTTIME).

    python3 -m gpu_check.loads FILE SCALE

Writes FILE, as JSON. On a real GPU loads are PyTorch's kernels; a simulated GPU is told how busy it is.
"""

import json
import os
import sys
import time

from . import nvml

BETWEEN = 1.2  # s without load
CALIBRATION = 0.3  # s
BATCH = 0.02  # s of work queued at once
# Hz; not in step with sensors that measure every 100 ms, which would always see the same part of a wave.
SQUARES = (1, 3, 7, 11, 19)
# (name, seconds, activity of a simulated GPU, or None if only PyTorch can run it)
STEADY = (("matmul", 6, 1.0), ("copy", 5, 0.5), ("mixed", 5, 0.7), ("spin", 4, 0.15))
TRAINING = (("training", 8), ("forward", 4), ("backward", 4))
SQUARE_SECONDS = 5
IDLE_SECONDS = 6
now = nvml.boottime_ns


class NoCuda(RuntimeError):
    """Raised by loads that need a CUDA device in PyTorch."""


def cuda():
    """Returns torch, if work can run on its first CUDA device."""
    try:
        import torch
    except ImportError as error:
        raise NoCuda(f"skipped: there is no PyTorch: {error}") from error
    if not torch.cuda.is_available():
        raise NoCuda("skipped: no CUDA device in PyTorch")
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    return torch


class SimulatedLoads:
    """Loads as activity of a simulated GPU."""

    kind = "simulated"

    def __init__(self):
        import harpe_sim
        self._sim = harpe_sim

    def steady(self, _, seconds, activity):
        self._sim.set_load(0, activity)
        time.sleep(seconds)
        self._sim.set_load(0, 0)
        return {}

    def half_wave(self, seconds):
        begin = now()
        self._sim.set_load(0, 1.0)
        time.sleep(seconds)
        self._sim.set_load(0, 0)
        return begin, now()

    def training(self, *_):
        raise NoCuda("skipped: no CUDA device in PyTorch")


class CudaLoads:
    """Loads as PyTorch's kernels on the first CUDA device."""

    kind = "cuda"

    def __init__(self, torch):
        self.torch = torch
        free = torch.cuda.mem_get_info()[0]
        size = 8192 if free > 8 << 30 else 2048
        self.a = torch.randn(size, size, device="cuda").to(torch.bfloat16)
        self.b = torch.randn(size, size, device="cuda").to(torch.bfloat16)
        self.out = torch.empty_like(self.a)
        self.large = torch.empty(min(1 << 30, free // 8), dtype=torch.uint8, device="cuda")
        self.copied = torch.empty_like(self.large)
        self.operations = {"matmul": self._matmul, "copy": self._copy, "mixed": self._mixed, "spin": self._spin}
        self.seconds = {name: self._calibrate(operation) for name, operation in self.operations.items()}
        self._steps = None

    def _matmul(self):
        self.torch.matmul(self.a, self.b, out=self.out)

    def _copy(self):
        self.copied.copy_(self.large)

    def _mixed(self):
        self._matmul()
        self._copy()

    def _spin(self):
        self.torch.cuda._sleep(2_000_000)

    def _calibrate(self, operation):
        """Returns the seconds of one operation, from as many as CALIBRATION allows."""
        count, taken = 2, 0.0
        while count <= 64 and taken < CALIBRATION:
            self.torch.cuda.synchronize()
            begin = now()
            for _ in range(count):
                operation()
            self.torch.cuda.synchronize()
            taken = (now() - begin) / 1e9
            one, count = taken / count, 2 * count
        return one

    def _run(self, operation, one, seconds):
        """Runs batches, of which one is always queued, so that the GPU does not wait for this process. Returns seconds
        measured by the device."""
        batch = max(1, round(BATCH / one))
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin, count, waits = now(), 0, []
        until = begin + seconds * 1e9
        first.record()
        while now() < until:
            for _ in range(batch):
                operation()
            count += batch
            event = self.torch.cuda.Event()
            event.record()
            waits.append(event)
            if len(waits) > 2:
                waits.pop(0).synchronize()
        last.record()
        self.torch.cuda.synchronize()
        return {"begin_ns": begin, "count": count, "device_s": first.elapsed_time(last) / 1000}

    def steady(self, name, seconds, _):
        return self._run(self.operations[name], self.seconds[name], seconds)

    def half_wave(self, seconds):
        count = max(1, round(seconds / self.seconds["matmul"]))
        begin = now()
        for _ in range(count):
            self._matmul()
        self.torch.cuda.synchronize()
        return begin, now()

    def training(self, name, seconds):
        from .transformer import TrainingSteps
        if self._steps is None:
            # 80 GB have room for a step that keeps a large GPU busy.
            is_large = self.torch.cuda.mem_get_info()[0] > 24 << 30
            self._steps = TrainingSteps(self.torch) if is_large else TrainingSteps(self.torch, blocks=4, width=1024, batch=2, length=512)
        operation = getattr(self._steps, name)
        return self._run(operation, self._calibrate(operation), seconds)


def run(loads, scale, save):
    """Runs the loads in turn. The entry of a failed load has its error. Calls `save` with the entries after each
    load."""
    done = [{"name": "idle", "begin_ns": now()}]
    time.sleep(IDLE_SECONDS * max(scale, 0.5))
    done[0]["end_ns"] = now()

    def one(name, work):
        time.sleep(BETWEEN)
        entry = {"name": name, "begin_ns": now()}
        try:
            entry.update(work())
        except Exception as error:
            entry["error"] = str(error) if isinstance(error, NoCuda) else f"{type(error).__name__}: {error}"
        entry["end_ns"] = now()
        done.append(entry)
        save(done)

    def square(hertz):
        waves, begin, half = [], now(), 0.5 / hertz
        count = max(3, round(SQUARE_SECONDS * scale * hertz))
        for wave in range(count):
            # On a slow GPU one product takes longer than half a wave.
            if now() - begin > 2 * SQUARE_SECONDS * scale * 1e9 and len(waves) >= 3:
                break
            time.sleep(max(0.0, begin / 1e9 + 2 * half * wave - now() / 1e9))
            waves.append(loads.half_wave(half))
        return {"hertz": hertz, "waves_ns": waves}

    for name, seconds, activity in STEADY:
        one(name, lambda n=name, s=seconds, a=activity: loads.steady(n, s * scale, a))
    for hertz in SQUARES:
        one(f"square {hertz} Hz", lambda h=hertz: square(h))
    for name, seconds in TRAINING:
        one(name, lambda n=name, s=seconds: loads.training(n, s * scale))
    time.sleep(BETWEEN)


def main():
    path, scale = sys.argv[1], float(sys.argv[2])
    result = {"loads": [], "kind": None, "error": None}
    try:
        loads = CudaLoads(cuda())
    except Exception as error:
        result["error"] = str(error) if isinstance(error, NoCuda) else f"{type(error).__name__}: {error}"
        loads = None
        try:
            loads = SimulatedLoads()
        except ImportError:
            pass

    def save(done):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({**result, "loads": done}, file)
        os.replace(path + ".new", path)

    if loads is not None:
        result.update(kind=loads.kind, operation_s=getattr(loads, "seconds", {}))
        run(loads, scale, save)
    else:
        begin = now()
        time.sleep(IDLE_SECONDS * max(scale, 0.5))
        save([{"name": "idle", "begin_ns": begin, "end_ns": now()}])


if __name__ == "__main__":
    main()
