#!/usr/bin/env python3
"""The power that `harpe lab emulate` writes as Parquet, read by Apache Arrow, is that of its CSV.

usage: parquet_test.py HARPE

Skipped (77) without pyarrow (tests/requirements-all.txt).
"""

import csv
import pathlib
import subprocess
import sys
import tempfile

ROUNDED = 0.0501  # W: the CSV has one decimal


def emulated(harpe, profile, form, folder):
    """Returns the file of power over time in that format."""
    command = [harpe, "lab", "emulate", profile, "--micro-batches", "8", "--gpu", "a100-sxm", "--gpus-per-stage", "8",
               "--pipelines", "4", "--iterations", "20", "--quick", "--power-time", "5", "--power-format", form,
               "--out", folder / form]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return folder / form / ("power.parquet" if form == "parquet" else "power.csv")


def main():
    try:
        import pyarrow.parquet as parquet
    except ImportError as missing:
        print(f"{missing}: run scripts/install-dependencies.sh")
        return 77
    harpe = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        profile = folder / "profile.csv"
        subprocess.run([harpe, "synth", "--stages", "4", "--out", profile], check=True, capture_output=True)
        table = parquet.read_table(emulated(harpe, profile, "parquet", folder)).to_pydict()
        with open(emulated(harpe, profile, "table", folder), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    print(f"{len(rows)} rows of {len(table)} columns")
    assert list(table) == list(rows[0]) and len(table) > 5, list(table)
    assert len(rows) == 500, len(rows)
    for column, values in table.items():
        assert len(values) == len(rows)
        for value, row in zip(values, rows, strict=True):
            assert abs(value - float(row[column])) < ROUNDED, (column, value, row[column])
    return 0


if __name__ == "__main__":
    sys.exit(main())
