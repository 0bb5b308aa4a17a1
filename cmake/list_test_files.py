#!/usr/bin/env python3
"""Writes the CTest tests of one GoogleTest program: one test for each source file, which runs all cases of that file.

Usage: list_test_files.py PROGRAM OUTPUT --prefix base/ --results FOLDER csv_test.cc:fast:600 ...

Each FILE:LABEL:TIMEOUT gives the label and the timeout (seconds) of one file. GoogleTest selects by the names of suites;
so a suite must stand in one file alone. A run leaves its cases, with those that were skipped, in FOLDER.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def suites_by_file(program):
    """Returns {name of a source file: its test suites}, as listed by the program."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "cases.json"
        subprocess.run([program, "--gtest_list_tests", f"--gtest_output=json:{listed}"],
                       check=True, stdout=subprocess.DEVNULL)
        found = {}
        owner = {}
        for suite in json.loads(listed.read_text(encoding="utf-8"))["testsuites"]:
            for case in suite["testsuite"]:
                file = pathlib.PurePath(case["file"]).name
                if owner.setdefault(suite["name"], file) != file:
                    sys.exit(f"the test suite {suite['name']} stands in {owner[suite['name']]} and in {file}: rename one")
            found.setdefault(owner[suite["name"]], []).append(suite["name"])
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    found = suites_by_file(options.program)
    lines = []
    for description in options.files:
        path, label, timeout = description.split(":")
        file = pathlib.PurePath(path)
        suites = found.pop(file.name, None)
        if suites is None:
            sys.exit(f"{path} has no test case")
        name = options.prefix + file.stem
        results = f"{options.results}/{name.replace('/', '-')}.json"
        chosen = ":".join(f"{suite}.*" for suite in suites)
        lines.append(f'add_test([=[{name}]=] [=[{options.program}]=] [=[--gtest_filter={chosen}]=] --gtest_brief=1)\n'
                     f'set_tests_properties([=[{name}]=] PROPERTIES LABELS {label} TIMEOUT {timeout}'
                     f' RESOURCE_GROUPS cores:2 COST {100 if label == "slow" else 0} ENVIRONMENT [=[GTEST_OUTPUT=json:{results}]=])\n')
    if found:
        sys.exit(f"test cases of files that are not listed: {found}")
    options.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
