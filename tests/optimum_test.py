#!/usr/bin/env python3
"""Compares plans with the optimum that a mixed-integer solver (HiGHS) proves.

usage: optimum_test.py HARPE [STAGES MICROBATCHES [SECONDS]]

The model is written here from the profile and the order of instructions alone: one binary variable
for each Pareto-optimal clock of each instruction, one start time for each instruction. Profiles are
the measured ones where they are at hand, otherwise one from an analytic model. Prints a row for each
deadline; deadlines at which the solver proves nothing in time are reported and do not count.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
from scipy import optimize, sparse

LARGEST_GAP = 3e-4  # of the proven optimum
BLOCKING_POWER = 83.64
SKIPPED = 77


def read_options(path):
    """(stage, kind) -> [(seconds, effective joules)], Pareto-optimal, fastest first."""
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
    """Order of (kind, micro-batch) on each stage."""
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
    """Pairs of instructions (stage, kind, micro-batch), the first before the second."""
    pairs = []
    for stage, order in enumerate(lists):
        pairs += [((stage, *a), (stage, *b)) for a, b in zip(order, order[1:])]
        for kind, m in order:
            if kind == "forward" and stage + 1 < len(lists):
                pairs.append(((stage, kind, m), (stage + 1, kind, m)))
            if kind == "backward" and stage > 0:
                pairs.append(((stage, kind, m), (stage - 1, kind, m)))
    return pairs


def least_energy(options, lists, deadline, seconds):
    """Proven least energy of an iteration that occupies the GPUs until the deadline, or None."""
    instructions = [(s, *i) for s, order in enumerate(lists) for i in order]
    choices = [options[s, kind] for s, kind, _ in instructions]
    first = numpy.cumsum([0] + [len(c) for c in choices])
    start = {i: first[-1] + n for n, i in enumerate(instructions)}
    variables = first[-1] + len(instructions)
    place = {i: n for n, i in enumerate(instructions)}
    rows, columns, values, low, high = [], [], [], [], []

    def add(entries, lower, upper):
        for column, value in entries:
            rows.append(len(low))
            columns.append(column)
            values.append(value)
        low.append(lower)
        high.append(upper)

    def duration(instruction):
        n = place[instruction]
        return [(first[n] + k, -choices[n][k][0]) for k in range(len(choices[n]))]

    for n in range(len(instructions)):
        add([(first[n] + k, 1) for k in range(len(choices[n]))], 1, 1)
    for a, b in dependencies(lists):
        add([(start[b], 1), (start[a], -1)] + duration(a), 0, numpy.inf)
    for i in instructions:
        add([(start[i], -1)] + duration(i), -deadline, numpy.inf)
    cost = numpy.zeros(variables)
    for n, options_of in enumerate(choices):
        for k, (_, joules) in enumerate(options_of):
            cost[first[n] + k] = joules
    integral = numpy.zeros(variables)
    integral[: first[-1]] = 1
    upper = numpy.ones(variables)
    upper[first[-1] :] = deadline
    matrix = sparse.csr_array((values, (rows, columns)), shape=(len(low), variables))
    result = optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(matrix, low, high),
        integrality=integral,
        bounds=optimize.Bounds(numpy.zeros(variables), upper),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )
    if result.status != 0:
        return None
    return result.fun + BLOCKING_POWER * len(lists) * deadline


def profiles(harpe, directory):
    shared = pathlib.Path(os.environ.get("HARPE_SHARED", pathlib.Path(__file__).parents[2] / "shared"))
    measured = sorted((shared / "data/sosp24/emulation").glob("*a100-sxm.csv"))
    if measured:
        return measured
    path = directory / "model.csv"
    subprocess.run([harpe, "synth", "--out", path], check=True, stderr=subprocess.DEVNULL)
    return [path]


def compare(harpe, profile, stages, micro_batches, seconds, directory):
    """Number of proven deadlines and those where the plan is too far off."""
    options = read_options(profile)
    base = [harpe, "plan", "--profile", profile, "--stages", str(stages), "--microbatches",
            str(micro_batches), "--blocking-power", str(BLOCKING_POWER), "--json"]  # fmt: skip

    def plan(slowdown):
        out = directory / "plan"
        subprocess.run([*base, "--slowdown", str(slowdown), "--out", out],
                       check=True, capture_output=True)  # fmt: skip
        return json.loads((out / "plan.json").read_text())

    proven = failed = 0
    fastest = plan(0)["iteration_time_s"]
    for slowdown in (0.5, 2, 4, 7, 11, 16):
        found = plan(slowdown)
        deadline = fastest * (1 + slowdown / 100)
        waiting = BLOCKING_POWER * stages * (deadline - found["iteration_time_s"])
        energy = found["iteration_energy_j"] + waiting
        optimum = least_energy(options, one_f_one_b(stages, micro_batches), deadline, seconds)
        label = f"{profile.stem:24} {stages} x {micro_batches:<3} {slowdown:5g} % slower"
        if optimum is None:
            print(f"{label}   no optimum proven in {seconds:g} s")
            continue
        gap = energy / optimum - 1
        print(f"{label}   {100 * gap:8.4f} % above the optimum")
        proven += 1
        failed += gap > LARGEST_GAP or gap < -1e-6
    return proven, failed


def main():
    harpe = pathlib.Path(sys.argv[1])
    sizes = [(2, 4, 60.0), (4, 8, 20.0)]
    if len(sys.argv) > 3:
        sizes = [(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 60.0)]
    total_failed = 0
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for stages, micro_batches, seconds in sizes:
            total_proven = 0
            for profile in profiles(harpe, directory):
                proven, failed = compare(harpe, profile, stages, micro_batches, seconds, directory)
                total_proven += proven
                total_failed += failed
            if stages == 2 and total_proven == 0:
                print("nothing was proven")
                return 1
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
