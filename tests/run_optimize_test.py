#!/usr/bin/env python3
"""`harpe run --optimize` with a real agent on simulated GPUs: what it chooses, that energy falls by the devices' own
account and time stays within the promise, and that everything is as before afterwards, also where harpe is killed. That
clocks go first is in power_optimizer_test.py. Usage: run_optimize_test.py HARPE FOLDER (of the simulated NVML)"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import agent_process

NVML = None  # the folder of the simulated library
GPU = '[[gpu]]\nmodel = "a40"\ncount = 1\ngain = 1.0\nswitch_ms = 10\ncall_ms = 1\nslow_pair_share = 0.0\n' \
      'slow_target_share = 0.0\n'
RIGHTS = '[[allow]]\nusers = ["*"]\ngpus = ["*"]\nread = true\nmax_lease_s = 3600\n'
# Median seconds and joules of a step, measured by the simulation, over the 80 steps of least power among the last 150:
# checks of the highest setting may take 50 of those. A median, because a step that the machine delays has the least
# power.
TRAIN = """
import os, statistics, sys, harpe_sim
seen = []
with open(os.environ.get("HARPE_STEPS", "/dev/null"), "a") as file:
    for step in range(int(sys.argv[1])):
        before = harpe_sim.truth(0)
        print(file=file, flush=True)
        harpe_sim.run(0, seconds=0.08, memory_bound=0.6)
        after = harpe_sim.truth(0)
        seen.append((after.time - before.time, after.energy - before.energy))
least = sorted(seen[-150:], key=lambda one: one[1] / one[0])[:80]
print(*(statistics.median(values) for values in zip(*least)))
"""


class RunOptimizeTest(agent_process.AgentTest):
    def setUp(self):
        super().setUp()
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n{GPU}')
        self.environment = dict(os.environ, HARPE_SIMULATION=str(self.simulation), LD_LIBRARY_PATH=str(NVML),
                                PYTHONPATH=str(NVML), HARPE_AGENT_SOCKET=str(self.socket), TMPDIR=str(self.folder))
        self.train = [sys.executable, self.write("train.py", TRAIN)]

    def allow(self, rights):
        self.write("policy.toml", RIGHTS + rights)
        self.start()

    def optimize(self, *options, command):
        out = self.folder / "report.json"
        run = subprocess.run([self.harpe, "run", "--out", out, "--optimize", *options, "--", *command],
                             env=self.environment, capture_output=True, text=True, timeout=300)
        return run, json.loads(out.read_text())["optimize"]

    def trained(self, steps):
        """Returns the figures without Harpe."""
        run = subprocess.run([*self.train, str(steps)], env=self.environment, capture_output=True, text=True,
                             check=True)
        return [float(word) for word in run.stdout.split()]

    def reading(self):
        return self.ask("GET", "/v1/gpus/0").json()

    def check_all_is_restored(self):
        self.assertEqual(self.ask("GET", "/v1/leases").json()["leases"], [])
        self.assertEqual(self.reading()["locked_clocks_mhz"], [])
        self.assertEqual(self.limits(), [300])

    def check_saving(self, run, seen, most_slowdown):
        """Checks that the chosen setting saves, also by the true values of the simulation."""
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIsNone(seen["failure"], run.stderr)
        self.assertTrue(seen["decided"], run.stderr)
        self.assertGreater(seen["saved_j"], seen["saved_error_j"])
        seconds, joules = self.trained(100)
        tuned_seconds, tuned_joules = [float(word) for word in run.stdout.split()]
        self.assertLess(tuned_joules, 0.95 * joules, run.stderr)
        # Half a percent for the error of windows of a few tens of steps.
        self.assertLess(tuned_seconds, (1 + most_slowdown + 0.005) * seconds, run.stderr)
        highest = seen["settings"][0]
        self.assertAlmostEqual(highest["energy_j"], joules, delta=0.03 * joules)

    def test_a_limit_is_chosen_within_what_the_policy_allows(self):
        self.allow("power_limit_w = [200, 260]\n")
        profiles = self.folder / "profiles"
        options = ["energy", "--host-power", "20W", "--job", "training", "--profile", f"{profiles}/"]
        run, seen = self.optimize(*options, "--batch-size", "64", command=[*self.train, "300"])
        self.assertEqual(seen["knob"], "power_limit_w")
        for setting in seen["settings"][1:]:
            self.assertTrue(200 <= setting["setting"] <= 260, setting)
        self.assertTrue(200 <= seen["choice"] <= 260, seen)
        self.check_saving(run, seen, seen["slowdown"])
        self.check_all_is_restored()
        # Measurements with one batch size are used for another, and stored next to it.
        _, other = self.optimize(*options, "--batch-size", "32", command=[*self.train, "200"])
        self.assertTrue(other["decided"] and not other["from_profile"], other)
        self.assertEqual(sorted(file.name for file in profiles.iterdir()), ["batch-32.json", "batch-64.json"])

    def test_a_profile_is_used_again_for_the_same_command_alone(self):
        self.allow("clocks_mhz = [210, 1740]\n")
        profile = self.folder / "profile.json"
        options = ["energy", "--max-slowdown", "5%", "--profile", profile]
        _, first = self.optimize(*options, command=[*self.train, "360"])
        self.assertTrue(first["decided"] and profile.exists(), first)
        run, again = self.optimize(*options, command=[*self.train, "360"])
        self.assertTrue(again["from_profile"], run.stderr)
        self.assertEqual(again["profilings"], 0)
        run, other = self.optimize(*options, command=[*self.train, "61"])
        self.assertFalse(other["from_profile"])
        self.assertIn("was not reused", run.stderr)
        profile.write_text("{")
        refused = subprocess.run([self.harpe, "run", "--optimize", *options, "--", "touch", self.folder / "ran"],
                                 env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 2)
        self.assertFalse((self.folder / "ran").exists())

    def test_a_second_optimizer_on_a_gpu_is_refused_with_the_first_ones_process_id(self):
        # The agent grants one user the limits of a GPU in addition to another lease of its clocks.
        self.allow("clocks_mhz = [210, 1740]\npower_limit_w = [200, 260]\n")
        first = subprocess.Popen([self.harpe, "run", "--optimize", "energy", "--", *self.train, "2000"],
                                 env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        self.addCleanup(first.wait)
        self.addCleanup(os.killpg, first.pid, signal.SIGKILL)
        self.wait_for(lambda: self.reading()["locked_clocks_mhz"], 60)
        run, seen = self.optimize("energy", command=["true"])
        self.assertIn(f"pid {first.pid}", seen["why_nothing_was_set"], run.stderr)

    def test_lines_that_are_not_flushed_are_recognised_and_nothing_is_claimed(self):
        self.allow("clocks_mhz = [210, 1740]\n")
        unflushed = self.write("unflushed.py", TRAIN.replace(", flush=True", ""))
        run, seen = self.optimize("energy", command=[sys.executable, unflushed, "100"])
        self.assertIn("steps arrive in bursts", run.stderr)
        self.assertEqual(seen["saved_j"], 0, run.stderr)

    def test_thirty_million_lines_at_once_claim_nothing(self):
        self.allow("clocks_mhz = [210, 1740]\n")
        flood = TRAIN.replace("        print(file", "        file.write(chr(10) * (30_000_000 if step == 50 else 0))\n"
                                                   "        print(file")
        run, seen = self.optimize("energy", command=[sys.executable, self.write("flood.py", flood), "100"])
        self.assertGreater(seen["refused_lines"], 0, run.stderr)
        self.assertLess(seen["saved_j"], 1400, run.stderr)
        self.assertLess(seen["steps"], 1_000_000)

    def test_a_killed_harpe_leaves_nothing_set(self):
        self.allow("clocks_mhz = [210, 1740]\n")
        harpe = subprocess.Popen([self.harpe, "run", "--optimize", "energy", "--", *self.train, "2000"],
                                 env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        self.addCleanup(harpe.wait)
        self.addCleanup(os.killpg, harpe.pid, signal.SIGKILL)
        self.wait_for(lambda: self.reading()["locked_clocks_mhz"], 60)
        harpe.kill()
        self.wait_for(lambda: self.reading()["locked_clocks_mhz"] == [])
        self.check_all_is_restored()

    def check_advice(self, seen, run, why):
        self.assertEqual(run.returncode, 3)
        self.assertIn(why, seen["why_nothing_was_set"])
        self.assertTrue(run.stderr.startswith("harpe run: nothing is set during this run: "), run.stderr)
        self.assertIsNone(seen["choice"])
        self.assertEqual(seen["saved_j"], 0)
        self.assertEqual(len(seen["settings"]), 1)
        self.assertLess(seen["advice"]["power_limit_w"], 300)
        self.assertIn("harpe limit set", run.stderr)

    def test_without_an_agent_or_its_leave_it_measures_and_advises(self):
        command = ["sh", "-c", f"'{self.train[0]}' '{self.train[1]}' 60; exit 3"]
        run, seen = self.optimize("energy", command=command)
        self.check_advice(seen, run, "no agent listens on")
        self.allow("")
        run, seen = self.optimize("energy", command=command)
        self.check_advice(seen, run, "policy")
        self.check_all_is_restored()

    def test_a_command_that_reports_no_steps_is_told_how(self):
        self.allow("clocks_mhz = [210, 1740]\n")
        run, seen = self.optimize("energy", command=["sleep", "1"])
        self.assertEqual((seen["steps"], seen["choice"]), (0, None))
        self.assertIn("No step was recorded", run.stderr)
        self.check_all_is_restored()

    def test_options_that_go_with_another_are_refused_without_it(self):
        for wrong in (["--max-slowdown", "3%"], ["--optimize", "energy", "--eta", "0.3"],
                      ["--optimize", "speed"], ["--optimize", "cost", "--eta", "2"]):
            run = subprocess.run([self.harpe, "run", *wrong, "--", "true"], env=self.environment,
                                 capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 2, wrong)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    NVML = pathlib.Path(sys.argv[2]).resolve()
    agent_process.run(sys.argv[1])
