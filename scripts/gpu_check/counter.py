"""Section 2: the energy counter and the power readings of a GPU without load: steps, resolution, rate, noise."""

import math
import statistics

from . import nvml

SECONDS = 3  # per sensor
MOST_READINGS = 400_000


def read_hard(function, seconds):
    """Reads as fast as the driver responds. Returns (begin, end, value) in ns."""
    rows, until = [], nvml.boottime_ns() + seconds * 1e9
    while len(rows) < MOST_READINGS:
        begin = nvml.boottime_ns()
        value = function()
        end = nvml.boottime_ns()
        rows.append((begin, end, value))
        if end > until:
            break
    return rows


def changes(rows):
    """Returns (earliest, latest, value before, value after) for each change of the value, in ns."""
    return [(before[0], after[1], before[2], after[2]) for before, after in zip(rows, rows[1:]) if before[2] != after[2]]


def spacing(found):
    """Returns the time between changes, s."""
    middles = [(one[0] + one[1]) / 2e9 for one in found]
    return [b - a for a, b in zip(middles, middles[1:])]


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def describe(rows, unit):
    """Returns properties of one sensor by its readings. `unit`: of a value, in J or W."""
    lengths = [(end - begin) / 1000 for begin, end, _ in rows]
    found = changes(rows)
    gaps = spacing(found)
    values = [value for _, _, value in rows]
    result = {"readings": len(rows), "rate_hz": len(rows) / ((rows[-1][1] - rows[0][0]) / 1e9),
              "call_median_us": quantile(lengths, 0.5), "call_95_us": quantile(lengths, 0.95), "call_longest_us": max(lengths),
              "changes": len(found), "step_s": None, "step_deviation_s": None, "bracket_s": None,
              "resolution": None, "mean": statistics.fmean(values) * unit}
    if gaps:
        result["step_s"] = statistics.median(gaps)
        result["step_deviation_s"] = statistics.pstdev(gaps) if len(gaps) > 1 else None
        result["bracket_s"] = statistics.median((late - early) / 1e9 for early, late, _, _ in found)
    if found:
        result["resolution"] = math.gcd(*(abs(after - before) for _, _, before, after in found)) * unit
        distinct = [found[0][2], *(after for _, _, _, after in found)]
        if unit and len(distinct) > 2:
            mean = statistics.fmean(distinct)
            result["deviation"] = statistics.pstdev(distinct) * unit
            result["deviation_share"] = statistics.pstdev(distinct) / mean if mean else None
    return result


def run(context, emit):
    gpu = nvml.Nvml().gpu(context["uuid"])
    instant, average, scope = nvml.power_readers(gpu)
    seconds = SECONDS * max(context["scale"], 0.4)
    result = {"scope": scope}
    for name, function, unit in (("counter", gpu.energy_mj, 1e-3), ("instant_power", instant, 1e-3),
                                 ("average_power", average, 1e-3)):
        result[name] = {"error": "it did not return"}
        emit(result)
        if function is None:
            result[name] = {"error": "Not Supported"}
            continue
        try:
            result[name] = describe(read_hard(function, seconds), unit)
        except nvml.NvmlError as error:
            result[name] = {"error": str(error)}
    if "deviation" in result["counter"]:
        # Energy only rises: its spread is not noise.
        del result["counter"]["deviation"], result["counter"]["deviation_share"]
    emit(result)
