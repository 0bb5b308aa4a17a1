"""Section 3: counter and power recorded once over loads, and windows drawn from that afterwards: Harpe's estimate and bar beside
the counter as an independent reader sees it."""

import json
import os
import random
import statistics
import struct
import subprocess
import sys

from . import nvml, recorder, reference, sensors

LENGTHS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)  # s
KINDS = ("begins", "ends", "inside", "square", "anywhere")
PER_CELL = 24
SEED = 20261128
LEAD, TAIL = 1.2, 1.2  # s of readings that a window needs before and after it
# s without a reading, if all cores are busy: Harpe reads every 20 ms, and is not judged if it could not.
LONGEST_GAP = 0.04
READ_AROUND = 0.6  # s around a window whose readings are used to judge it
LONG = 2.0  # s: windows used to judge a bias
# s that loads may take; recorded data is written and judged after that.
LONGEST_LOADS = 115


def record(context, folder):
    """Runs the loads under harpe run, with the recorder in parallel. Returns (loads document, Recording, harpe run's
    report, failure)."""
    samples, loads, report = (os.path.join(folder, name) for name in ("samples.csv.xz", "loads.json", "run.json"))
    seconds = LONGEST_LOADS * max(context["scale"], 0.4)
    reader = subprocess.Popen([sys.executable, "-m", "gpu_check.recorder", context["uuid"], samples, str(seconds)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if reader.stdout.readline().strip() != "recording":
        raise RuntimeError("the recorder did not start; its message is in gpu_check.json under log")
    command = [context["harpe"], "run", "--json", "--out", report, "--", sys.executable, "-m", "gpu_check.loads", loads,
               str(context["scale"])]
    failure = None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode != 0:
            failure = f"the loads ended with status {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired:
        failure = f"the loads did not end within {seconds:.0f} s"
    reader.communicate("end\n", timeout=30)
    document = {"loads": [], "kind": None, "error": failure}
    if os.path.exists(loads):
        with open(loads, encoding="utf-8") as file:
            document = json.load(file)
    run_report = None
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            run_report = json.load(file)
    return document, recorder.Recording.read(samples), run_report, failure


# --- Windows --------------------------------------------------------------------------------------


def candidates(kind, length, loads, counter, generator):
    """Returns windows (begin, end) of that kind and length, s, at most PER_CELL."""
    pieces = reference.busy_pieces(loads)
    steady = [(begin, end) for begin, end, load in pieces if not load.get("waves_ns")]
    slow = [(begin, end) for begin, end, load in pieces if load.get("hertz", 9) <= 1]
    squares = [(load["waves_ns"][0][0] / 1e9, load["waves_ns"][-1][1] / 1e9) for load in loads if load.get("waves_ns")]
    first, last = counter.times[0] + LEAD, counter.times[-1] - TAIL
    draw = generator.uniform
    found = []
    if kind == "begins":
        found = [(begin, begin + length) for begin, _ in steady + slow]
    elif kind == "ends":
        found = [(end - length, end) for _, end in steady + slow]
    elif kind in ("inside", "square"):
        spans = [(a, b) for a, b in (steady if kind == "inside" else squares) if b - a > length + 0.05]
        for _ in range(PER_CELL if spans else 0):
            low, high = generator.choice(spans)
            begin = draw(low, high - length)
            found.append((begin, begin + length))
    elif last - first > length:
        found = [(begin, begin + length) for begin in (draw(first, last - length) for _ in range(PER_CELL))]
    found = [one for one in found if first <= one[0] and one[1] <= last]
    generator.shuffle(found)
    return found[:PER_CELL]


def packed(rows, unit):
    pack, packed_rows, last = struct.Struct("<qqd").pack, [], 0
    for begin, end, value in rows:
        if begin >= last:
            packed_rows.append(pack(begin, end, value * unit))
            last = end
    return b"".join(packed_rows)


class Estimator:
    """Harpe's own estimator, applied to a recording."""

    def __init__(self, recording, highest_w):
        from harpe import _client
        self._measure = _client.measure_recorded
        self._counter = packed(recording.rows(recorder.COUNTER), 1e-3)
        instant = recording.rows(recorder.INSTANT)
        self._is_average = not instant
        self._power = packed(instant or recording.rows(recorder.AVERAGE), 1e-3)
        self._highest = highest_w or 0.0

    def __call__(self, windows, settles):
        """Returns (J, half of the 95 % interval, source) of each window."""
        spans = b"".join(struct.pack("<qq", round(begin * 1e9), round(end * 1e9)) for begin, end in windows)
        answers = self._measure(self._counter, self._power, self._is_average, self._highest, spans, settles, SEED)
        return [(joules, error, source) for joules, error, _, _, source, _, _ in answers]


def judged(estimates, truths):
    """Returns coverage, bias and width. `truths`: (J, doubt J, least J, most J)."""
    known = [(joules, error, *truth) for (joules, error, _), truth in zip(estimates, truths)
             if joules is not None and error is not None and truth[0] > 0]
    if not known:
        return None
    share = lambda holds: sum(1 for one in known if holds(*one)) / len(known)  # noqa: E731
    offs = [(joules - true) / true for joules, _, true, _, _, _ in known]
    return {
        "windows": len(known),
        "coverage": share(lambda joules, bar, true, doubt, *_: abs(joules - true) <= bar),
        "coverage_with_doubt": share(lambda joules, bar, true, doubt, *_: abs(joules - true) <= bar + 2 * doubt),
        "certainly_wrong": share(lambda joules, bar, true, doubt, least, most: joules + bar < least or joules - bar > most),
        "bias": statistics.fmean(offs),
        "rms": statistics.fmean(off * off for off in offs) ** 0.5,
        "bar": statistics.median(bar / true for _, bar, true, _, _, _ in known),
        "doubt": statistics.median(doubt / true for _, _, true, doubt, _, _ in known),
    }


def truth_of(rows):
    """Returns a function for the true energy between two moments of a simulation; None for a real GPU."""
    if len(rows) < 100:
        return None
    import bisect
    times, joules = [(begin + end) / 2e9 for begin, end, _ in rows], [value / 1e3 for _, _, value in rows]

    def at(time):
        i = min(max(bisect.bisect_right(times, time), 1), len(times) - 1)
        share = (time - times[i - 1]) / (times[i] - times[i - 1])
        return joules[i - 1] + share * (joules[i] - joules[i - 1])

    return lambda begin, end: (at(end) - at(begin), 0.0, 0.0, float("inf"))


class Gaps:
    """Times without a reading of the recorder."""

    def __init__(self, rows):
        self._gaps = [(a[1] / 1e9, b[0] / 1e9) for a, b in zip(rows, rows[1:]) if b[0] - a[1] > LONGEST_GAP * 1e9]

    def summary(self):
        return {"count": len(self._gaps), "longest_s": max((b - a for a, b in self._gaps), default=0.0)}

    def touch(self, begin, end):
        return any(a < end + READ_AROUND and b > begin - READ_AROUND for a, b in self._gaps)


def draw_windows(estimator, counter, profile, loads, truth, gaps):
    """Returns one row for each kind and length, and the single windows for the picture."""
    generator, rows, points = random.Random(SEED), [], []
    for kind in KINDS:
        for length in LENGTHS:
            windows = [one for one in candidates(kind, length, loads, counter, generator) if not gaps.touch(*one)]
            if len(windows) < 3:
                continue
            by_counter = [counter.between(begin, end, profile) for begin, end in windows]
            row = {"kind": kind, "length_s": length}
            for name, settles in (("settled", True), ("at_once", False)):
                estimates = estimator(windows, settles)
                row[name] = judged(estimates, by_counter)
                if truth:
                    row[name + "_truth"] = judged(estimates, [truth(*window) for window in windows])
                if settles:
                    points += [[kind, length, round((joules - true[0]) / true[0], 6), round(error / true[0], 6)]
                               for (joules, error, _), true in zip(estimates, by_counter)
                               if joules is not None and error is not None and true[0] > 0]
            if truth:
                row["counter_truth_rms"] = statistics.fmean(
                    ((a[0] - truth(*window)[0]) / truth(*window)[0]) ** 2 for a, window in zip(by_counter, windows)) ** 0.5
            rows.append(row)
    return rows, points


# --- Loads ----------------------------------------------------------------------------------------


def load_rows(document, counter, recording, rows):
    """Returns each load with its power by counter and by power readings, its clock and its throttle reasons."""
    table = []
    for load in document["loads"]:
        begin, end = load["begin_ns"] / 1e9, load["end_ns"] / 1e9
        inner = (begin + reference.MARGIN, end - 0.05)
        entry = {"name": load["name"], "begin_s": begin - rows["start"], "end_s": end - rows["start"], "error": load.get("error")}
        if load.get("waves_ns"):
            entry["hertz"] = load["hertz"]
            entry["waves_s"] = [[a / 1e9 - rows["start"], b / 1e9 - rows["start"]] for a, b in load["waves_ns"]]
        if not load.get("error") and inner[1] > inner[0]:
            entry["counter_w"] = counter.mean_power(*inner) if counter else None
            for sensor, name, unit in ((recorder.INSTANT, "instant_w", 1e-3), (recorder.AVERAGE, "average_w", 1e-3),
                                       (recorder.CLOCK, "clock_mhz", 1), (recorder.MEMORY_CLOCK, "memory_clock_mhz", 1),
                                       (recorder.TEMPERATURE, "temperature_c", 1)):
                mean = reference.held_mean(rows[sensor], *inner)
                entry[name] = mean * unit if mean is not None else None
            entry["reasons"] = 0
            for read, _, bits in rows[recorder.REASONS]:
                entry["reasons"] |= bits if inner[0] <= read / 1e9 <= inner[1] else 0
            if load.get("count"):
                entry["count"] = load["count"]
                entry["operation_s"] = load["device_s"] / load["count"]
                if entry["counter_w"]:
                    entry["operation_j"] = entry["counter_w"] * entry["operation_s"]
        table.append(entry)
    return table


def long_windows(estimator, counter, profile, loads, rows, truth):
    """Compares Harpe with the counter and the integrated power readings, over each load and over all."""
    spans = [(load["name"], load["begin_ns"] / 1e9, load["end_ns"] / 1e9) for load in loads if not load.get("error")]
    if spans:
        spans.append(("all", spans[0][1], spans[-1][2]))
    table = []
    for name, begin, end in spans:
        begin, end = max(begin, counter.times[0] + LEAD), min(end, counter.times[-1] - TAIL)
        if end - begin < LONG:
            continue
        joules, doubt, _, _ = counter.between(begin, end, profile)
        estimate, error, source = estimator([(begin, end)], True)[0]
        entry = {"name": name, "seconds": end - begin, "counter_j": joules, "counter_doubt_j": doubt, "harpe_j": estimate,
                 "harpe_error_j": error, "source": source}
        for sensor, key in ((recorder.INSTANT, "instant_j"), (recorder.AVERAGE, "average_j")):
            mean = reference.held_mean(rows[sensor], begin, end)
            entry[key] = mean / 1e3 * (end - begin) if mean is not None else None
        if truth:
            entry["truth_j"] = truth(begin, end)[0]
        table.append(entry)
    return table


def run_beside(report, counter, profile, uuid):
    """Compares harpe run's report of all loads with the counter of the independent reader over the same time."""
    if not report:
        return None
    device = next((one for one in report.get("devices", []) if one.get("uuid") == uuid), None)
    if device is None:
        return {"report": report}
    # Offset between the wall clock of the report and the clock of the readings.
    import time
    off = time.time() - nvml.boottime_ns() / 1e9
    begin = report["started_at"] - off
    end = begin + report["time_s"]
    result = {"device": device, "seconds": end - begin}
    if counter and counter.covers(begin, end):
        result["counter_j"], result["counter_doubt_j"], _, _ = counter.between(begin, end, profile)
    return result


def run(context, emit):
    document, recording, report, failure = record(context, context["folder"])
    rows = {name: recording.rows(name) for name in recorder.SENSORS}
    rows["start"] = recording.start() / 1e9
    result = {"loads_by": document["kind"], "error": failure, "loads_error": document["error"], "start_ns": recording.start(),
              "sensor_errors": recording.failures,
              "rates_hz": {name: len(rows[name]) / ((rows[name][-1][1] - rows[name][0][0]) / 1e9)
                           for name in recorder.SENSORS if len(rows[name]) > 1},
              "recorded_s": max((rows[name][-1][1] for name in recorder.SENSORS if rows[name]), default=0) / 1e9 - rows["start"]}
    gaps = Gaps(rows[recorder.COUNTER] or rows[recorder.INSTANT])
    result["gaps"] = gaps.summary()
    counter = reference.Counter(rows[recorder.COUNTER])
    result["counter_restarts"] = counter.restarts
    usable = counter.usable()
    result["loads"] = load_rows(document, counter if usable else None, recording, rows)
    emit(result)
    if not usable:
        result["windows_error"] = ("the counter started anew while it was recorded" if counter.restarts else
                                   "the GPU has no energy counter: there is nothing to compare with")
        result["trace"] = trace(rows, None)
        emit(result)
        return
    loads = document["loads"]
    profile, quiet, _ = reference.profile_of(counter, loads)
    power = {name: rows[sensor] for sensor, name in ((recorder.INSTANT, "instant"), (recorder.AVERAGE, "average")) if rows[sensor]}
    found = sensors.edges(loads)
    result["trace"] = trace(rows, counter)
    result["sensor"] = {"counter_lag": sensors.counter_lag(counter, found),
                        "averaging": {name: sensors.averaging(values, profile, found, quiet) for name, values in power.items()},
                        "squares": sensors.squares(power, counter, loads)}
    emit(result)
    truth = truth_of(rows[recorder.TRUTH])
    estimator = Estimator(recording, context.get("highest_w"))
    result["harpe_run"] = run_beside(report, counter, profile, context["uuid"])
    result["long_windows"] = long_windows(estimator, counter, profile, loads, rows, truth)
    emit(result)
    result["windows"], result["points"] = draw_windows(estimator, counter, profile, loads, truth, gaps)
    emit(result)


def trace(rows, counter):
    """Returns data for the picture: (s, W) of the counter from step to step, and of power readings, thinned."""
    thin = lambda points, most=1500: points[::max(1, len(points) // most)]  # noqa: E731
    start = rows["start"]
    found = {name: thin([[round(late - start, 3), round(watts, 1)] for late, watts in sensors.updates(rows[sensor])])
             for sensor, name in ((recorder.INSTANT, "instant"), (recorder.AVERAGE, "average")) if rows[sensor]}
    if counter:
        found["counter"] = thin([[round((a + b) / 2 - start, 3), round((f - e) / (b - a), 1)] for a, b, e, f in
                                 zip(counter.times, counter.times[1:], counter.joules, counter.joules[1:])])
    return found
