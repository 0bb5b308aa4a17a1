"""Records every reading of a GPU's counter and power, with the times at which each call began and ended.

    python3 -m gpu_check.recorder UUID FILE [SECONDS_AT_MOST]

Writes FILE when standard input has a line or is closed, or after SECONDS_AT_MOST. It is a process of its own, so that loads do not hold
up its readings, and uses nothing of Harpe.
"""

import array
import json
import lzma
import os
import sys
import threading
import time

from . import nvml

# Sensors, named like the columns; mJ, mW, MHz, bits.
COUNTER, INSTANT, AVERAGE, CLOCK, MEMORY_CLOCK, REASONS, TEMPERATURE, TRUTH = SENSORS = (
    "counter_mj", "instant_mw", "average_mw", "clock_mhz", "memory_clock_mhz", "reasons", "temperature_c", "truth_mj")
HIGHEST_RATE = 1000  # rounds per second, so that 90 s fit into the file
PRIORITY = -15  # of this process: if the reader waits for a core, it leaves gaps
SLOW_EVERY = 50  # rounds between readings of clocks, reasons and temperature
AVERAGE_EVERY = 5
LONGEST_CALL = 5  # s that a driver call may take after the end of the loads
MOST_FAILURES = 200  # consecutive failures of one sensor


class Recording:
    """For each sensor: begin and end of each call (ns, CLOCK_BOOTTIME), and its value."""

    def __init__(self):
        self.begin = {name: array.array("q") for name in SENSORS}
        self.end = {name: array.array("q") for name in SENSORS}
        self.value = {name: array.array("q") for name in SENSORS}
        self.failures = {}

    def add(self, name, begin, end, value):
        self.begin[name].append(begin)
        self.end[name].append(end)
        self.value[name].append(value)

    def rows(self, name):
        return list(zip(self.begin[name], self.end[name], self.value[name]))

    def start(self):
        return min((times[0] for times in self.begin.values() if times), default=0)

    def write(self, path):
        """Writes compressed CSV: sensor, begin of the call in us since the first, its length in us, value."""
        start = self.start()
        with lzma.open(path, "wt", preset=2) as file:
            file.write("# " + json.dumps({"format": "harpe.gpu_samples/1", "simulated": bool(self.value[TRUTH]), "start_ns": start,
                                         "failures": self.failures}) + "\n")
            file.write("sensor,begin_us,call_us,value\n")
            for name in SENSORS:
                for begin, end, value in zip(self.begin[name], self.end[name], self.value[name]):
                    file.write(f"{name},{(begin - start) / 1000:.1f},{(end - begin) / 1000:.1f},{value}\n")

    @classmethod
    def read(cls, path):
        recording = cls()
        with lzma.open(path, "rt") as file:
            head = json.loads(file.readline()[2:])
            recording.failures = head["failures"]
            start = head["start_ns"]
            next(file)
            for line in file:
                name, begin, length, value = line.split(",")
                began = start + round(float(begin) * 1000)
                recording.add(name, began, began + round(float(length) * 1000), int(value))
        return recording


def truth_reader():
    """Returns a function for the true energy of a simulated GPU, in mJ; None for a real one."""
    try:
        import harpe_sim
        harpe_sim.truth(0)
    except Exception:
        return None
    return lambda: round(harpe_sim.truth(0).energy * 1000)


def readers(gpu):
    """Returns (sensor, function, number of rounds per reading) of this GPU's sensors."""
    instant, average, _ = nvml.power_readers(gpu)
    candidates = [
        (COUNTER, gpu.energy_mj, 1),
        (TRUTH, truth_reader(), 1),
        (INSTANT, instant, 1),
        (AVERAGE, average, AVERAGE_EVERY if instant else 1),
        (CLOCK, lambda: gpu.number("nvmlDeviceGetClockInfo", nvml.SM), SLOW_EVERY),
        (MEMORY_CLOCK, lambda: gpu.number("nvmlDeviceGetClockInfo", nvml.MEMORY), SLOW_EVERY),
        (REASONS, gpu.reasons, SLOW_EVERY),
        (TEMPERATURE, lambda: gpu.number("nvmlDeviceGetTemperature", 0), SLOW_EVERY),
    ]
    found, refused = [], {}
    for name, read, every in candidates:
        if read is None:
            continue
        try:
            read()
            found.append((name, read, every))
        except nvml.NvmlError as error:
            refused[name] = str(error)
    return found, refused


def record(gpu, recording, ended, most=float("inf")):
    """Records until `ended()` is true, or for `most` seconds."""
    sensors, failures = readers(gpu)
    recording.failures.update(failures)
    in_row = dict.fromkeys(SENSORS, 0)
    now = nvml.boottime_ns
    start, number = now(), 0
    while sensors and now() - start < most * 1e9:
        if number % 50 == 0 and ended():
            break
        for name, read, every in sensors:
            if number % every:
                continue
            begin = now()
            try:
                value = read()
            except nvml.NvmlError as error:
                recording.failures[name] = str(error)
                in_row[name] += 1
                continue
            recording.add(name, begin, now(), value)
            in_row[name] = 0
        if number % 50 == 0:
            sensors = [one for one in sensors if in_row[one[0]] < MOST_FAILURES]
        number += 1
        ahead = start + number * (1e9 / HIGHEST_RATE) - now()
        if ahead > 0:
            time.sleep(ahead / 1e9)
        else:
            start -= ahead  # slower than intended: then as fast as the driver responds


def main():
    uuid, path, *most = sys.argv[1:]
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    except OSError:
        pass  # without rights it competes with the machine's other programs
    gpu, recording = nvml.Nvml().gpu(uuid), Recording()
    asked, done = threading.Event(), threading.Event()

    def watch():
        sys.stdin.readline()
        asked.set()
        if not done.wait(LONGEST_CALL):
            # A call hangs and cannot be ended: earlier readings are kept.
            recording.failures["driver"] = f"a call did not return within {LONGEST_CALL} s"
            recording.write(path)
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    print("recording", flush=True)
    record(gpu, recording, asked.is_set, *map(float, most))
    done.set()
    recording.write(path)


if __name__ == "__main__":
    main()
