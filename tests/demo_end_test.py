#!/usr/bin/env python3
"""A demonstration that a signal ends leaves no process, another one does not touch what is of one that runs, and one that waits
too long says what to do.
Usage: demo_end_test.py EXAMPLES HARPE"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

EXAMPLES, HARPE = sys.argv[1:3]
sys.path.insert(0, EXAMPLES)

import demo_cluster  # noqa: E402
import demo_report  # noqa: E402
import processes  # noqa: E402
import run_carbon_demo  # noqa: E402
import run_demo  # noqa: E402


class DemoEnd(unittest.TestCase):
    def test_a_signal_ends_it_with_all_it_started(self):
        for end in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(end):
                self.ended_by(end)

    def ended_by(self, end_signal):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "demo"
            command = [HARPE, "demo", "--out", out]
            demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(demo.kill)
            end = time.monotonic() + 60
            while not (out / "trainer.log").exists():
                self.assertLess(time.monotonic(), end, "no training has begun")
                time.sleep(0.1)
            stored = (out / "jobs.db").stat().st_ino
            second = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"another demonstration runs in {out}", second.stderr)
            self.assertEqual((out / "jobs.db").stat().st_ino, stored)
            self.assertGreater(len(processes.naming(out)), 2)
            demo.send_signal(end_signal)
            said = demo.communicate(timeout=30)[1]
            self.assertEqual(demo.returncode, 128 + end_signal, said)
            self.assertNotIn("Traceback", said)
            end = time.monotonic() + 20
            while processes.naming(out):
                self.assertLess(time.monotonic(), end, processes.naming(out))
                time.sleep(0.1)

    def test_the_folder_of_a_killed_one_is_removed_by_the_next_once_its_processes_have_ended(self):
        killed = ("import os, pathlib, signal, sys; sys.path.insert(0, sys.argv[1]); import demo_cluster\n"
                  "with demo_cluster.temporary_folder() as folder:\n"
                  "    program = pathlib.Path('cat')\n"
                  "    demo_cluster.DemoCluster(program, program, folder).start('child', ['cat'])\n"
                  "    os.kill(os.getpid(), signal.SIGKILL)\n")
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(tempfile, "tempdir", name):
            with subprocess.Popen([sys.executable, "-c", killed, sys.path[0]], stdin=subprocess.PIPE,
                                  env={**os.environ, "TMPDIR": name}) as demo:
                demo.wait(30)
                self.assertEqual(len(self.left(name)), 1)
            end = time.monotonic() + 20
            while self.left(name):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)

    def left(self, parent):
        """Returns what another demonstration finds next to its own folder."""
        with demo_cluster.temporary_folder() as own:
            return [path for path in pathlib.Path(parent).iterdir() if path != pathlib.Path(own)]

    def test_it_says_how_far_the_job_is_and_what_to_do_where_that_takes_too_long(self):
        status = {"phase": "running", "newest_iteration": 54, "characterization": {"fraction": 0.266}, "version": 3}
        self.assertEqual(demo_cluster.progress(status),
                         "running, iteration 54 by first plans, 27 % of the search for better ones done")
        self.assertEqual(demo_cluster.progress({**status, "phase": "profiling"}), "profiling, iteration 54, 27 % planned")
        self.assertEqual(demo_cluster.progress({**status, "characterization": None}), "running, iteration 54")
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(demo_cluster, "LONGEST_S", 0):
            cluster = demo_cluster.DemoCluster.__new__(demo_cluster.DemoCluster)
            cluster.folder = pathlib.Path(name)
            cluster.status = lambda: status
            with self.assertRaises(SystemExit) as ended:
                cluster.wait_for_plans()
            self.assertRegex(ended.exception.code, r"^no result: waited \d s for the best plans ")
            self.assertIn("\nRun it again where little else runs", ended.exception.code)
            self.assertNotIn("{", ended.exception.code)
            self.assertIn("0.266", (cluster.folder / "status.json").read_text())

    def test_the_page_dates_what_happened_and_says_who_did_it(self):
        demo = run_demo.Demo.__new__(run_demo.Demo)
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        demo.begin = {(0, 0, iteration): 1000 + 0.5 * iteration for iteration in range(10)}
        demo.done = [(boot + 1001.2, "pipeline 1 is slowed down")]
        found = demo.dated([{"at": boot + 999.0, "text": "all 8 ranks have registered"},
                            {"at": boot + 1001.1, "text": "pipeline 1 is declared to be slower"},
                            {"at": boot + 1003.1, "text": "plan of 0.75 s: the objective is now: slowdown 5 %"}])
        self.assertEqual([(one["iteration"], one["by"]) for one in found],
                         [(None, ""), (2, "This demonstration:"), (2, ""), (6, "A user has set the objective:")])
        self.assertEqual([round(one["at_s"], 1) for one in found], [-1.0, 1.2, 1.1, 3.1])

    def test_an_objective_of_a_user_names_the_phase_that_it_holds_in(self):
        for objective, text in (({"slowdown": 0}, None), ({"slowdown": 0.05}, "slowdown 5 %"), ({"power_cap_w": 900}, "power cap 900 W"),
                                ({"least_energy": True}, "least energy")):
            self.assertEqual(demo_report.objective_text(objective), text)
        self.assertEqual(demo_report.name_of("recovered", {"objective": None}), "recovered")
        self.assertEqual(demo_report.name_of("recovered", {"objective": "slowdown 5 %"}), "objective slowdown 5 %")
        self.assertEqual(demo_report.name_of("straggling", {"objective": "slowdown 5 %"}), "while pipeline 1 straggles, slowdown 5 %")

    def test_grams_of_the_hours_add_up_to_those_of_the_day(self):
        grid = run_carbon_demo.Grid([(100 + run_carbon_demo.HOUR_S * hour, 100 * (hour + 1)) for hour in range(4)])
        draws = [(102, 109, 7e6), (109, 116, 1e6)]
        hours = run_carbon_demo.grams_of_hours(grid, draws)
        self.assertEqual(len(hours), 4)
        self.assertAlmostEqual(hours[0], 3e6 / 3.6e6 * 100)
        self.assertAlmostEqual(sum(hours), sum(grid.grams(*draw) for draw in draws))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
