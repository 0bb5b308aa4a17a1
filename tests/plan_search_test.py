#!/usr/bin/env python3
"""harpe plan whose search goes on: ended by its time or by Ctrl-C, it writes the best plan so far.

Usage: plan_search_test.py HARPE
"""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

HARPE = None


class PlanSearch(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        subprocess.run([HARPE, "synth", "--stages", "4", "--out", "profile.csv"], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)

    def command(self, *options):
        return [HARPE, "plan", "--profile", "profile.csv", "--micro-batches", "8", "--slowdown", "1%", *options]

    def plan(self, *options):
        done = subprocess.run(self.command(*options, "--json"), cwd=self.folder, check=True, capture_output=True)
        return json.loads(done.stdout)

    def repeated(self, notes):
        """Repeats the search described in a note. Returns the plan as bytes."""
        windows = re.search(r"--search-windows\s+(\d+)\s+finds\s+the\s+same\s+plan\s+again", notes)  # lines are wrapped
        self.assertTrue(windows, notes)
        self.plan("--search-windows", windows[1], "--out", "again")
        return (self.folder / "again/plan.json").read_bytes()

    def test_a_search_by_time_says_how_to_find_its_plan_again(self):
        result = self.plan("--search-time", "300ms", "--out", "searched")
        self.assertEqual((self.folder / "searched/plan.json").read_bytes(), self.repeated(str(result["notes"])))

    def test_ctrl_c_keeps_the_best_plan_so_far(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execv(HARPE, self.command("--search-time", "1000", "--out", "searched"))
        text = b""
        while b"Ctrl-C keeps the best" not in text:
            text += os.read(terminal, 65536)
        os.write(terminal, b"\x03")
        try:
            while part := os.read(terminal, 65536):
                text += part
        except OSError:
            pass
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, text.decode())
        self.assertIn(b"until it was interrupted", text)
        self.assertEqual((self.folder / "searched/plan.json").read_bytes(), self.repeated(text.decode()))


if __name__ == "__main__":
    HARPE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
