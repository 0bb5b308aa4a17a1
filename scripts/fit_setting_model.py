#!/usr/bin/env python3
"""Fits the priors of src/harpe/zeus/power_limit/setting_model.cc to the traces published with Zeus.

    fit_setting_model.py TRACES/summary_power_v100.csv TRACES/summary_power_p100.csv ...

Each (dataset, network, batch size, optimizer) with at least five power limits is a curve over x = limit / power drawn at
the highest limit. Prints the slope, knee and width of log time's prior and the sharpness of power's: least absolute
deviations over a grid. Give no traces of the GPU on which the choice is judged.
"""

import csv
import itertools
import math
import pathlib
import sys
from collections import defaultdict


def points(path):
    """Returns (x, log time, log power) of each limit below the highest of each curve, relative to that."""
    curves = defaultdict(list)
    with pathlib.Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            job = tuple(row[key] for key in ("dataset", "network", "batch_size", "optimizer"))
            curves[job].append(tuple(float(row[key]) for key in ("power_limit", "time_per_epoch", "average_power")))
    for curve in curves.values():
        if len(curve) < 5:
            continue
        curve.sort(reverse=True)
        _, time, power = curve[0]
        for limit, t, p in curve[1:]:
            yield limit / power, math.log(t / time), math.log(p / power)


def main():
    seen = [point for path in sys.argv[1:] for point in points(path)]
    if not seen:
        sys.exit(__doc__)

    def time_deviation(prior):
        slope, knee, width = prior
        return sum(abs(t - slope * width * math.log1p(math.exp(min((knee - x) / width, 700)))) for x, t, _ in seen)

    def power_deviation(sharpness):
        return sum(abs(p + math.log(x**-sharpness + 1) / sharpness) for x, _, p in seen)

    slopes = [0.5 + 0.25 * i for i in range(22)]
    knees = [0.4 + 0.05 * i for i in range(16)]
    widths = [0.02, 0.05, 0.08, 0.12, 0.16, 0.2]
    slope, knee, width = min(itertools.product(slopes, knees, widths), key=time_deviation)
    sharpness = min([2 + 0.5 * i for i in range(36)], key=power_deviation)
    print(f"{len(seen)} points: slope {slope:g}, knee {knee:.2f}, width {width:g}, sharpness {sharpness:g}")


if __name__ == "__main__":
    main()
