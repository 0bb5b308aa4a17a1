"""How counter and power readings follow the loads of a recording: lag, averaging window, what square waves show."""

import bisect
import statistics

from . import counter as counters
from . import reference

EDGES = 0.9  # s on both sides of an edge that are used
LEAST_CHANGE = 0.2  # of power at a usable edge
WINDOWS = (0.005, 0.01, 0.02, 0.025, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.25)  # s
ALIKE = 1.2  # times the least sum of squares: windows that explain the values about equally well
MOST_VALUES = 600
DELAYS = tuple(i / 100 for i in range(0, 26))  # s


def edges(loads):
    """Returns (time, rises) of edges without another one within EDGES on both sides, s."""
    pieces = reference.busy_pieces(loads)
    moments = sorted([(begin, True) for begin, _, _ in pieces] + [(end, False) for _, end, _ in pieces])
    alone = []
    for i, (time, rises) in enumerate(moments):
        before = time - moments[i - 1][0] if i else EDGES
        after = moments[i + 1][0] - time if i + 1 < len(moments) else EDGES
        if min(before, after) > 0.45:
            alone.append((time, rises))
    return alone


def counter_lag(counter, found):
    """Returns the lag of the counter's power change behind the load's edge, s: (after rises, after falls), medians. It
    includes the time that power itself takes to rise."""
    lags = {True: [], False: []}
    for time, rises in found:
        before, after = counter.mean_power(time - 0.45, time - 0.02), counter.mean_power(time + 0.12, time + 0.45)
        i = bisect.bisect_right(counter.times, time) - 1
        if not before or not after or abs(after - before) < LEAST_CHANGE * max(before, after) or i < 1 or \
                i + 3 >= len(counter.times):
            continue
        # Over three steps, since a lag may extend into the next one.
        low, high = counter.times[i - 1], counter.times[i + 2]
        joules = counter.joules[i + 2] - counter.joules[i - 1]
        change = low + (joules - after * (high - low)) / (before - after)
        lags[rises].append(change - time)
    return {key: {"s": statistics.median(lags[flag]), "edges": len(lags[flag])} if lags[flag] else None
            for key, flag in (("rise", True), ("fall", False))}


def updates(rows):
    """Returns (time, W) of each new value."""
    return [(late / 1e9, after / 1e3) for _, late, _, after in counters.changes(rows)]


def averaging(rows, profile, found, otherwise):
    """Returns the window and the delay that best explain a power sensor's values around edges, by least squares.
    The value at an update is the mean of power over the window that ended `delay` before."""
    values = [one for one in updates(rows) if any(abs(one[0] - time) < EDGES for time, _ in found)]
    if len(values) < 10:
        return None
    values = values[::len(values) // MOST_VALUES + 1]
    tried = []
    mean = statistics.fmean(value for _, value in values)
    spread = sum((value - mean) ** 2 for _, value in values)
    for window in WINDOWS:
        for delay in DELAYS:
            predicted = [(profile.integral(t - delay) - profile.integral(t - delay - window)) / window for t, _ in values]
            # Its scale may differ from the counter's.
            scale = sum(p * v for p, (_, v) in zip(predicted, values)) / sum(p * p for p in predicted)
            off = sum((scale * p - v) ** 2 for p, (_, v) in zip(predicted, values))
            tried.append((off, window, delay, scale))
    best = min(tried)
    alike = [window for off, window, _, _ in tried if off <= ALIKE * best[0]]
    return {"window_s": best[1], "window_range_s": [min(alike), max(alike)], "delay_s": best[2], "watts_per_counter_watt": best[3], "values": len(values),
            "unexplained": best[0] / spread if spread else None}


def squares(recording_rows, counter, loads):
    """Returns how much of a square wave a power sensor shows: lowest and highest tenth, and its mean relative to the
    counter's."""
    table = []
    for load in loads:
        if not load.get("waves_ns"):
            continue
        begin, end = load["waves_ns"][0][0] / 1e9, load["waves_ns"][-1][1] / 1e9
        entry = {"hertz": load["hertz"], "counter_w": counter.mean_power(begin, end) if counter else None}
        for name, rows in recording_rows.items():
            shown = sorted(row[2] / 1e3 for row in rows if begin <= row[0] / 1e9 <= end)
            mean = reference.held_mean(rows, begin, end)
            entry[name] = {"low_w": shown[len(shown) // 10], "high_w": shown[-1 - len(shown) // 10],
                           "mean_w": mean / 1e3} if len(shown) > 10 and mean else None
        table.append(entry)
    return table
