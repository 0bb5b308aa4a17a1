#!/usr/bin/env python3
"""Judges what Harpe believes beforehand of recurring jobs (PayBackPrior) on data that it was not chosen on.

    judge_batch_size_prior.py TRACES [--harpe PROGRAM] [--seeds 8] [--factors 0.5,2] [NAME ...]

Replays all targets on all GPUs, once with the constants that a server has and once for each constant NAME (by default all
below) times each factor, the others unchanged. For each data set it takes the set of constants of least mean cost on the
other data sets, and prints what the data set then costs: over the oracle, mean of its cells. A cell is a target on a GPU.
Needs nothing but Python; takes as many replays as there are sets of constants. With --keep FOLDER it keeps the tables of the replays
there, and takes those that are there already.
"""

import argparse
import csv
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "src/harpe/zeus/batch_size/pay_back.h"


def shipped():
    """Returns the constants in the header, by name."""
    struct = re.search(r"struct PayBackPrior \{(.*?)\n\};", HEADER.read_text(), re.DOTALL).group(1)
    struct = re.sub("//.*", "", struct)
    return {name: float(value) for name, value in re.findall(r"(\w+) = ([-0-9.]+)", struct)}


def costs(arguments, folder, prior):
    """Returns the mean costs over the seeds of each cell (data set, target, GPU), of Harpe and Zeus."""
    path = pathlib.Path(folder) / f"{prior or 'shipped'}-{arguments.seeds}.csv"
    if not path.exists():
        command = [arguments.harpe, "replay", "zeus", arguments.traces, "--gpu", "all", "--targets"]
        command += ["--seeds", str(arguments.seeds), "--csv", str(path)]
        command += ["--prior", prior] if prior else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    sums = defaultdict(lambda: [0.0, 0.0, 0])
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["zeus"]:  # Zeus eliminated all batch sizes: no comparison possible
                continue
            cell = sums[row["dataset"], row["target"], row["gpu"]]
            cell[0] += float(row["harpe"])
            cell[1] += float(row["zeus"])
            cell[2] += 1
    return {cell: (harpe / count, zeus / count) for cell, (harpe, zeus, count) in sums.items()}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def judge(replays):
    """Prints a line for each data set, and the mean over all cells."""
    datasets = sorted({cell[0] for cell in replays[""]})
    print(f"{'left out':14} {'shipped':>8} {'judged':>8} {'own best':>8}  highest above Zeus  constants chosen on the others")
    judged = {}
    for left_out in datasets:
        others = {
            prior: mean(harpe for cell, (harpe, _) in cells.items() if cell[0] != left_out)
            for prior, cells in replays.items()
        }
        chosen = min(others, key=others.get)
        own = {
            prior: mean(harpe for cell, (harpe, _) in cells.items() if cell[0] == left_out)
            for prior, cells in replays.items()
        }
        cells = {cell: costs for cell, costs in replays[chosen].items() if cell[0] == left_out}
        judged.update(cells)
        highest = max(harpe - zeus for harpe, zeus in cells.values())
        print(
            f"{left_out:14} {own['']:8.4f} {own[chosen]:8.4f} {min(own.values()):8.4f}  {highest:18.4f}  {chosen or 'as shipped'}"
        )
    for name, cells in (("shipped", replays[""]), ("judged", judged)):
        above = sum(harpe - zeus > 0.02 for harpe, zeus in cells.values())
        print(
            f"all {len(cells)} cells, {name}: {mean(harpe for harpe, _ in cells.values()):.4f}, "
            f"Zeus {mean(zeus for _, zeus in cells.values()):.4f}; {above} cells more than 0.02 above Zeus"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces")
    parser.add_argument("constants", nargs="*", metavar="NAME")
    parser.add_argument("--harpe", default=str(ROOT / "build/release/src/harpe/command/cli/harpe"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--factors", default="0.5,2")
    parser.add_argument("--keep")
    arguments = parser.parse_intermixed_args()
    values = shipped()
    constants = arguments.constants or list(values)
    if unknown := [name for name in constants if name not in values]:
        sys.exit(f"{HEADER.name} has no {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        replays = {"": costs(arguments, folder, "")}
        for name in constants:
            for factor in arguments.factors.split(","):
                prior = f"{name}={values[name] * float(factor):g}"
                replays[prior] = costs(arguments, folder, prior)
    judge(replays)


if __name__ == "__main__":
    main()
