#!/usr/bin/env python3
"""Commands that measure or compute for long, on a disk that is full when they write: what they found is kept elsewhere, and a
disk that is full before is said before. Usage: full_disk_test.py HARPE TRAINER"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HARPE = TRAINER = None
# In a mount name space that is not visible outside. $0: mount point; $1: bytes.
MOUNT = 'mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"'
UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-m", "sh", "-c", MOUNT]
GPUS = '[[gpu]]\nmodel = "a100-sxm"\ncount = 2\ncall_ms = 1\nswitch_ms = 5\n'


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.full, self.temporary = self.folder / "full", self.folder / "tmp"
        self.full.mkdir()
        self.temporary.mkdir()
        self.simulation = self.folder / "sim.toml"
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n{GPUS}')
        self.environment = {**os.environ, "TMPDIR": str(self.temporary)}
        for name in ("HARPE_CLOCK_SOCKET", "HARPE_JOB", "HARPE_SERVER"):
            self.environment.pop(name, None)

    def run_on(self, size, *command):
        return subprocess.run([*UNSHARE, self.full, size, *command], env=self.environment, capture_output=True, text=True,
                              cwd=self.folder, timeout=180)

    def filling(self, *command):
        """Returns a command that fills the disk first."""
        return ["sh", "-c", f'cat /dev/zero >{self.full}/fill 2>/dev/null; exec "$@"', "sh", *command]

    def kept(self, name, said):
        """Returns the file kept in the temporary folder, whose place the message contains."""
        found = list(self.temporary.glob(f"harpe-kept-*/{name}"))
        self.assertEqual(len(found), 1, said)
        self.assertIn("No space left on device", said)
        self.assertIn(f"kept as {found[0]}", said)
        return found[0]

    def test_a_measured_profile_is_kept(self):
        training = [TRAINER, "--simulation", self.simulation, "--data", "1", "--stages", "2", "--micro-batches", "2", "--forward-s",
                    "0.01", "--iterations", "100000"]
        run = self.run_on("64k", HARPE, "profile", "measure", "--simulate", self.simulation, "--stop", "--json", "--clocks", "2",
                          "--lowest-clock", "1000", "--max-slowdown", "1000%", "--out", self.full / "profile.csv", "--",
                          *self.filling(*training))
        self.assertEqual(run.returncode, 2, run.stderr)
        report = json.loads(run.stderr)
        profile = self.kept("profile.csv", report["error"])
        self.assertEqual((report["complete"], report["profile"]), (True, str(profile)))
        self.assertIn(str(profile), report["plan"])
        subprocess.run([HARPE, "profile", "check", profile], check=True, capture_output=True)

    def test_the_report_of_a_run_is_kept(self):
        run = self.run_on("64k", HARPE, "run", "--simulate", self.simulation, "--out", self.full / "report.json", "--csv",
                          self.full / "runs.csv", "--", *self.filling("true"))
        self.assertEqual(run.returncode, 0, "the status is the command's")
        self.assertIn("time_s", json.loads(self.kept("report.json", run.stderr).read_text()))
        self.assertIn("start_time", self.kept("runs.csv", run.stderr).read_text())

    def test_a_table_of_latencies_is_kept_and_printed(self):
        # The first file takes the only page.
        run = self.run_on("4k", HARPE, "switch-latency", "--simulate", self.simulation, "--gpus", "0", "--clocks", "1410,1200",
                          "--repeats", "2", "--csv", self.full / "all.csv", "--table", self.full / "table.csv")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("1410", run.stdout)
        self.assertIn("frequency,latency", self.kept("table.csv", run.stderr).read_text())

    def test_a_plan_is_kept_whole_and_printed(self):
        subprocess.run([HARPE, "synth", "--gpu", "a100-sxm", "--stages", "2", "--out", self.folder / "profile.csv"], check=True,
                       capture_output=True)
        plan = [HARPE, "plan", "--profile", "profile.csv", "--micro-batches", "4", "--json"]
        run = self.run_on("32k", *plan, "--out", self.full)
        self.assertEqual(run.returncode, 2, run.stderr)
        summary = json.loads(run.stdout)
        folder = self.kept("full", "\n".join(summary["warnings"]))
        self.assertEqual(sorted(summary["files"]), sorted(str(path) for path in folder.iterdir()))
        self.assertIn("plan.json", [path.name for path in folder.iterdir()])

    def test_a_disk_that_is_full_before_is_said_before(self):
        for command in ([HARPE, "run", "--out", self.full / "report.json", "--", "touch", self.folder / "begun"],
                        [HARPE, "run", "--csv", self.full / "runs.csv", "--", "touch", self.folder / "begun"],
                        [HARPE, "profile", "measure", "--simulate", self.simulation, "--out", self.full / "p.csv", "--", "touch",
                         self.folder / "begun"],
                        [HARPE, "switch-latency", "--simulate", self.simulation, "--repeats", "100000", "--table",
                         self.full / "t.csv"]):
            with self.subTest(command[1]):
                run = self.run_on("64k", *self.filling(*command))
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn("No space left on device", run.stderr)
                self.assertFalse((self.folder / "begun").exists())
                self.assertEqual(list(self.temporary.iterdir()), [])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    HARPE, TRAINER = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    if subprocess.run([*UNSHARE, "/mnt", "4k", "true"], capture_output=True).returncode != 0:
        print("no disk can be mounted in a name space of its own here")
        sys.exit(77)
    unittest.main(argv=["test", "-v"])
