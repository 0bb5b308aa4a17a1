#!/usr/bin/env python3
"""Opens reports in a real browser and looks at what its scripts made of them.

usage: report_page_test.py HARPE

Skipped (77) without chromium.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GOALS = (["--slowdown", "0"], ["--straggler", "1.2x"], ["--power-cap", "2kW"],
         ["--switch-latency", "10ms"])  # fmt: skip


def rendered(browser, page, directory):
    """The page's document after its scripts ran, and what they complained of."""
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--enable-logging=stderr", "--window-size=1300,2400",
         f"--user-data-dir={directory}/browser", page.as_uri()],
        check=True, capture_output=True, text=True, timeout=120)  # fmt: skip
    faults = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, faults


def diagnostics_of(document, complaints):
    faults = list(complaints)
    if document.count("<circle") < 20:
        faults.append("the frontier is not drawn")
    for caption in ("caption-all-max", "caption-plan"):
        if not re.search(rf'id="{caption}"[^>]*>[^<]+<', document):
            faults.append(f"the pipeline's {caption} is empty")
    for line in re.findall(r"(?:NaN|undefined|\[object)[^<]{0,20}", document.split("<script")[0]):
        faults.append(f"the page says {line!r}")
    return faults


def main():
    harpe = sys.argv[1]
    browser = shutil.which("chromium")
    if browser is None:
        print("no chromium")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        profile = directory / "profile.csv"
        subprocess.run([harpe, "synth", "--out", profile], check=True, capture_output=True)
        for goal in GOALS:
            subprocess.run(
                [harpe, "plan", "--profile", profile, "--micro-batches", "12",
                 "--blocking-power", "83.64", "--out", directory / "plan", *goal],
                check=True, capture_output=True)  # fmt: skip
            document, complaints = rendered(browser, directory / "plan/report.html", directory)
            for fault in diagnostics_of(document, complaints):
                print(f"{' '.join(goal)}: {fault}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
