#!/usr/bin/env python3
"""A real training with PyTorch (on the CPU, its work mirrored on a simulated GPU), in each of the ways that choose a
clock or power limit while it runs: with harpe.PowerOptimizer, under `harpe run --optimize`, with Zeus's own optimizer
through the agent, and in two processes that agree. Each saves by the device's own counter, computes the same, and leaves
all as it was. Usage: power_optimizer_test.py HARPE FOLDER_OF_NVML_LIBRARY VENV FOLDER_OF_PYTHON_PACKAGE"""

import json
import os
import pathlib
import socket
import subprocess
import sys

import agent_process

# PyTorch from Debian's package, for Debian's interpreter.
PYTHON = "/usr/bin/python3"
HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "train_power_limit.py"
NVML, VENV, PACKAGE = (pathlib.Path(argument).resolve() for argument in (sys.argv[2:5] or ["", "", ""]))
GPUS = ('[[gpu]]\nmodel = "a40"\ncount = 2\ngain = 1.0\nswitch_ms = 10\ncall_ms = 1\nslow_pair_share = 0.0\n'
        "slow_target_share = 0.0\n")
POLICY = ('[[allow]]\nusers = ["*"]\ngpus = ["*"]\nread = true\nmax_lease_s = 3600\npersistence_mode = true\n'
          "clocks_mhz = [210, 1740]\npower_limit_w = [100, 300]\n")
# More steps than profiling may take (300, if steps vary on a busy machine), so that a setting is always chosen.
EPOCHS, STEPS, SECONDS = 3, 110, 0.06
# The noise of steps on a busy machine is some percent, so a choice within 3 % would be too cautious.
MOST_SLOWDOWN = 0.08


class PowerOptimizerTest(agent_process.AgentTest):
    """Runs the training at all-max once for all cases."""

    highest = None

    def setUp(self):
        super().setUp()
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n{GPUS}')
        self.write("policy.toml", POLICY)
        self.environment = dict(os.environ, HARPE_SIMULATION=str(self.simulation), LD_LIBRARY_PATH=str(NVML),
                                HARPE_AGENT_SOCKET=str(self.socket), ZEUSD_SOCK_PATH=str(self.socket),
                                PYTHONPATH=f"{NVML}:{PACKAGE}", TMPDIR=str(self.folder), CUDA_VISIBLE_DEVICES="0",
                                OMP_NUM_THREADS="1")
        self.start()
        if PowerOptimizerTest.highest is None:
            PowerOptimizerTest.highest = self.said(self.train("none"))

    def command(self, *options):
        if options and options[0] in ("none", "harpe", "steps", "zeus"):
            return [PYTHON, EXAMPLE, "--epochs", str(EPOCHS), "--steps-per-epoch", str(STEPS), "--seconds",
                    str(SECONDS), "--max-slowdown", str(MOST_SLOWDOWN), "--optimizer", *options]
        return super().command(*options)

    def train(self, *options, before=(), **variables):
        run = subprocess.run([*before, *self.command(*options)], env={**self.environment, **variables},
                             capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def said(self, run):
        return json.loads(run.stdout.splitlines()[-1])

    def check_it_saved(self, trained, most_joules, most_seconds, explanation):
        """Checks savings by the simulation's own figures, profiling included, and that the computation is the same."""
        self.assertEqual(trained["loss"], self.highest["loss"])
        self.assertLess(trained["joules"], most_joules * self.highest["joules"], explanation)
        self.assertLess(trained["seconds"], most_seconds * self.highest["seconds"], explanation)

    def check_all_is_restored(self):
        for gpu in (0, 1):
            self.wait_for(lambda gpu=gpu: self.ask("GET", f"/v1/gpus/{gpu}").json()["locked_clocks_mhz"] == [])
        self.assertEqual(self.ask("GET", "/v1/leases").json()["leases"], [])
        self.assertEqual(self.limits(), [300, 300])

    def check_the_claim(self, report, saved):
        """Checks that a setting was chosen, and that the claimed saving is true."""
        self.assertTrue(report["decided"], report)
        self.assertIsNone(report["failure"])
        self.assertEqual(report["knob"], "clock_mhz")
        self.assertLess(report["choice"], 1740)
        # The measurement over a few tens of steps may be off by a percent.
        self.assertLess(report["slowdown"], MOST_SLOWDOWN + 0.01)
        self.assertAlmostEqual(report["saved_j"], saved, delta=report["saved_error_j"] + 0.03 * report["at_highest_j"])

    def test_a_callback_saves_and_says_truly_how_much(self):
        run = self.train("harpe")
        trained = self.said(run)
        self.check_it_saved(trained, 0.95, 1 + MOST_SLOWDOWN + 0.03, run.stdout)
        self.check_the_claim(trained["report"], self.highest["joules"] - trained["joules"])
        self.check_all_is_restored()

    def test_a_command_that_writes_lines_saves_as_much(self):
        out = self.folder / "report.json"
        run = self.train("steps", before=[self.harpe, "run", "--out", out, "--optimize", "energy", "--max-slowdown",
                                          f"{MOST_SLOWDOWN:.0%}", "--"])
        trained = self.said(run)
        self.assertIn("MHz was chosen", run.stderr)
        self.check_it_saved(trained, 0.95, 1 + MOST_SLOWDOWN + 0.03, run.stderr)
        report = json.loads(out.read_text())["optimize"]
        self.assertEqual((report["steps"], report["epochs"]), (EPOCHS * STEPS, EPOCHS))
        self.check_the_claim(report, self.highest["joules"] - trained["joules"])
        self.check_all_is_restored()
        self.assertEqual(list(self.folder.glob("harpe-steps-*")), [])

    def test_zeus_own_optimizer_saves_through_the_agent(self):
        site = next((VENV / "lib").glob("python3*/site-packages"), None)
        if site is None or subprocess.run([PYTHON, "-c", "import zeus"], capture_output=True, env={
                **self.environment, "PYTHONPATH": f"{HERE / 'sklearn_stand_in'}:{site}"}).returncode != 0:
            self.skipTest("Debian's interpreter cannot import what scripts/install-dependencies.sh installs for another")
        run = self.train("zeus", PYTHONPATH=f"{NVML}:{PACKAGE}:{HERE / 'sklearn_stand_in'}:{site}")
        # It measures all limits, down to the lowest, before it chooses.
        self.check_it_saved(self.said(run), 0.98, 1.5, run.stderr)
        self.check_all_is_restored()

    def test_two_processes_agree_on_one_clock(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ranks = [subprocess.Popen(self.command("harpe"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            **self.environment, "CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": "2", "RANK": str(rank),
            "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in (0, 1)]
        said = []
        for rank in ranks:
            out, errors = rank.communicate(timeout=300)
            self.assertEqual(rank.returncode, 0, errors)
            said.append(json.loads(out.splitlines()[-1]))
        for trained in said:
            self.assertLess(trained["joules"], 0.95 * self.highest["joules"], trained)
            self.assertTrue(trained["report"]["decided"], trained)
            self.assertEqual(trained["report"]["choice"], said[0]["report"]["choice"])
            self.assertEqual(trained["report"]["all_processes"], said[0]["report"]["all_processes"])
        self.assertGreater(said[0]["report"]["all_processes"]["saved_j"], said[0]["report"]["saved_j"] * 0.5)
        self.check_all_is_restored()

    def test_without_an_agent_it_trains_measures_and_advises(self):
        self.stop()
        run = self.train("harpe")
        trained = self.said(run)
        self.assertEqual(trained["loss"], self.highest["loss"])
        self.assertIn("no agent listens", trained["report"]["why_nothing_was_set"])
        self.assertLess(trained["report"]["advice"]["power_limit_w"], 300)
        self.assertIn("a model fitted to other jobs expects", run.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        print(f"{PYTHON} has no torch")
        sys.exit(77)
    agent_process.run(sys.argv[1])
