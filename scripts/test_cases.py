#!/usr/bin/env python3
"""Counts the GoogleTest cases that the last CTest run of some builds ran, and names those that were skipped.

    test_cases.py BUILD...           a line for each build, and one for each skipped case
    test_cases.py --list BUILD...    the names of the cases that ran, sorted
"""

import argparse
import json
import pathlib


def cases(build):
    """Yields (room-file, Suite.Case, whether it was skipped) for each case."""
    for results in sorted((build / "cases").glob("*.json")):
        for suite in json.loads(results.read_text(encoding="utf-8"))["testsuites"]:
            for case in suite["testsuite"]:
                if case["status"] != "RUN":
                    continue
                yield results.stem, f"{suite['name']}.{case['name']}", case["result"] == "SKIPPED"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("builds", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    for build in options.builds:
        found = list(cases(build))
        if options.list:
            print(*sorted({name for _, name, skipped in found if not skipped}), sep="\n")
            continue
        skipped = [one for one in found if one[2]]
        if found:
            print(f"{build.name}: {len(found) - len(skipped)} cases ran, {len(skipped)} skipped")
        for file, name, _ in skipped:
            print(f"  skipped: {file} {name}")


if __name__ == "__main__":
    main()
