#!/usr/bin/env python3
"""Compares plans and their lower bounds with what an independent solver (HiGHS) finds.

usage: optimum_test.py HARPE

The model is written here from the profile and the order of instructions alone: one variable for
each Pareto-optimal clock of each instruction, one start time for each instruction. With binary
variables its optimum is the best plan there is; without, the lower bound. Profiles are the measured
ones where they are at hand, and some from an analytic model, one of them with several points for
each clock, which labels tell apart, and some at the edge of what is measured. Prints a row for each deadline; where
no optimum is proven in time, only the bound is compared.
"""

import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
from scipy import optimize, sparse

BLOCKING_POWER = 83.64
LARGEST_GAP = 3e-4  # between a plan and the proven optimum
LARGEST_HARD_GAP = 5e-3  # with few clocks
LARGEST_BOUND_ERROR = 1e-6
# Stages, micro-batches, slowdowns in percent.
SIZES = [(2, 4, (0.5, 2, 4, 7, 11, 16)), (4, 8, (0.5, 11, 16))]
SECONDS = 15.0  # to prove an optimum


def read_options(path):
    """Returns (stage, kind) -> [(seconds, effective joules)], Pareto-optimal, fastest first."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines):
            seconds, joules = float(row["time"]), float(row["energy"])
            key = int(row["stage"]), row["instruction"]
            rows.setdefault(key, []).append((seconds, joules - BLOCKING_POWER * seconds))
    options = {}
    for key, points in rows.items():
        best = []
        for point in sorted(points):
            if not best or point[1] < best[-1][1]:
                best.append(point)
        options[key] = best
    return options


def one_f_one_b(stages, micro_batches):
    """Returns the order of (kind, micro-batch) on each stage."""
    lists = []
    for stage in range(stages):
        warm = min(stages - stage - 1, micro_batches)
        order = [("forward", m) for m in range(warm)]
        for m in range(micro_batches - warm):
            order += [("forward", warm + m), ("backward", m)]
        order += [("backward", m) for m in range(micro_batches - warm, micro_batches)]
        lists.append(order)
    return lists


def dependencies(lists):
    """Returns pairs of instructions (stage, kind, micro-batch), of which the first must end before the second
    begins."""
    pairs = []
    for stage, order in enumerate(lists):
        pairs += [((stage, *a), (stage, *b)) for a, b in zip(order, order[1:])]
        for kind, m in order:
            if kind == "forward" and stage + 1 < len(lists):
                pairs.append(((stage, kind, m), (stage + 1, kind, m)))
            if kind == "backward" and stage > 0:
                pairs.append(((stage, kind, m), (stage - 1, kind, m)))
    return pairs


def solve(choices, pairs, power, deadline, mixed, seconds):
    """Returns the result of HiGHS within some seconds for the least energy of an iteration: if `mixed`, of one that
    occupies the GPUs until the deadline, with clocks mixed freely; otherwise of one that ends by the deadline, with
    real clocks.

    choices: of each instruction, [(seconds, effective joules)]; pairs: (instruction, successor, lag in seconds); power:
    of all GPUs while they wait."""
    first = numpy.cumsum([0] + [len(c) for c in choices])
    start = first[-1] + numpy.arange(len(choices))
    end = first[-1] + len(choices)
    variables = end + 1
    rows, columns, values, low, high = [], [], [], [], []

    def add(entries, lower, upper):
        for column, value in entries:
            rows.append(len(low))
            columns.append(column)
            values.append(value)
        low.append(lower)
        high.append(upper)

    def duration(n):
        return [(first[n] + k, -choices[n][k][0]) for k in range(len(choices[n]))]

    for n in range(len(choices)):
        add([(first[n] + k, 1) for k in range(len(choices[n]))], 1, 1)
        add([(end, 1), (start[n], -1)] + duration(n), 0, numpy.inf)
    for a, b, lag in pairs:
        add([(start[b], 1), (start[a], -1)] + duration(a), lag, numpy.inf)
    cost = numpy.zeros(variables)
    cost[end] = power
    for n, options_of in enumerate(choices):
        for k, (_, joules) in enumerate(options_of):
            cost[first[n] + k] = joules
    integral = numpy.zeros(variables)
    integral[: first[-1]] = not mixed
    upper = numpy.ones(variables)
    upper[first[-1] :] = deadline
    lower = numpy.zeros(variables)
    lower[end] = deadline if mixed else 0
    matrix = sparse.csr_array((values, (rows, columns)), shape=(len(low), variables))
    return optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(matrix, low, high),
        integrality=integral,
        bounds=optimize.Bounds(lower, upper),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )


def least_energy(choices, pairs, power, deadline, mixed):
    """Returns the energy that `solve` proves to be least; None if it does not finish in time."""
    result = solve(choices, pairs, power, deadline, mixed, SECONDS)
    return result.fun if result.status == 0 else None


def with_labels(profile, path):
    """Writes the rows, and a copy of them with another label, some better, some worse."""
    source = random.Random(7)
    lines = [line for line in profile.read_text().splitlines() if not line.startswith("#")]
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(lines)
        writer = csv.DictWriter(file, [*rows.fieldnames, "label"])
        writer.writeheader()
        for row in rows:
            writer.writerow(row)
            seconds = float(row["time"]) * source.uniform(0.92, 1.08)
            joules = float(row["energy"]) * source.uniform(0.92, 1.08)
            writer.writerow({**row, "time": seconds, "energy": joules, "label": "other"})
    return path


def curve(source, size):
    """Returns a curve whose time falls and power rises with the clock: [MHz, seconds, joules], by rising clock."""
    points = []
    for clock in range(960, 1411, 150):
        seconds = size * source.uniform(1, 1.02) * (0.2 + 0.8 * 1410 / clock)
        points.append([clock, seconds, seconds * source.uniform(1, 1.02) * (110 + 250 * (clock / 1410) ** 3)])
    return points


def whole_milliseconds(points, *_):
    return [[mhz, round(seconds, 3), joules] for mhz, seconds, joules in points]


def equal_times(points, *_):
    return [[mhz, points[k - k % 2][1], joules] for k, (mhz, _, joules) in enumerate(points)]


def equal_energies(points, *_):
    return [[mhz, seconds, points[k - k % 2][2]] for k, (mhz, seconds, _) in enumerate(points)]


def dominated_highest_clock(points, *_):
    return [*points[:-1], [points[-1][0], points[-2][1] * 1.01, points[-1][2] * 1.05]]


def one_slow_stage(points, stage, _):
    factor = 2 if stage == 1 else 1
    return [[mhz, factor * seconds, factor * joules] for mhz, seconds, joules in points]


def one_clock_on_one_stage(points, stage, _):
    return points[-1:] if stage == 0 else points


def energies_nearly_equal(points, *_):
    return [[mhz, seconds, 10 * (1 + 1e-7 * k)] for k, (mhz, seconds, _) in enumerate(points)]


def microseconds_beside_seconds(points, _, kind):
    factor = 1e-5 if kind == "forward" else 20
    return [[mhz, factor * seconds, factor * joules] for mhz, seconds, joules in points]


def two_clocks(points, *_):
    return points[-2:]


HARD = (two_clocks, whole_milliseconds, equal_times, equal_energies, dominated_highest_clock, one_slow_stage,
        one_clock_on_one_stage, energies_nearly_equal, microseconds_beside_seconds)  # fmt: skip


def hard_profiles(directory):
    """Yields profiles at the edge of measured ones, like those of src/harpe/plan/frontier/hard_profiles_test.cc."""
    source = random.Random(11)
    for change in HARD:
        path = directory / f"{change.__name__}.csv"
        with open(path, "w", encoding="utf-8") as file:
            file.write("stage,instruction,frequency,time,energy\n")
            for stage in range(3):
                for kind, size in (("forward", 0.05), ("backward", 0.1)):
                    for mhz, seconds, joules in change(curve(source, size), stage, kind):
                        file.write(f"{stage},{kind},{mhz},{seconds!r},{joules!r}\n")
        yield path


def profiles(harpe, directory):
    root = pathlib.Path(__file__).resolve().parent.parent
    shared = pathlib.Path(os.environ.get("HARPE_SHARED", root.parent / "shared"))
    found = sorted((shared / "data/sosp24/emulation").glob("*a100-sxm.csv"))
    for seed, gpu in enumerate(("a40", "h100-sxm"), 1):
        path = directory / f"model-{gpu}.csv"
        subprocess.run(
            [harpe, "synth", "--gpu", gpu, "--seed", str(seed), "--noise", "1", "--out", path],
            check=True,
            capture_output=True,
        )
        found.append(path)
    return [*found, with_labels(found[-1], directory / "labels.csv")]


class Comparison:
    """Compares plans of one profile and size with the solver."""

    def __init__(self, harpe, profile, stages, micro_batches, directory, largest_gap=LARGEST_GAP):
        self.largest_gap = largest_gap
        self.stages, self.micro_batches = stages, micro_batches
        self.label = f"{profile.stem:28} {stages} x {micro_batches:<2}"
        options = read_options(profile)
        lists = one_f_one_b(stages, micro_batches)
        instructions = [(stage, *i) for stage, order in enumerate(lists) for i in order]
        place = {i: n for n, i in enumerate(instructions)}
        self.choices = [options[stage, kind] for stage, kind, _ in instructions]
        self.pairs = [(place[a], place[b], 0) for a, b in dependencies(lists)]
        self.out = directory / "plan"
        self.command = [harpe, "plan", "--profile", profile, "--stages", str(stages),
                        "--micro-batches", str(micro_batches), "--out", self.out,
                        "--blocking-power", str(BLOCKING_POWER)]  # fmt: skip
        self.fastest = self.plan(0)["iteration_time_s"]

    def plan(self, slowdown):
        subprocess.run([*self.command, "--slowdown", f"{slowdown}%"], check=True, capture_output=True)
        return json.loads((self.out / "plan.json").read_text())

    def holds(self, slowdown):
        """Returns whether bound and plan are as good as required."""
        plan = self.plan(slowdown)
        power = BLOCKING_POWER * self.stages
        bound = least_energy(self.choices, self.pairs, power, plan["iteration_time_s"], mixed=True)
        error = plan["lower_bound_j"] / bound - 1
        good = abs(error) < LARGEST_BOUND_ERROR
        text = f"{self.label} {slowdown:5g} % slower: bound off by {error:8.1e}"
        deadline = self.fastest * (1 + slowdown / 100)
        optimum = least_energy(self.choices, self.pairs, power, deadline, mixed=False)
        if optimum is None:
            text += f", no optimum proven in {SECONDS:g} s"
        else:
            gap = plan["iteration_energy_j"] / optimum - 1
            text += f", plan {100 * gap:7.4f} % above the optimum"
            good = good and -1e-6 < gap < self.largest_gap
        print(text if good else text + "   WRONG", flush=True)
        return good


def main():
    harpe = pathlib.Path(sys.argv[1])
    good = True
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for profile in profiles(harpe, directory):
            for stages, micro_batches, slowdowns in SIZES:
                if stages > 2 and directory in profile.parents:
                    continue  # hardly any optimum can be proven there
                comparison = Comparison(harpe, profile, stages, micro_batches, directory)
                for slowdown in slowdowns:
                    good = comparison.holds(slowdown) and good
        for profile in hard_profiles(directory):
            for stages in (2, 3):
                comparison = Comparison(harpe, profile, stages, 4, directory, LARGEST_HARD_GAP)
                for slowdown in (0, 3, 10):
                    good = comparison.holds(slowdown) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
