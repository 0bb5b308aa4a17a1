#!/usr/bin/env python3
"""Plans of Harpe beside those of other solvers, as the table of docs/performance.md.

Harpe as it comes and after a longer search, a mixed-integer solver (HiGHS) with a limit on its time, and Perseus's
released solver (lowtime) with the best of its plans that is in time: how far each is above the lower bound, and the CPU
time that it took. lowtime finds its whole frontier at once, Harpe the exact one; the time is that of all of it. All clocks
are priced alike, at the times and energies of the profile.

Run it with the Python of build/venv, which has lowtime and SciPy.
"""

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

import optimum_test  # noqa: E402
import perseus  # noqa: E402
from harpe_command import Harpe, cpu_seconds  # noqa: E402

BLOCKING_POWER = optimum_test.BLOCKING_POWER
SIZES = ((4, 8), (8, 12))
SLOWDOWNS = (0, 0.5, 2, 5)  # percent, relative to the fastest iteration
ROUNDING = 1 + 1e-9


@contextlib.contextmanager
def quiet():
    """Suppresses output that HiGHS writes to standard output regardless of its options."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


class Pipeline:
    """Runs all solvers on one size of pipeline."""

    def __init__(self, arguments, stages, micro_batches, directory):
        self.stages, self.micro_batches = stages, micro_batches
        self.limit = arguments.seconds
        self.search = f"{arguments.search_seconds:g}s"
        self.harpe = Harpe(arguments.harpe, arguments.profile, stages, micro_batches, BLOCKING_POWER, directory)
        self.fastest = self.harpe.summary("--quick")["frontier"]["min_time_s"]
        self.model = optimum_test.Comparison(arguments.harpe, arguments.profile, stages, micro_batches, directory)
        plans, _, self.lowtime_seconds = perseus.frontier(arguments.profile, stages, micro_batches, BLOCKING_POWER)
        self.lowtime = sorted({self.harpe.price(clocks) for clocks in plans})

    def solve(self, deadline, mixed):
        power = BLOCKING_POWER * self.stages
        with quiet():
            return optimum_test.solve(self.model.choices, self.model.pairs, power, deadline, mixed, self.limit)

    def row(self, slowdown):
        deadline = self.fastest * (1 + slowdown / 100)
        bound = self.solve(deadline, mixed=True).fun
        summary, seconds = cpu_seconds(lambda: self.harpe.summary("--deadline", repr(deadline)))
        searched, longer = cpu_seconds(lambda: self.harpe.energy_by(deadline, "--search-time", self.search))
        start = time.process_time()
        found = self.solve(deadline, mixed=False)
        solver_seconds = time.process_time() - start
        proven = getattr(found, "mip_dual_bound", None)

        def gap(joules):
            return "none" if joules is None else f"{100 * (joules / bound - 1):.3f} %"

        in_time = [joules for seconds, joules in self.lowtime if seconds <= deadline * ROUNDING]
        lowtime = gap(min(in_time, default=None))
        if not in_time:
            lowtime = f"none; fastest {100 * (self.lowtime[0][0] / self.fastest - 1):.2f} % slower"
        return [f"{self.stages} x {self.micro_batches}", f"{slowdown:g} %", f"{bound:.1f} J", gap(proven),
                f"{gap(summary['plans']['chosen']['iteration_energy_j'])}, {seconds:.2f} s", f"{gap(searched)}, {longer:.1f} s",
                f"{gap(found.fun)}, {solver_seconds:.0f} s", f"{lowtime}, {self.lowtime_seconds:.1f} s"]  # fmt: skip


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harpe", type=pathlib.Path)
    parser.add_argument("profile", type=pathlib.Path, help="CSV file with at least eight stages")
    parser.add_argument("--seconds", type=float, default=60, help="wall-clock limit of HiGHS, s (default %(default)g)")
    parser.add_argument("--search-seconds", type=float, default=10, help="wall-clock limit of Harpe's longer search, s (default %(default)g)")
    arguments = parser.parse_args()
    arguments.harpe = arguments.harpe.resolve()
    print_row(["stages x micro-batches", "slowdown", "lower bound", "HiGHS's bound", "Harpe", "Harpe, longer", "HiGHS", "lowtime"])
    print_row(["---"] * 8)
    with tempfile.TemporaryDirectory() as name:
        for stages, micro_batches in SIZES:
            pipeline = Pipeline(arguments, stages, micro_batches, pathlib.Path(name))
            for slowdown in SLOWDOWNS:
                print_row(pipeline.row(slowdown))


if __name__ == "__main__":
    main()
