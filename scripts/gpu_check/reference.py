"""Energy by the counter alone, from a recording far denser than Harpe's readings: what Harpe's estimates are compared with.

Where the counter steps, its value is exact and the moment is known to the time between two readings. Between two steps the
known sum is spread as the loads ran, whose edges this check knows and Harpe does not.
"""

import bisect
import statistics

MARGIN = 0.35  # s after an edge until power is constant


class Profile:
    """Power over time by the loads, piecewise constant, in W; only its shape within a step matters."""

    def __init__(self, pieces, otherwise):
        """`pieces`: (begin, end, W), in s, in order, with gaps."""
        self.times, self.levels, self.sums = [float("-inf")], [otherwise], [0.0]
        self.origin = pieces[0][0] if pieces else 0.0
        for begin, end, watts in pieces:
            self._append(begin, watts)
            self._append(end, otherwise)

    def _append(self, time, watts):
        since = max(self.times[-1], self.origin)
        self.sums.append(self.sums[-1] + self.levels[-1] * (time - since))
        self.times.append(time)
        self.levels.append(watts)

    def integral(self, time):
        """Returns the integral of power from a fixed origin to `time`, J."""
        i = bisect.bisect_right(self.times, time) - 1
        return self.sums[i] + self.levels[i] * (time - max(self.times[i], self.origin))


class Counter:
    """The counter of a recording: its steps, and the energy at any moment between the first and the last."""

    def __init__(self, rows):
        """`rows`: (begin ns, end ns, mJ)."""
        steps = [(before[0] / 1e9, after[1] / 1e9, after[2] / 1e3) for before, after in zip(rows, rows[1:])
                 if after[2] != before[2]]
        self.early, self.late, self.joules = ([step[i] for step in steps] for i in range(3))
        self.times = [(early + late) / 2 for early, late in zip(self.early, self.late)]
        self.restarts = sum(1 for a, b in zip(self.joules, self.joules[1:]) if b < a)

    def usable(self):
        return len(self.times) > 20 and self.restarts == 0

    def covers(self, begin, end):
        return self.times[0] <= begin and end < self.times[-1]

    def energy(self, time, profile):
        i = bisect.bisect_right(self.times, time) - 1
        low, high = self.times[i], self.times[i + 1]
        whole = profile.integral(high) - profile.integral(low)
        share = (profile.integral(time) - profile.integral(low)) / whole if whole > 0 else (time - low) / (high - low)
        return self.joules[i] + share * (self.joules[i + 1] - self.joules[i])

    def between(self, begin, end, profile):
        """Returns (J, uncertainty in J from the readings at the edges, least J, most J). The last two are bounds for
        any power within a step."""
        first, last = bisect.bisect_right(self.times, begin) - 1, bisect.bisect_right(self.times, end) - 1
        doubt = 0.0
        for i in (first, last):
            watts = (self.joules[i + 1] - self.joules[i]) / (self.times[i + 1] - self.times[i])
            doubt += (watts * max(self.late[i] - self.early[i], self.late[i + 1] - self.early[i + 1]) / 2) ** 2
        least = max(0.0, self.joules[last] - self.joules[first + 1])
        return (self.energy(end, profile) - self.energy(begin, profile), doubt**0.5, least,
                self.joules[last + 1] - self.joules[first])

    def mean_power(self, begin, end):
        """Returns the power between the first and the last step inside, W; None for fewer than three steps."""
        first, last = bisect.bisect_left(self.times, begin), bisect.bisect_right(self.times, end) - 1
        if last - first < 2:
            return None
        return (self.joules[last] - self.joules[first]) / (self.times[last] - self.times[first])


def busy_pieces(loads):
    """Returns (begin, end, load) of each time in which a load ran, s."""
    pieces = []
    for load in loads:
        if load.get("error") or load["name"] == "idle":
            continue
        for begin, end in load.get("waves_ns") or [(load["begin_ns"], load["end_ns"])]:
            pieces.append((begin / 1e9, end / 1e9, load))
    return pieces


def profile_of(counter, loads):
    """Returns the profile of the loads, with levels from the counter."""
    pieces = busy_pieces(loads)
    quiet = [counter.mean_power(a[1] + MARGIN, b[0]) for a, b in zip(pieces, pieces[1:]) if b[0] - a[1] > 2 * MARGIN]
    quiet = [watts for watts in quiet if watts]
    idle = [counter.mean_power(load["begin_ns"] / 1e9, load["end_ns"] / 1e9) for load in loads if load["name"] == "idle"]
    otherwise = statistics.median(quiet or [watts for watts in idle if watts] or [1.0])
    levels = {}
    for load in loads:
        if not load.get("waves_ns") and load["name"] != "idle" and not load.get("error"):
            levels[load["name"]] = counter.mean_power(load["begin_ns"] / 1e9 + MARGIN, load["end_ns"] / 1e9)
    wave = levels.get("matmul") or 2 * otherwise
    return Profile([(begin, end, levels.get(load["name"]) or wave) for begin, end, load in pieces], otherwise), otherwise, levels


def held_mean(rows, begin, end):
    """Returns the mean of a sensor that holds its value between readings, in its own unit; None without readings."""
    times = [(row[0] + row[1]) / 2e9 for row in rows]
    first, last = bisect.bisect_left(times, begin), bisect.bisect_right(times, end)
    if last - first < 2:
        return None
    total = sum(rows[i][2] * (times[i + 1] - times[i]) for i in range(first, last - 1))
    return total / (times[last - 1] - times[first])
