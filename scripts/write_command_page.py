#!/usr/bin/env python3
"""Writes docs/cli.md from what `harpe ... --help` prints.

    write_command_page.py --harpe build/release/src/harpe/command/cli/harpe [--check]

With --check nothing is written; exits 1 when the page is not current.
"""

import argparse
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """# The harpe command

This page is generated from the help of the commands (`scripts/write_command_page.py`). The manual pages
(`man harpe`, `man harpe-plan`) have the same text.

With `--json`, every command prints its result, or its errors, as one JSON document on standard output.
Errors have the form
`{"error": {"code": "invalid_input", "diagnostics": [{"file": "p.csv", "line": 3, "column": 7, "message": "..."}]}}`.
An unknown value is `null`.

| exit status | meaning | `code` |
| --- | --- | --- |
| 0 | success | |
| 1 | a check refused its input | `refused` |
| 2 | wrong input, no feasible plan, or a file that cannot be read or written; nothing was written | `invalid_input`, `infeasible`, `not_found`, `io` |
| 69 | a device or driver does not support the request, or is unavailable now | `not_supported`, `unavailable` |
| 70 | a defect in Harpe | `internal` |
| 75 | another client holds the device | `conflict` |
| 77 | no permission; the message suggests a remedy | `no_permission` |

A progress bar appears on standard error, if it is a terminal, when a task takes more than a second.
Colours appear only on a terminal, and only if `NO_COLOR` is not set.
"""


def helps(harpe, words=()):
    """Yields (words, help) of a command and of all its subcommands."""
    text = subprocess.run([harpe, *words, "--help"], check=True, capture_output=True, text=True).stdout
    yield words, text
    below = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    if below:
        for name in re.findall(r"^  ([^\s,]+)(?=,| |$)", below.group(1), re.MULTILINE):
            yield from helps(harpe, (*words, name))


def page(harpe):
    found = list(helps(harpe))
    names = {words for words, _ in found}
    # Omits `harpe lab replay`, which equals `harpe replay`.
    shown = [(words, text) for words, text in found if words[:1] != ("lab",) or words[1:2] == ("man",) or words[1:] not in names]
    return "\n".join([HEAD, *(f"## {' '.join(('harpe', *words))}\n\n```text\n{text}```\n" for words, text in shown)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harpe", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page(options.harpe)
    if not options.check:
        PAGE.write_text(text)
    elif not PAGE.is_file() or PAGE.read_text() != text:
        print("docs/cli.md is not current: run scripts/write_command_page.py --harpe", options.harpe)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
