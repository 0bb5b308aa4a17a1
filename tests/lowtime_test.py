#!/usr/bin/env python3
"""At the time of any plan of Perseus's released solver, Harpe's plan needs no more; and the policy `perseus` of `harpe
compare` plans what the solver plans.

usage: lowtime_test.py HARPE

The solver, lowtime, is that of PyPI (tests/requirements.txt). Its clocks are priced as Harpe's own are, at the times and
energies of the profile. Skipped (77) where it is missing.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import perseus  # noqa: E402
from harpe_command import Harpe, cpu_seconds  # noqa: E402

BLOCKING_POWER = 83.64
STAGES, MICRO_BATCHES = 4, 8
NANOSECOND = 1e-9
LEAST_FRONTIER = 20  # plans; fewer would be too few for a comparison


def profile_for(harpe, directory):
    """Returns a measured profile if it is available, otherwise a synthetic one."""
    shared = pathlib.Path(os.environ.get("HARPE_SHARED", ROOT.parent / "shared"))
    measured = shared / "data/sosp24/emulation/gpt3-175b_a100-sxm.csv"
    if measured.exists():
        return measured
    path = directory / "model-a100-sxm.csv"
    subprocess.run([harpe, "synth", "--stages", str(STAGES), "--imbalance", "1.2", "--out", path], check=True,
                   capture_output=True)  # fmt: skip
    return path


def holds(harpe_program, profile, directory):
    """Returns whether Harpe needs at most as much everywhere; prints the differences."""
    harpe = Harpe(harpe_program, profile, STAGES, MICRO_BATCHES, BLOCKING_POWER, directory)
    _, ours = cpu_seconds(harpe.summary)
    plans, planned, theirs = perseus.frontier(profile, STAGES, MICRO_BATCHES, BLOCKING_POWER)
    priced = sorted({harpe.price(clocks) for clocks in plans})
    least = harpe.summary()["frontier"]["min_time_s"]
    savings = []
    for seconds, joules in priced:
        until = max(seconds + NANOSECOND, least)
        # A quick plan is usually enough.
        mine = harpe.energy_by(until, "--quick")
        if mine > joules:
            mine = harpe.energy_by(until)
        savings.append(1 - mine / joules)
    print(f"{profile.stem}, {STAGES} x {MICRO_BATCHES}: {len(priced)} plans of lowtime; Harpe needs "
          f"{100 * min(savings):.3f} to {100 * max(savings):.3f} % less energy, and 1/{theirs / ours:.0f} of its CPU time "
          f"({ours:.2f} s)")  # fmt: skip
    return (min(savings) > -1e-9 and len(priced) >= LEAST_FRONTIER and theirs > ours
            and is_the_same_policy(harpe, planned[-1]))  # fmt: skip


def is_the_same_policy(harpe, fastest):
    """Returns whether Harpe's version of the published algorithm plans the same fastest iteration."""
    found = harpe.json("compare", *harpe.options[:4], *harpe.options[6:], "--policies", "perseus", "--schedules", "none")
    ours = next(row for row in found["policies"] if row["policy"] == "perseus")["fastest_as_planned"]
    seconds, joules = ours["iteration_time_s"], ours["iteration_energy_j"]
    print(f"fastest plan: lowtime {fastest[0]:.6f} s, {fastest[1]:.3f} J; harpe compare {seconds:.6f} s, {joules:.3f} J")
    # Both fit the exponentials by least squares, from different starting points.
    return abs(seconds - fastest[0]) < NANOSECOND and abs(joules / fastest[1] - 1) < 1e-5


def main():
    try:
        perseus.import_lowtime()
    except ImportError as missing:
        print(f"{missing}: run scripts/install-dependencies.sh")
        return 77
    harpe = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        return 0 if holds(harpe, profile_for(harpe, directory), directory) else 1


if __name__ == "__main__":
    sys.exit(main())
