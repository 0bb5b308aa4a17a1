#!/usr/bin/env python3
"""`harpe profile measure` with a real training on simulated GPUs: the profile that it writes can be planned with, what it
says where there is none, and that nothing of its server and agent is left. Usage: profile_measure_test.py HARPE TRAINER"""

import csv
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import processes

HARPE = TRAINER = None
GPUS = '[[gpu]]\nmodel = "a100-sxm"\ncount = 2\ncall_ms = 1\nswitch_ms = 5\n'
QUICKLY = ["--clocks", "2", "--lowest-clock", "1000", "--max-slowdown", "1000%"]
LONG = 100_000  # iterations, never reached in a test


class ProfileMeasureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.simulation = self.folder / "sim.toml"
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n{GPUS}')
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary)}
        for name in ("HARPE_CLOCK_SOCKET", "HARPE_JOB", "HARPE_SERVER"):
            self.environment.pop(name, None)

    def training(self, iterations, forward_s=0.005):
        return [TRAINER, "--simulation", self.simulation, "--data", "1", "--stages", "2", "--micro-batches", "2",
                "--forward-s", str(forward_s), "--iterations", str(iterations)]

    def command(self, *options, training):
        return [HARPE, "profile", "measure", "--simulate", self.simulation, *options, "--", *training]

    def measure(self, *options, training):
        run = subprocess.run(self.command(*options, training=training), env=self.environment, capture_output=True, text=True,
                             cwd=self.folder, timeout=120)
        self.assertEqual(list(self.temporary.iterdir()), [], "left behind")
        return run

    def files(self):
        return sorted(file.name for file in self.folder.iterdir() if file.name.startswith("profile"))

    def wait_for(self, holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, "it did not come")
            time.sleep(0.02)

    def test_a_profile_is_measured_and_planned_with(self):
        run = self.measure("--stop", "--json", *QUICKLY, training=self.training(LONG, forward_s=0.01))
        self.assertEqual(run.returncode, 0, run.stderr)
        report = json.loads(run.stderr)
        self.assertTrue(report["complete"] and report["synthetic"], report)
        self.assertEqual(len(report["blocking_power_w"]), 2)
        self.assertEqual(self.files(), ["profile.csv"])
        lines = (self.folder / "profile.csv").read_text().splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        times = {(row["stage"], row["instruction"], int(row["frequency"])): float(row["time"]) for row in rows}
        self.assertEqual(len(times), 8)
        for (stage, instruction, clock), time_s in times.items():
            if clock < 1410:
                self.assertGreater(time_s, times[stage, instruction, 1410])
        plan = subprocess.run([HARPE, *report["plan"][1:-2], "--json"], cwd=self.folder, capture_output=True, text=True,
                              check=True, timeout=60)
        document = json.loads(plan.stdout)
        self.assertTrue(document["synthetic"])
        plans = document["plans"]
        # On a busy machine the energies of such short instructions may be so noisy that no clock below the highest
        # saves energy.
        self.assertLessEqual(plans["least_energy"]["iteration_energy_j"], plans["all_max"]["iteration_energy_j"])

    def test_without_an_agent_each_instruction_is_measured_at_the_clock_that_is_there(self):
        run = self.measure("--as-is", "--stop", "--json", training=self.training(LONG, forward_s=0.01))
        self.assertEqual(run.returncode, 0, run.stderr)
        report = json.loads(run.stderr)
        self.assertEqual((report["complete"], report["clocks_were_set"], "plan" in report), (True, False, False), report)
        text = (self.folder / "profile.csv").read_text()
        self.assertIn("No clock was set", text)
        rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
        self.assertEqual([(row["stage"], row["instruction"]) for row in rows],
                         [(stage, kind) for stage in "01" for kind in ("forward", "backward")])
        self.assertEqual(len({(row["stage"], row["frequency"]) for row in rows}), 2)
        for row in rows:
            # Below the highest clock, since a power limit throttles the GPU.
            self.assertIn(int(row["frequency"]), range(1200, 1411))
            self.assertGreater(float(row["energy"]), 0)
        subprocess.run([HARPE, "profile", "check", self.folder / "profile.csv"], check=True, capture_output=True)

    def test_what_was_measured_at_one_clock_is_not_said_to_be_enough_for_a_plan(self):
        run = self.measure("--as-is", training=self.training(300))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("measuring at the present clock of the GPUs: no clock is set", run.stderr)
        self.assertIn("A plan needs several clocks", run.stderr)
        self.assertNotIn("harpe plan", run.stderr)
        self.assertNotIn("all-max", run.stderr)

    def test_a_clock_that_was_set_before_stays_and_is_the_one_that_is_read(self):
        self.agent("clocks_mhz = [210, 1410]\n")
        subprocess.run([HARPE, "clock", "set", "1005", "--gpus", "all", "--socket", self.folder / "agent.sock"], check=True,
                       capture_output=True, timeout=60)
        run = self.measure("--as-is", "--stop", training=self.training(LONG))
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = csv.DictReader(line for line in (self.folder / "profile.csv").read_text().splitlines() if line[0] != "#")
        self.assertEqual({row["frequency"] for row in rows}, {"1005"})

    def test_training_goes_on_and_keeps_its_output_and_status(self):
        shell = ["sh", "-c", '"$@" && echo trained && exit 3', "sh", *self.training(300)]
        (self.folder / "profile.latency.csv").write_text("frequency,latency\n1410,0.01\n")
        self.environment["TRAINER_SWITCH_LATENCY_S"] = "0"
        run = self.measure(*QUICKLY, training=shell)
        self.assertEqual((run.returncode, run.stdout), (3, "trained\n"), run.stderr)
        self.assertIn("training continues at all-max", run.stderr)
        self.assertIn("next: harpe plan --profile ", run.stderr)
        self.assertIn("note: profile.latency.csv existed before; harpe plan uses its latencies", run.stderr)
        self.assertEqual(self.files(), ["profile.csv", "profile.latency.csv"])

    def test_training_that_ends_too_soon_leaves_what_there_is(self):
        (self.folder / "profile.csv").write_text("from before\n")
        run = self.measure("--max-slowdown", "1000%", training=self.training(90))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, r"there is no profile: \d+ of 24 clocks are measured, about \d+ iterations more")
        self.assertEqual(self.files(), ["profile.csv", "profile.partial.csv"])
        self.assertEqual((self.folder / "profile.csv").read_text(), "from before\n")
        subprocess.run([HARPE, "profile", "check", self.folder / "profile.partial.csv"], check=True, capture_output=True)

    def test_a_script_without_harpe_is_told_how(self):
        run = self.measure(training=["true"])
        self.assertEqual((run.returncode, self.files()), (1, []), run.stderr)
        self.assertIn("no rank has registered", run.stderr)
        self.assertIn("harpe.torch_pipelining", run.stderr)
        self.assertEqual(self.measure(training=["./none"]).returncode, 127)

    def agent(self, rights, gpus='["*"]'):
        """Starts an agent for the node. The caller passes its clock socket."""
        policy = self.folder / "policy.toml"
        policy.write_text(f'[[allow]]\nusers = ["*"]\ngpus = {gpus}\nread = true\n{rights}')
        policy.chmod(0o600)
        clocks = self.folder / "clock.sock"
        agent = subprocess.Popen([HARPE, "agent", "--policy", policy, "--simulate", self.simulation, "--socket",
                                  self.folder / "agent.sock", "--clock-socket", clocks, "--log", self.folder / "log"],
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)
        self.wait_for(clocks.exists)
        self.environment["HARPE_CLOCK_SOCKET"] = str(clocks)

    def test_what_the_policy_refuses_ends_it_before_training(self):
        self.agent("")
        run = self.measure(*QUICKLY, training=["touch", self.folder / "begun"])
        self.assertFalse((self.folder / "begun").exists())
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertIn("the policy does not allow you to set the clocks of any GPU", run.stderr)
        self.assertIn("clocks_mhz = ", run.stderr)

    def test_what_the_policy_refuses_of_one_gpu_is_said(self):
        self.agent("clocks_mhz = [210, 1410]\n", "[0]")
        run = self.measure(*QUICKLY, training=self.training(60))
        self.assertEqual((run.returncode, self.files()), (1, []), run.stderr)
        self.assertRegex(run.stderr, "harpe: warning: clocks are not set at stage 1 of pipeline 0")
        self.assertRegex(run.stderr, "clocks cannot be set: .*policy")
        self.assertIn("there is no profile: no clock was set", run.stderr)

    def test_what_cannot_work_is_refused_before_training_begins(self):
        begun = self.folder / "begun"
        self.environment["HARPE_CLOCK_SOCKET"] = str(self.folder / "none.sock")
        for options, said in ((["--out", "none/p.csv"], "No such file or directory"), (["--max-slowdown", "0"], "above 0"),
                              (["--clocks", "1"], "--clocks"), (["--as-is", "--clocks", "3"], "exclude each other"),
                              (["--tcp", "nowhere"], "the server"), ([], "no agent listens")):
            run = self.measure(*options, training=["touch", begun])
            self.assertNotEqual(run.returncode, 0, options)
            self.assertIn(said, run.stderr)
            self.assertFalse(begun.exists(), options)

    def test_training_that_is_only_to_be_observed_is_not_profiled(self):
        self.environment["HARPE_OBSERVE"] = "1"
        run = self.measure(*QUICKLY, training=self.training(5))
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("HARPE_OBSERVE=1 forbids setting clocks", run.stderr)

    def test_a_killed_command_leaves_neither_server_nor_agent_nor_for_long_its_files(self):
        where = self.folder / "where"
        shell = ["sh", "-c", f'echo "$HARPE_SERVER" >{where}.new; mv {where}.new {where}; exec sleep 100']
        run = subprocess.Popen(self.command(training=shell), env=self.environment, stderr=subprocess.DEVNULL,
                               cwd=self.folder, start_new_session=True)
        self.addCleanup(run.wait)
        self.addCleanup(os.killpg, run.pid, signal.SIGKILL)
        self.wait_for(where.exists)
        port = int(where.read_text().rpartition(":")[2])
        self.wait_for(lambda: self.connects(port))
        self.assertEqual(len(processes.naming(self.temporary)), 1, "the agent")
        run.kill()
        self.wait_for(lambda: not self.connects(port))
        self.wait_for(lambda: not processes.naming(self.temporary))
        os.killpg(run.pid, signal.SIGKILL)  # the training, which used the clocks
        self.wait_for(lambda: self.measure_nothing() == [])

    def measure_nothing(self):
        """Measures nothing, and returns the remaining processes."""
        subprocess.run(self.command(training=["true"]), env=self.environment, capture_output=True, cwd=self.folder, timeout=120)
        return list(self.temporary.iterdir())

    @staticmethod
    def connects(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    HARPE, TRAINER = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    unittest.main(argv=["test", "-v"])
