#!/usr/bin/env python3
"""Zeus's power limit optimizer, as it is on PyPI, trains on simulated GPUs through the agent: what it sets at which step,
what it chooses, and what is left when it ends. Its windows are a fifth of the usual ones (2 steps of warm-up and 8 of
profiling in place of 10 and 40). Usage: zeus_power_limit_test.py HARPE FOLDER_OF_NVML_LIBRARY VENV LIMIT_PROFILE_CHOICE"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import agent_process
from agent_process import AgentTest

HARPE, LIBRARY, VENV, CHOICE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
PYTHON = VENV / "bin" / "python"
if not PYTHON.exists():
    print(f"{PYTHON} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)
HERE = pathlib.Path(__file__).resolve().parent
STAND_INS = f"{HERE / 'torch_stand_in'}:{HERE / 'sklearn_stand_in'}"

# If this test runs as root, trainings run as a user without rights to set a GPU.
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
GPUS = '[[gpu]]\nmodel = "a40"\ncount = 2\ncounter_step_ms = 5\ncall_ms = 2\n[[cpu]]\ncount = 1\n'
POLICY = ('[[allow]]\nusers = ["*"]\ngpus = ["*"]\nread = true\npersistence_mode = true\n'
          "power_limit_w = [{}, {}]\nmax_lease_s = {}\n")
LIMITS = list(range(300, 99, -25))

# Trains epochs of steps; prints each change of a limit of its GPUs, with its step.
TRAINING = textwrap.dedent("""
    import json, sys, threading
    import harpe_sim
    from zeus.device import get_gpus
    from zeus.monitor import ZeusMonitor
    from zeus.optimizer.power_limit import Energy, GlobalPowerLimitOptimizer, MaxSlowdownConstraint, Time, ZeusCost

    def main():
        gpus, epochs, steps_per_epoch, step_s, hold, log, profile = json.loads(sys.argv[1])
        monitor = ZeusMonitor(gpu_indices=gpus, log_file=log)
        optimizer = GlobalPowerLimitOptimizer(monitor, warmup_steps=2, profile_steps=8, profile_path=profile)
        last = None

        def look(step, at="begin"):
            nonlocal last
            limits = [get_gpus().get_power_management_limit(gpu) // 1000 for gpu in gpus]
            if limits != last:
                print(json.dumps([step, at, limits]), flush=True)
            last = limits

        look(0)
        step = 0
        for epoch in range(epochs):
            for _ in range(steps_per_epoch):
                step += 1
                optimizer.on_step_begin()
                look(step)
                if step == hold:
                    input()
                works = [threading.Thread(target=harpe_sim.run, args=(gpu, step_s)) for gpu in gpus]
                for work in works:
                    work.start()
                for work in works:
                    work.join()
            optimizer.on_epoch_end()
            look(step, "end")
        found = optimizer.measurements
        choices = [["energy", 0.5, Energy().select(found)], ["time", 0.5, Time().select(found)]]
        choices += [["cost", eta, ZeusCost(eta, len(gpus)).select(found)] for eta in (0, 0.25, 0.5, 0.75, 1)]
        choices += [["slowdown", factor, MaxSlowdownConstraint(factor).select(found)] for factor in (1, 1.1, 1.5)]
        print(json.dumps({"choice": optimizer.state.optimal_power_limit // 1000, "choices": choices,
                          "measurements": [[one.power_limit, one.energy, one.time] for one in found]}), flush=True)

    if __name__ == "__main__":
        main()
""")


def one_long_epoch(choice):
    """Returns the limits of Zeus in an epoch that is long enough for all limits: a limit every 50 steps from the second
    on."""
    return [(0, "begin", 300)] + [(2 + 10 * k, "begin", watts) for k, watts in enumerate([*LIMITS[1:], choice], 1)]


def short_epochs(choice):
    """Returns the limits of Zeus in epochs of 100 steps: each measures one limit, and the window of the next is lost at
    its end."""
    calls = [(0, "begin", 300), (12, "begin", 275)]
    for epoch, watts in enumerate(LIMITS[1:], 1):
        following = [*LIMITS, choice][epoch + 1]
        calls += [(20 * epoch, "end", 300), (20 * epoch + 1, "begin", watts), (20 * epoch + 11, "begin", following)]
    return calls


class ZeusPowerLimit(AgentTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.work.chmod(0o777)
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n{GPUS}' if not NOBODY else
                                   f'state_file = "{self.folder}/state"\nset = "root"\nshared_by = "everyone"\n{GPUS}')
        self.simulation.chmod(0o644)
        self.allow()
        self.script = self.folder / "training.py"
        self.script.write_text(TRAINING)
        self.profile = self.work / "profile.json"
        self.log = self.work / "windows.csv"

    def allow(self, lowest=100, highest=300, lease_s=3600):
        self.policy.write_text(POLICY.format(lowest, highest, lease_s))

    def direct(self, *words):
        subprocess.run([self.harpe, *words, "--direct", "--simulate", self.simulation], check=True, capture_output=True)

    def persistence(self):
        modes = self.ask("GET", "/gpu/get_persistence_mode").json()
        return [modes[gpu]["enabled"] for gpu in sorted(modes)]

    def train(self, gpus=(0,), epochs=1, steps_per_epoch=92, step_s=0.003, hold=None, log=None, profile=None):
        """`hold`: the step that waits for a line of input, or for its end."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY), "PYTHONPATH": f"{STAND_INS}:{LIBRARY}",
                       "PYTHONDONTWRITEBYTECODE": "1", "HARPE_SIMULATION": str(self.simulation),
                       "ZEUSD_SOCK_PATH": str(self.socket)}
        how = [list(gpus), epochs, steps_per_epoch, step_s, hold, log and str(log), profile and str(profile)]
        process = subprocess.Popen([PYTHON, self.script, json.dumps(how)], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **NOBODY)
        self.addCleanup(self.kill, process)
        return process

    def kill(self, process):
        process.kill()
        process.wait(30)
        for stream in process.stdin, process.stdout, process.stderr:
            stream.close()

    def finish(self, process):
        """Returns the limits that it set, and its result."""
        out, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, err)
        *calls, found = map(json.loads, out.splitlines())
        for _, _, limits in calls:
            self.assertEqual(len(set(limits)), 1, "all GPUs have the same limit")
        return [(step, at, limits[0]) for step, at, limits in calls], found

    def until(self, process, watts):
        """Reads output until the training has set this limit."""
        for line in process.stdout:
            if json.loads(line)[2][0] == watts:
                return
        self.fail(process.stderr.read())

    def asked(self, gpu):
        """Returns each limit that the agent was requested to set, in W."""
        uuid = self.ask("GET", "/v1/gpus").json()["gpus"][gpu]["uuid"]
        lines = [json.loads(line) for line in (self.folder / "agent-audit.jsonl").read_text().splitlines()]
        return [int(line["to"].split()[-2]) for line in lines
                if line["action"] == "power_limit" and line["result"] == "requested" and line.get("gpu") == uuid]

    def changes(self, calls):
        """Removes calls that set the limit already set."""
        return [call for before, call in zip([(None, None, None), *calls], calls) if call[2] != before[2]]

    def asks(self, calls):
        """Returns the requests of a training that finds the highest limit and, like Zeus, leaves it set at its end."""
        return [watts for _, _, watts in self.changes([*calls, (None, "exit", 300)])[1:]]

    def test_it_measures_every_limit_and_chooses(self):
        self.start()
        for gpus in [0], [0, 1]:
            with self.subTest(gpus=gpus):
                self.profile.unlink(missing_ok=True)
                before = len(self.asked(0))
                calls, found = self.finish(self.train(gpus, step_s=0.012, log=self.log, profile=self.profile))
                expected = self.changes(one_long_epoch(found["choice"]))
                self.assertEqual(calls, expected)
                self.assertEqual(self.asked(0)[before:], self.asks(expected))
                self.assertEqual(self.asked(1), [] if gpus == [0] else self.asks(expected))
                self.wait_for(lambda: self.limits() == [300, 300])
                self.measured(found, len(gpus))
                self.same_as_ours(found, len(gpus))

    def measured(self, found, gpus):
        """Checks that there are measurements: limits cost time and save energy."""
        limits, energies, times = zip(*found["measurements"])
        self.assertEqual(list(limits), LIMITS)
        # With a margin for a busy machine.
        self.assertGreater(sum(times[-3:]), 1.1 * sum(times[:3]))
        self.assertLess(min(energies), energies[0])
        for energy, time in zip(energies, times):
            self.assertLess(energy / time, gpus * 400)
            self.assertGreater(energy / time, gpus * 25)

    def same_as_ours(self, found, gpus):
        """Checks that Harpe reads the profile, chooses the same as Zeus, and writes one that Zeus can continue with."""
        again = self.folder / "again.json"
        ours = subprocess.run([CHOICE, self.profile, str(gpus), again], check=True, capture_output=True, text=True).stdout
        self.assertEqual([[kind, float(parameter), int(watts)] for kind, parameter, watts in map(str.split, ours.splitlines())],
                         found["choices"])
        again.chmod(0o644)
        calls, loaded = self.finish(self.train(range(gpus), steps_per_epoch=1, profile=again))
        self.assertEqual(calls, [(0, "begin", found["choice"])])
        self.assertEqual(loaded["measurements"], found["measurements"])
        # Replays the log of Zeus's monitor.
        replay = subprocess.run([self.harpe, "replay", "power-limit", self.log, "--json"], check=True, capture_output=True,
                                text=True)
        replay = json.loads(replay.stdout)
        self.assertEqual(replay["power_limit_w"], found["choice"])
        self.assertEqual([watts for _, watts in map(tuple, replay["set_calls"])],
                         [watts for _, _, watts in self.changes(one_long_epoch(found["choice"]))])

    def test_an_epoch_that_ends_begins_its_limit_anew(self):
        self.start()
        calls, found = self.finish(self.train(epochs=9, steps_per_epoch=20))
        expected = self.changes(short_epochs(found["choice"]))
        self.assertEqual(calls, expected)
        self.assertEqual(self.asked(0), self.asks(expected))
        self.wait_for(lambda: self.limits() == [300, 300])

    def test_what_was_there_before_comes_back(self):
        self.direct("limit", "set", "250", "--gpus", "0")
        self.start()
        persistence = self.persistence()
        calls, _ = self.finish(self.train())
        self.assertEqual(calls[0], (0, "begin", 300))
        self.assertEqual(self.asked(0)[-1], 300, "Zeus itself leaves the highest limit")
        self.wait_for(lambda: self.limits() == [250, 300])
        self.assertEqual(self.persistence(), persistence)
        # In the middle of a window, without any final message.
        killed = self.train(hold=45)
        self.until(killed, 200)
        self.assertEqual(self.limits(), [200, 300])
        killed.kill()
        self.wait_for(lambda: self.limits() == [250, 300])
        self.assertEqual(self.persistence(), persistence)

    def test_what_is_set_stays_for_longer_than_a_lease_lasts(self):
        self.allow(lease_s=1)
        self.start()
        training = self.train(hold=45)
        self.until(training, 200)
        left, renewed = 0, 0

        def look():  # the training sends no requests now
            nonlocal left, renewed
            leases = self.ask("GET", "/v1/leases").json()["leases"]
            self.assertEqual([lease["gpus"] for lease in leases], [[0]])
            renewed += leases[0]["expires_in_s"] > left
            left = leases[0]["expires_in_s"]
            return renewed > 2

        self.wait_for(look)
        self.assertEqual(self.limits(), [200, 300])
        calls, found = self.finish(training)
        self.assertEqual([watts for _, _, watts in calls], [watts for _, _, watts in self.changes(
            one_long_epoch(found["choice"]))[5:]])
        self.wait_for(lambda: self.limits() == [300, 300])

    def refused(self, process):
        """Returns the client's error for a setting that is not allowed."""
        _, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 1, err)
        return err.split("zeus.device.exception.ZeusdError: ", 1)[1].splitlines()[0]

    def test_a_policy_that_allows_less_is_an_error_of_the_client(self):
        self.allow(lowest=150)
        self.start()
        said = self.refused(self.train())
        self.assertIn("Failed to set_power_limit", said)
        self.assertIn("policy", said)
        self.assertIn("150 W to 300 W", said)
        self.assertEqual(self.asked(0), [275, 250, 225, 200, 175, 150, 300])
        self.wait_for(lambda: self.limits() == [300, 300])

    def test_a_policy_without_what_zeus_begins_with_changes_nothing(self):
        self.allow(highest=280)
        self.direct("limit", "set", "250", "--gpus", "0")
        self.start()
        self.assertIn("100 W to 280 W", self.refused(self.train()))
        self.stop()
        self.policy.write_text(POLICY.format(100, 300, 60).replace("persistence_mode = true", ""))
        self.start()
        self.assertIn("persistence mode", self.refused(self.train()))
        self.assertEqual(self.asked(0), [])
        self.assertEqual(self.limits(), [250, 300])

    def test_each_gpu_is_of_one_client_at_a_time(self):
        self.start()
        own = self.ask("POST", "/v1/leases", {"gpus": [1], "duration_s": 600, "ends_with_process": False}).json()["id"]
        self.ask("POST", f"/v1/leases/{own}/settings", {"gpus": [1], "power_limit_w": 220})
        self.assertIn("GPU 1 is leased by", self.refused(self.train([1])))
        first = self.train([0], hold=45)
        self.until(first, 200)
        self.assertEqual(self.limits(), [200, 220])
        taken = self.ask("POST", "/v1/leases", {"gpus": [0]})
        self.assertEqual(taken.status, 409)
        self.assertIn("while its process runs", taken.body)
        self.assertIn("GPU 0 is leased by", self.refused(self.train([0])))
        self.assertEqual(self.limits(), [200, 220])
        # Two trainings of one user, as started by a launcher for each GPU.
        self.ask("DELETE", f"/v1/leases/{own}")
        second = self.train([1], hold=25)
        self.until(second, 250)
        self.assertEqual(self.limits(), [200, 250])
        first.kill()
        self.wait_for(lambda: self.limits() == [300, 250])
        self.finish(second)
        self.wait_for(lambda: self.limits() == [300, 300])


if __name__ == "__main__":
    agent_process.run(sys.argv[1])
