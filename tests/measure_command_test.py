#!/usr/bin/env python3
"""harpe run, monitor and switch-latency as a user meets them: processes, signals, terminals,
simulated GPUs, and machines without any device. Usage: measure_command_test.py HARPE [FOLDER]
(of the simulated NVML)"""

import csv
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HARPE = None
SIMULATED_NVML = None  # the folder of the simulated library, which knows the truth
SIMULATION = """
state_file = "{folder}/state"
[[gpu]]
model = "a100-sxm"
count = 2
call_ms = 1
switch_ms = 10
switch_spread = 0.1
slow_pair_share = 0.0
slow_target_share = 0.0
"""


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="harpe-measure-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.bare = dict(os.environ, HARPE_NVML_LIBRARY=str(self.folder / "none.so"),
                         HARPE_POWERCAP_ROOT=str(self.folder))
        self.bare.pop("HARPE_SIMULATION", None)
        self.bare.pop("CUDA_VISIBLE_DEVICES", None)
        simulation = self.folder / "gpus.toml"
        simulation.write_text(SIMULATION.format(folder=self.folder))
        self.simulated = dict(self.bare, HARPE_SIMULATION=str(simulation))

    def harpe(self, *arguments, env=None, **more):
        return subprocess.run([HARPE, *arguments], env=env or self.bare, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, **more)

    def simulate(self, name, text, **more):
        """Returns an environment with these GPUs, with a separate state."""
        file = self.folder / f"{name}.toml"
        file.write_text(f'state_file = "{self.folder}/{name}"\n{text}')
        return dict(self.bare, HARPE_SIMULATION=str(file), **more)

    def simulated_nvml(self):
        if SIMULATED_NVML is None:
            self.skipTest("this build has no look-alike library")
        return SIMULATED_NVML

    def report(self, *arguments, env=None):
        done = self.harpe("run", "--json", *arguments, env=env)
        return done, json.loads(done.stderr)


class Run(Case):
    def test_the_exit_status_is_the_commands(self):
        for script, status in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143),
                               ("kill -KILL $$", 137)]:
            self.assertEqual(self.harpe("run", "--", "sh", "-c", script).returncode, status)

    def faulty(self, kind, more):
        """Simulates two idle A40, the second with a fault."""
        return self.simulate("faulty", f'''[[gpu]]
model = "a40"
count = 2
[[fault]]
kind = "{kind}"
gpu = 1
{more}
''')

    def test_a_slow_driver_is_not_the_commands_time(self):
        slow = self.faulty("slow_call", 'seconds = 0.3\ncalls = "reads"')
        done, report = self.report("--", "sleep", "1.5", env=slow)
        self.assertEqual(done.returncode, 0)
        self.assertLess(abs(report["time_s"] - 1.5), 1)
        # Idle A40: constant power, the same for both.
        sound = self.simulate("sound", '[[gpu]]\nmodel = "a40"\ncount = 2\n')
        truth = self.report("--", "sleep", "1.5", env=sound)[1]
        truth = truth["total"]["energy_j"]
        self.assertLess(abs(report["total"]["energy_j"] - truth), report["total"]["error_j"])

    def test_a_driver_that_hangs_holds_neither_the_command_nor_its_end(self):
        hung = self.faulty("slow_call", 'seconds = 60\ncalls = "reads"')
        begin = time.monotonic()
        done = self.harpe("run", "--", "sh", "-c", "echo started; sleep 1; exit 3", env=hung)
        self.assertEqual((done.returncode, done.stdout), (3, "started\n"), done.stderr)
        self.assertIn("has not answered", done.stderr)
        self.assertNotIn("there is no GPU", done.stderr)
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_gpu_that_is_slow_or_hangs_spoils_no_other(self):
        for seconds in (0.5, 60):
            slow = self.simulate(f"slow-{seconds}", f"""
[[gpu]]
model = "a40"
count = 2
gain = 1.0
[[fault]]
kind = "slow_call"
gpu = 1
seconds = {seconds}
calls = "reads"
""")
            done, report = self.report("--", "sleep", "2", env=slow)
            self.assertEqual(done.returncode, 0)
            sound, other = report["devices"][:2]
            self.assertLess(abs(sound["measured"]["energy_j"] - 29 * report["time_s"]), 3)
            self.assertLess(sound["measured"]["error_j"], 3)
            self.assertIsNone(sound["error"])
            self.assertEqual(other["error"] is not None, seconds == 60, other)

    def test_devices_lists_what_answers_beside_a_gpu_that_hangs(self):
        hung = self.faulty("slow_call", 'seconds = 60\ncalls = "reads"')
        begin = time.monotonic()
        done = self.harpe("devices", "--json", env=hung)
        self.assertLess(time.monotonic() - begin, 30)
        sound, other = json.loads(done.stdout)["gpus"]
        self.assertEqual((sound["state"], other["state"]), ("ok", "no_response"))
        self.assertIsNotNone(sound["power"]["instant_w"])

    def test_of_a_gpu_that_was_lost_the_report_says_at_least(self):
        lost = self.faulty("gpu_lost", "at_s = 1")
        table = self.folder / "runs.csv"
        done = self.harpe("run", "--csv", str(table), "--out", str(self.folder / "report.json"), "--",
                          "sleep", "2", env=lost)
        self.assertRegex(done.stderr, r"s, at least [0-9.]+ J\n")
        self.assertRegex(done.stderr, r"total +at least [0-9.]+ J +-")
        report = json.loads((self.folder / "report.json").read_text())
        self.assertIsNone(report["total"]["error_j"])
        self.assertIsNone(report["total"]["mean_power_w"])
        self.assertGreater(report["total"]["missing_s"], 0.5)
        row = next(csv.DictReader(table.read_text().splitlines()))
        self.assertNotEqual(row["gpu0_error"], "")
        self.assertEqual(row["gpu1_error"], "")

    def test_what_cannot_be_executed_has_the_shells_status(self):
        missing = self.harpe("run", "--", "no-such-program-here")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("'no-such-program-here' cannot be executed", missing.stderr)
        file = self.folder / "data"
        file.write_text("not a program")
        self.assertEqual(self.harpe("run", "--", str(file)).returncode, 126)

    def test_output_arguments_and_environment_are_the_commands(self):
        words = ["[1,2]", "--json", "", "a b", "--", "-x", "%s"]
        code = "import sys, json, os; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
        done = self.harpe("run", "--", sys.executable, "-c", code, *words)
        seen, environment = json.loads(done.stdout)
        self.assertEqual(seen, words)
        direct = subprocess.run([sys.executable, "-c", code], env=self.bare, text=True,
                                capture_output=True, check=True)
        self.assertEqual(environment, json.loads(direct.stdout)[1])

    def test_standard_input_is_the_commands(self):
        done = subprocess.run([HARPE, "run", "--", "cat"], input="hello", env=self.bare, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout, "hello")

    def test_what_cannot_be_executed_leaves_no_report(self):
        out, log = self.folder / "report.json", self.folder / "runs.csv"
        file = self.folder / "data"
        file.write_text("not a program")
        for program, status in (("no-such-program-here", 127), (str(file), 126)):
            done = self.harpe("run", "--json", "--out", str(out), "--csv", str(log), "--", program)
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            message = json.loads(done.stderr)["error"]["diagnostics"][0]["message"]
            self.assertIn("cannot be executed", message)
            self.assertFalse(out.exists() or log.exists())

    def test_json_never_mixes_with_the_commands_output(self):
        out = self.folder / "report.json"
        script = "echo out; echo err >&2"
        done = self.harpe("run", "--json", "--out", str(out), "--", "sh", "-c", script)
        self.assertEqual((done.stdout, done.stderr), ("out\n", "err\n"))
        self.assertEqual(json.loads(out.read_text())["exit_status"], 0)
        done = self.harpe("run", "--json", "--", "sh", "-c", "echo out")
        self.assertEqual(done.stdout, "out\n")
        self.assertEqual(json.loads(done.stderr)["command"], ["sh", "-c", "echo out"])
        # If the file can no longer be written, the report is not lost.
        gone = self.folder / "gone"
        gone.mkdir()
        done = self.harpe("run", "--json", "--out", gone / "x", "--", "rmdir", gone, env=dict(self.bare, TMPDIR=str(self.folder)))
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"{gone / 'x'}: cannot", done.stderr)
        kept = re.search("kept as ([^:]*):", done.stderr)[1]
        self.assertEqual(json.loads(pathlib.Path(kept).read_text())["command"], ["rmdir", str(gone)])
        # Errors of the command line are not written to the command's output either.
        for wrong in (["--gpus", "7", "--", "true"], ["--no-such-option", "--", "true"], []):
            done = self.harpe("run", "--json", *wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertTrue(json.loads(done.stderr)["error"]["diagnostics"], wrong)
        self.assertIn("JSON on standard error", re.sub(r"\s+", " ", self.harpe("run", "--help").stdout))

    def test_the_command_is_printed_as_one_would_type_it(self):
        words = random.Random(5)
        bytes_of_text = "ab '\"\\$`!*?~#&;|<>(){}[]=\t\n\x1b\x7f%-é"
        for _ in range(25):
            command = [words.choice(["true", "A=b"])] + [
                "".join(words.choices(bytes_of_text, k=words.randrange(6)))
                for _ in range(words.randrange(5))]
            program = self.folder / "A=b"
            if not program.exists():
                program.symlink_to(shutil.which("true"))
            env = dict(self.bare, PATH=f"{self.folder}:{os.environ['PATH']}")
            told = self.harpe("run", "--", *command, env=env).stderr
            line = next(line for line in told.splitlines() if line.startswith("harpe run: "))
            self.assertNotIn("\x1b", line)
            typed = line.removeprefix("harpe run: ")
            back = subprocess.run(["bash", "-c", f"f() {{ printf '%s\\0' \"$@\"; }}; f {typed}"],
                                  capture_output=True, check=True, timeout=60).stdout
            self.assertEqual(back.decode().split("\0")[:-1], command, typed)

    def test_words_without_dashes_are_explained(self):
        done = self.harpe("run", "sleep", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("harpe run -- sleep", done.stderr)
        done = self.harpe("run")
        self.assertEqual(done.returncode, 2)
        self.assertIn("harpe run -- python train.py", done.stderr)

    def test_without_any_device_the_command_runs_and_the_report_says_why_there_is_no_energy(self):
        done = self.harpe("run", "--", "sh", "-c", "echo out; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, "out\n"))
        self.assertIn("Only the time was measured: this machine has no GPU", done.stderr)
        self.assertIn("docs/simulated-gpus.md", done.stderr)
        self.assertIn("nvml:", done.stderr)
        self.assertIn("rapl:", done.stderr)
        _, report = self.report("--", "true")
        self.assertIsNone(report["total"])
        self.assertEqual(report["devices"], [])

    def test_the_hint_for_machines_without_a_gpu_works_when_typed(self):
        told = self.harpe("run", "--", "echo", "a b").stderr
        start = told.index("  printf")
        script = told[start:].replace("harpe run", f"'{HARPE}' run")
        done = subprocess.run(["sh", "-e", "-c", script], env=self.bare, cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "a b\n"), done.stderr)
        self.assertIn("The GPUs are simulated", done.stderr)

    def test_a_device_that_tells_nothing_is_not_called_missing(self):
        package = self.folder / "intel-rapl:0"
        package.mkdir()
        for name, text in (("name", "package-0"), ("energy_uj", "1000"),
                           ("max_energy_range_uj", "262143328850")):
            (package / name).write_text(text + "\n")
        done = self.harpe("run", "--carbon", "300", "--", "true")
        self.assertIn("no device reported its energy", done.stderr)
        self.assertIn("Without energy, no CO2 can be computed", done.stderr)
        self.assertNotIn("no GPU", done.stderr)

    def test_wrong_options_stop_before_the_command_runs(self):
        for wrong in (["--gpus", "7"], ["--carbon", "XX"], ["--embodied", "5"],
                      ["--simulate", str(self.folder / "none.toml")]):
            done = self.harpe("run", *wrong, "--", "sh", "-c", "echo ran")
            self.assertEqual(done.returncode, 2, wrong)
            self.assertEqual(done.stdout, "", wrong)

    def test_simulated_gpus_cost_what_their_model_says(self):
        done, report = self.report("--carbon", "300", "--embodied", "150kg/5y", "--", "sleep", "2",
                                   env=self.simulated)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(report["simulated"])
        self.assertEqual(report["command"], ["sleep", "2"])
        self.assertAlmostEqual(report["time_s"], 2, delta=1)
        self.assertEqual(len(report["devices"]), 2)
        total = 0
        for device in report["devices"]:
            measured = device["measured"]
            # An idle A100 draws 40 to 110 W.
            self.assertGreater(measured["mean_power_w"], 20)
            self.assertLess(measured["mean_power_w"], 130)
            self.assertLess(measured["error_j"], 0.2 * measured["energy_j"])
            self.assertAlmostEqual(measured["energy_j"],
                                   measured["mean_power_w"] * report["time_s"], places=3)
            total += measured["energy_j"]
        self.assertAlmostEqual(report["total"]["energy_j"], total, places=6)
        self.assertAlmostEqual(report["carbon"]["grams"], total / 3.6e6 * 300, places=9)
        year = 365.25 * 86400
        self.assertAlmostEqual(report["embodied"]["grams"],
                               2 * 150000 * report["time_s"] / (5 * year),
                               delta=0.001 * report["embodied"]["grams"])

    def test_energy_is_kept_by_interval_and_accounted_by_a_series(self):
        second = int(time.time()) // 60 * 60
        series = self.folder / "series.csv"
        series.write_text("time,g\n" + "".join(
            f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at))},{100 + at % 4 * 50}\n"
            for at in range(second - 60, second + 600)))
        source = f"file:{series}?time=time&value=g&unit=g/kWh&kind=life-cycle"
        done, report = self.report("--carbon", source, "--", "sleep", "3", env=self.simulated)
        self.assertEqual(done.returncode, 0)
        intervals = report["intervals"]
        self.assertEqual(intervals["step_s"], 1)
        energies = {row[0]: row[intervals["columns"].index("energy_j")] for row in intervals["rows"]}
        self.assertGreaterEqual(len(energies), 3)
        self.assertAlmostEqual(sum(energies.values()), report["total"]["energy_j"], places=3)
        # The intensity of the last second may not be known yet.
        used = [value["grams_per_kwh"] for value in report["carbon"]["intensity"]["values"]]
        self.assertEqual(used[:-1], [100 + at % 4 * 50 for at in energies][:-1])
        self.assertAlmostEqual(report["carbon"]["grams"], sum(
            energy / 3.6e6 * value for energy, value in zip(energies.values(), used)), places=9)
        self.assertGreater(report["carbon"]["account"]["basis"]["measured"], 0.5)
        # Computed from the file, once all values are known, and from another source.
        grams = sum(energy / 3.6e6 * (100 + at % 4 * 50) for at, energy in energies.items())
        wait_until(lambda: time.time() > max(energies) + 2)
        file = self.folder / "again.json"
        file.write_text(json.dumps(report))
        for carbon, expected in ((source, grams), ("302.5", report["total"]["energy_j"] / 3.6e6 * 302.5)):
            again = self.harpe("carbon", "report", file, file, "--carbon", carbon, "--json")
            self.assertEqual(again.returncode, 0, again.stderr)
            document = json.loads(again.stdout)
            self.assertAlmostEqual(document["total"]["grams"], expected, places=6)
            self.assertEqual(len(document["runs"]), 1)

    def test_a_provider_that_is_away_neither_delays_nor_fails_the_command(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            begin = time.monotonic()
            done, report = self.report("--carbon", f"uk?url=http://127.0.0.1:{silent.getsockname()[1]}", "--", "sh",
                                       "-c", "sleep 1; exit 3",
                                       env=dict(self.simulated, HARPE_CARBON_CACHE=str(self.folder / "cache")))
            self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(done.returncode, 3)
        self.assertLess(report["time_s"], 2.5)
        self.assertIn("error", report["carbon"])
        self.assertGreater(report["total"]["energy_j"], 0)
        self.assertTrue(report["intervals"]["rows"])

    def test_the_summary_says_that_gpus_are_simulated(self):
        done = self.harpe("run", "--gpus", "1", "--", "sleep", "0.5", env=self.simulated)
        self.assertIn("The GPUs are simulated", done.stderr)
        self.assertIn("GPU 1", done.stderr)
        self.assertNotIn("GPU 0", done.stderr)
        self.assertIn("±", done.stderr)

    def test_files_are_written_and_a_bad_one_is_refused_before_the_command_runs(self):
        log, out = self.folder / "runs.csv", self.folder / "report.json"
        for _ in range(2):
            self.harpe("run", "--csv", str(log), "--out", str(out), "--", "echo", "a,b",
                       env=self.simulated)
        rows = list(csv.DictReader(log.read_text().splitlines()))
        self.assertEqual([row["window_name"] for row in rows], ["echo a,b"] * 2)
        self.assertGreater(float(rows[0]["gpu1_energy"]), 0)
        self.assertEqual(json.loads(out.read_text())["command"], ["echo", "a,b"])
        for option in ("--csv", "--out"):
            done = self.harpe("run", option, "/no/such/folder/x", "--", "touch", self.folder / "begun")
            self.assertEqual(done.returncode, 2)
            self.assertIn("/no/such/folder/x", done.stderr)
            self.assertFalse((self.folder / "begun").exists())

    def test_signals_sent_to_harpe_reach_the_command(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1):
            ready = self.folder / f"ready-{number}"
            script = f"trap 'exit {number}' {number}; touch {ready}; while :; do sleep 0.05; done"
            # In a separate session, so that only harpe itself gets the signal.
            process = subprocess.Popen([HARPE, "run", "--", "sh", "-c", script], env=self.bare,
                                       start_new_session=True, stderr=subprocess.PIPE, text=True)
            self.assertTrue(wait_until(ready.exists))
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, number)

    def test_on_a_terminal_ctrl_c_reaches_the_command_once(self):
        code = ("import signal, time\n"
                "seen = []\n"
                "signal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
                "print('ready', flush=True)\n"
                "end = time.monotonic() + 30\n"
                "while not seen and time.monotonic() < end: time.sleep(0.02)\n"
                "time.sleep(0.5)  # a second one would come now\n"
                "print('interrupts', len(seen), flush=True)\n")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(HARPE, [HARPE, "run", "--", sys.executable, "-c", code], self.bare)
        text = b""
        sent = False
        while True:
            if select.select([terminal], [], [], 60)[0]:
                try:
                    text += os.read(terminal, 4096)
                except OSError:
                    break
            if b"ready" in text and not sent:
                os.write(terminal, b"\x03")
                sent = True
        _, status = os.waitpid(pid, 0)
        self.assertIn(b"interrupts 1", text)
        self.assertIn(b"harpe run:", text, "the summary comes all the same")
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_stopping_the_command_stops_harpe_and_both_go_on(self):
        ready = self.folder / "ready"
        script = f"touch {ready}; kill -STOP $$; exit 9"
        process = subprocess.Popen([HARPE, "run", "--", "sh", "-c", script], env=self.bare,
                                   start_new_session=True, stderr=subprocess.DEVNULL)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status), "a shell would have its terminal back")
        os.kill(process.pid, signal.SIGCONT)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 9)


class Monitor(Case):
    def test_json_is_one_object_a_line(self):
        done = self.harpe("monitor", "--json", "--count", "3", "--interval", "200ms",
                          env=self.simulated)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, len(lines)), (0, 3))
        self.assertTrue(all(line["simulated"] for line in lines))
        for device in lines[-1]["devices"]:
            self.assertGreater(device["power_w"], 0)
            self.assertGreater(device["clock_mhz"], 0)
        energies = [line["total"]["energy_j"] for line in lines[1:]]
        self.assertEqual(energies, sorted(energies))

    def test_csv_is_a_table(self):
        done = self.harpe("monitor", "--csv", "--duration", "0.6s", "--interval", "0.2s",
                          env=self.simulated)
        rows = list(csv.DictReader(done.stdout.splitlines()))
        self.assertGreaterEqual(len(rows), 6)
        self.assertEqual({row["device"] for row in rows}, {"GPU 0", "GPU 1"})
        self.assertTrue(all(float(row["power_w"]) > 0 for row in rows))

    def test_the_first_look_comes_after_an_interval_and_has_an_error(self):
        before = time.monotonic()
        done = self.harpe("monitor", "--csv", "--count", "1", "--interval", "0.5", env=self.simulated)
        self.assertGreaterEqual(time.monotonic() - before, 0.5)
        rows = list(csv.DictReader(done.stdout.splitlines()))
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertGreaterEqual(float(row["time_s"]), 0.5)
            self.assertGreater(float(row["energy_error_j"]), 0)
            self.assertGreater(float(row["energy_j"]), 5)

    def test_csv_and_json_exclude_each_other(self):
        done = self.harpe("monitor", "--csv", "--json", "--count", "1", env=self.simulated)
        self.assertEqual(done.returncode, 2)
        message = json.loads(done.stdout)["error"]["diagnostics"][0]["message"]
        self.assertIn("--csv", message)
        self.assertIn("--json", message)

    def test_energies_and_powers_are_what_the_simulation_knows(self):
        """Uses constant power, so that watts x seconds is the truth at every look."""
        library = self.simulated_nvml()
        env = self.simulate("constant", """
[[gpu]]
model = "a100-sxm"
leakage = 0.0
gain = 1.0
[[gpu]]
model = "a40"
leakage = 0.0
gain = 1.0
energy_counter = false
[[cpu]]
power_w = 90
dram_w = 12
""", PYTHONPATH=str(library))
        work = ("import harpe_sim, time\n"
                "harpe_sim.set_load(0, 0.6)\nharpe_sim.set_load(1, 0.3)\ntime.sleep(2)\n"
                "print(harpe_sim.truth(0).power, harpe_sim.truth(1).power)")
        truth = [float(word) for word in subprocess.run(
            [sys.executable, "-c", work], env=env, capture_output=True, text=True, check=True,
            timeout=60).stdout.split()] + [90, 12]
        self.assertGreater(truth[0], truth[1] + 20)
        done = self.harpe("monitor", "--json", "--interval", "1s", "--count", "4", env=env)
        looks = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(looks), 4)
        self.assertEqual([(device["kind"], device["index"]) for device in looks[0]["devices"]],
                         [("gpu", 0), ("gpu", 1), ("cpu", 0), ("dram", 0)])
        for look in looks:
            for device, watts in zip(look["devices"], truth, strict=True):
                measured = device["measured"]
                energy = watts * look["time_s"]
                # 95 % intervals: twice their width is 4 sigma, for 16 figures.
                self.assertLess(abs(measured["energy_j"] - energy), 2 * measured["error_j"], look)
                self.assertAlmostEqual(measured["mean_power_w"], watts,
                                       delta=2 * measured["error_j"] / look["time_s"])
                self.assertAlmostEqual(device["power_w"], watts, delta=0.05 * watts)
        # On a busy machine one look may be delayed, with a wider error bar, but not all of them.
        for place, watts in enumerate(truth):
            bars = [look["devices"][place]["measured"]["error_j"] / (watts * look["time_s"]) for look in looks]
            self.assertLess(min(bars), 0.1, bars)
        table = self.harpe("monitor", "--csv", "--interval", "1s", "--count", "2", env=env)
        for row in csv.DictReader(table.stdout.splitlines()):
            watts = dict(zip(["GPU 0", "GPU 1", "CPU 0", "DRAM 0"], truth))[row["device"]]
            self.assertLess(abs(float(row["energy_j"]) - watts * float(row["time_s"])),
                            2 * float(row["energy_error_j"]), row)
        lines = self.harpe("monitor", "--interval", "1s", "--count", "1", env=env).stdout
        self.assertRegex(lines, r"total \d+(\.\d)? ± \d+(\.\d)? J")

    def test_changing_load_is_counted_as_the_simulation_does(self):
        library = self.simulated_nvml()
        env = self.simulate("changing", """
[[gpu]]
model = "a100-sxm"
leakage = 0.0
gain = 1.0
""", PYTHONPATH=str(library))
        # Records the exact energy every few milliseconds, under a varying load.
        work = ("import harpe_sim, random, time\n"
                "random.seed(3); end = time.monotonic() + 6; change = 0\n"
                "while time.monotonic() < end:\n"
                "    if time.monotonic() > change:\n"
                "        harpe_sim.set_load(0, random.random())\n"
                "        change = time.monotonic() + random.uniform(0.3, 0.8)\n"
                "    truth = harpe_sim.truth(0); print(truth.time, truth.energy)\n"
                "    time.sleep(0.005)\n")
        notes = self.folder / "truth"
        with notes.open("w") as out, subprocess.Popen([sys.executable, "-u", "-c", work], env=env, stdout=out) as load:
            self.assertTrue(wait_until(lambda: notes.stat().st_size > 0))
            done = self.harpe("monitor", "--json", "--interval", "1s", "--count", "4", env=env)
            load.wait(timeout=60)
        truth = [tuple(map(float, line.split())) for line in notes.read_text().splitlines()]

        def energy_at(moment):
            after = next(i for i, (when, _) in enumerate(truth) if when >= moment)
            (t0, e0), (t1, e1) = truth[after - 1], truth[after]
            return e0 + (e1 - e0) * (moment - t0) / (t1 - t0)

        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        for look in map(json.loads, done.stdout.splitlines()):
            begin = look["started_at"] - boot
            energy = energy_at(begin + look["time_s"]) - energy_at(begin)
            measured = look["devices"][0]["measured"]
            self.assertLess(abs(measured["energy_j"] - energy), 2 * measured["error_j"],
                            (energy, look))

    def view_on_a_terminal(self, columns, simulation, seconds, then=None, keys=(), end_by=b"\x03", **environment):
        """Returns the command's output on a terminal with that many columns, resized to `then` on the way. Types each
        of `keys`, (text, key), once its text has appeared."""
        pid, terminal = pty.fork()
        if pid == 0:
            environment = {**self.bare, "HARPE_SIMULATION": str(simulation), "TERM": "xterm", "LC_ALL": "C.UTF-8",
                           **environment}
            os.execve(HARPE, [HARPE, "monitor", "--interval", "0.3"], environment)
        keys = list(keys)
        text = ""
        try:
            size = struct.pack("HHHH", 24, columns, 0, 0)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if then and time.monotonic() > end - seconds / 2:
                    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, then, 0, 0))
                    then = None
                if select.select([terminal], [], [], 0.05)[0]:
                    text += os.read(terminal, 65536).decode()
                if keys and keys[0][0] in text.split("\x1b[H")[-1]:
                    os.write(terminal, keys.pop(0)[1])
            self.modes = termios.tcgetattr(terminal)
        finally:
            os.write(terminal, end_by)
            try:
                while select.select([terminal], [], [], 10)[0]:
                    text += os.read(terminal, 65536).decode()
            except OSError:
                pass
            _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertEqual(keys, [], text)
        self.assertIn("\x1b[?1049l", text, "the screen before comes back")
        return text

    def screens(self, text):
        """Returns the screens of the terminal one after the other, without colours."""
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "")
                for screen in text.split("\x1b[?1049l")[0].split("\x1b[H")[1:]]

    def test_a_driver_that_hangs_does_not_hold_it_for_ever(self):
        slow = self.folder / "slow.toml"
        slow.write_text(SIMULATION.format(folder=self.folder) +
                        '[[fault]]\nkind = "slow_call"\ngpu = 1\nseconds = 60\ncalls = "reads"\n')
        process = subprocess.Popen([HARPE, "monitor"], env=dict(self.bare, HARPE_SIMULATION=str(slow)),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        looks = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, err)
        for look in looks:
            self.assertRegex(look, r"GPU 0\D+\d")
        self.assertIn("has not answered", out)

    def test_times_have_units_and_are_above_nothing(self):
        for wrong in ("0", "0s", "-1", "soon"):
            self.assertEqual(self.harpe("monitor", "--duration", wrong, env=self.simulated).returncode, 2)
        done = self.harpe("monitor", "--duration", "0.0001h", "--interval", "200ms", env=self.simulated)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_on_a_terminal_of_80_columns_nothing_breaks_not_even_when_a_gpu_is_lost(self):
        simulation = self.folder / "lost.toml"
        simulation.write_text(SIMULATION.format(folder=self.folder) +
                              "[[cpu]]\ncount = 2\ndram_w = 12\n"
                              '[[fault]]\nkind = "gpu_lost"\ngpu = 1\nat_s = 1\n')
        text = self.view_on_a_terminal(80, simulation, 3)
        plain = "\n".join(self.screens(text)) + re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.split("\x1b[?1049l")[1])
        self.assertEqual([line for line in plain.splitlines() if len(line) > 80], [])
        self.assertIn("since start", plain)
        self.assertRegex(plain, r"GPU 1 +LOST")
        self.assertRegex(plain, r"GPU 1 .* is lost")
        self.assertIn("only until it failed", plain)
        self.assertGreater(len(self.screens(text)), 3, "the screen is drawn again and again")
        self.assertTrue(all(len(screen.splitlines()) <= 24 for screen in self.screens(text)))

    def test_a_terminal_that_gets_narrower_gets_a_narrower_view(self):
        text = self.view_on_a_terminal(120, self.simulated["HARPE_SIMULATION"], 3, then=50)
        screens = self.screens(text)
        self.assertTrue(any(len(line) > 100 for line in screens[2].splitlines()), screens[2])
        self.assertEqual([line for line in screens[-1].splitlines() if len(line) > 50], [])
        self.assertIn("GPU 1", screens[-1])

    def test_keys_sort_pause_explain_and_end_and_the_terminal_is_as_before(self):
        text = self.view_on_a_terminal(
            100, self.simulated["HARPE_SIMULATION"], 4, end_by=b"q", LC_ALL="C",
            keys=[("since start", b"s"), ("sorted by power", b"p"), ("PAUSED", b"h"), ("sort: index", b"\x1b"),
                  ("since start", b"p")])
        screens = self.screens(text)
        self.assertTrue(all(screen.isascii() for screen in screens), "the locale is not UTF-8")
        self.assertIn("+-", screens[-1])
        self.assertNotIn("PAUSED", screens[-1])
        lflag = 3
        self.assertFalse(self.modes[lflag] & termios.ECHO, "keys were not shown")
        self.assertIn("energy (95 %)", text.split("\x1b[?1049l")[1])

    def test_a_crash_or_a_stop_gives_the_terminal_back(self):
        lflag = 3
        for number in (signal.SIGABRT, signal.SIGTSTP):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(HARPE, [HARPE, "monitor", "--interval", "0.2"], dict(self.simulated, TERM="xterm"))
            text = b""
            while b"GPU 1" not in text:
                text += os.read(terminal, 65536)
            self.assertFalse(termios.tcgetattr(terminal)[lflag] & termios.ECHO)
            os.kill(pid, number)
            _, status = os.waitpid(pid, os.WUNTRACED)
            self.assertTrue(termios.tcgetattr(terminal)[lflag] & termios.ECHO, number)
            while b"\x1b[?1049l" not in text:
                text += os.read(terminal, 65536)
            if os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGCONT)
                while text.count(b"\x1b[?1049h") < 2:
                    text += os.read(terminal, 65536)
                os.kill(pid, signal.SIGTERM)
                while b"energy (95 %)" not in text:
                    text += os.read(terminal, 65536)
                _, status = os.waitpid(pid, 0)
                self.assertEqual(os.waitstatus_to_exitcode(status), 0)
            else:
                self.assertEqual(os.WTERMSIG(status), number)
            os.close(terminal)

    def test_ctrl_c_ends_it_with_a_summary(self):
        process = subprocess.Popen([HARPE, "monitor", "--interval", "100ms"], env=self.simulated,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn("GPU 0", first)
        self.assertIn("energy (95 %)", out)

    def test_without_devices_it_says_what_would_help(self):
        done = self.harpe("monitor", "--count", "1")
        self.assertEqual(done.returncode, 69)
        self.assertIn("nvml:", done.stderr)

    def test_a_closed_pipe_ends_it(self):
        process = subprocess.Popen(f"'{HARPE}' monitor --interval 50ms | head -n 1", shell=True,
                                   env=self.simulated, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.assertTrue(process.communicate(timeout=60)[0])


class OnATerminal(Case):
    def on_a_terminal(self, columns, *arguments, env):
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(HARPE, [HARPE, *arguments], env)
        text = b""
        try:
            while True:
                text += os.read(terminal, 65536)
        except OSError:
            pass
        os.waitpid(pid, 0)
        return text.decode().replace("\r", "")

    def test_devices_and_reports_fit_80_columns_and_colour_can_be_switched_off(self):
        mixed = self.folder / "mixed.toml"
        mixed.write_text(f"""
state_file = "{self.folder}/mixed"
[[gpu]]
model = "a100-sxm"
mig = true
[[gpu]]
model = "h100-sxm"
[[cpu]]
dram_w = 12
[[fault]]
kind = "gpu_lost"
gpu = 1
""")
        for env in (self.bare, dict(self.bare, HARPE_SIMULATION=str(mixed))):
            env = dict(env, TERM="xterm")
            env.pop("NO_COLOR", None)
            for command in (["devices"], ["run", "--carbon", "DE", "--", "true"]):
                text = self.on_a_terminal(80, *command, env=env)
                self.assertIn("\x1b[", text) if "HARPE_SIMULATION" in env else None
                plain = self.on_a_terminal(80, *command, env=dict(env, NO_COLOR="1"))
                self.assertNotIn("\x1b", plain)
                long = [line for line in plain.splitlines() if len(line) > 80]
                self.assertEqual(long, [], plain)
                self.assertNotIn("\x1b", self.harpe(*command, env=env).stderr)


class SwitchLatency(Case):
    def wait_for_load(self, env):
        """Waits until a measurement keeps the first GPU busy."""
        def is_busy():
            return json.loads(self.harpe("devices", "--json", env=env).stdout)["gpus"][0]["utilisation"] > 0
        self.assertTrue(wait_until(is_busy))

    def test_latencies_of_simulated_gpus_are_found_and_clocks_put_back(self):
        pairs, table = self.folder / "pairs.csv", self.folder / "latency.csv"
        done = self.harpe("switch-latency", "--gpus", "0", "--clocks", "1410,1050", "--repeats", "5",
                          "--json", "--csv", str(pairs), "--table", str(table), env=self.simulated)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        result = json.loads(done.stdout)
        self.assertTrue(result["simulated"] and result["complete"])
        for pair in result["gpus"][0]["switches"]:
            self.assertEqual(pair["late"], 0)
            self.assertGreater(pair["transition"]["median_s"], 0.004)
            self.assertLess(pair["transition"]["median_s"], 0.05)
        self.assertEqual(len(list(csv.DictReader(pairs.read_text().splitlines()))), 2)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        for row in rows:
            self.assertTrue(0.003 < float(row["least_latency"]) <= float(row["latency"]), row)
        latencies = {int(row["frequency"]): float(row["latency"]) for row in rows}
        for pair in result["gpus"][0]["switches"]:
            self.assertAlmostEqual(latencies.pop(pair["to_mhz"]), pair["transition"]["max_s"], delta=1e-6)
        self.assertEqual(latencies, {})
        look = self.harpe("monitor", "--json", "--count", "1", env=self.simulated)
        self.assertEqual(look.returncode, 0)

    def test_a_load_that_ends_at_once_is_an_error(self):
        done = self.harpe("switch-latency", "--gpus", "0", "--clocks", "1410,1050", "--", "false",
                          env=self.simulated)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the load ended before the measurement", done.stderr)

    def test_no_gpu_is_measured_once_the_load_has_ended(self):
        for calls in range(1, 31, 2):  # calls of GPU 0; one of them is the first at the end of the load
            refusing = self.folder / f"refusing-{calls}.toml"
            refusing.write_text(SIMULATION.format(folder=self.folder).replace("/state", f"/state-{calls}") +
                                f'[[fault]]\nkind = "no_permission"\ngpu = 0\nafter_calls = {calls}\n')
            done = self.harpe("switch-latency", "--clocks", "1410,1050", "--repeats", "1", "--json", "--", "false",
                              env=dict(self.bare, HARPE_SIMULATION=str(refusing)))
            self.assertNotEqual(done.returncode, 0, calls)
            measured = [gpu["gpu"] for gpu in json.loads(done.stdout or '{"gpus": []}')["gpus"]
                        if any(pair["repetitions"] for pair in gpu["switches"])]
            self.assertEqual(measured, [], f"after {calls} calls")

    def test_an_interrupt_ends_it_early_with_what_there_is(self):
        process = subprocess.Popen([HARPE, "switch-latency", "--gpus", "0", "--repeats", "1000"],
                                   env=self.simulated, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.wait_for_load(self.simulated)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, err)
        self.assertIn("Not all repetitions were made", out)

    def test_an_interrupted_measurement_tells_what_it_has_and_what_it_has_not(self):
        table = self.folder / "pairs.csv"
        slow = self.folder / "slow.toml"
        slow.write_text(SIMULATION.format(folder=self.folder).replace("switch_ms = 10",
                                                                      "switch_ms = 10000"))
        env = dict(self.bare, HARPE_SIMULATION=str(slow))
        process = subprocess.Popen(
            [HARPE, "switch-latency", "--gpus", "0", "--timeout", "100", "--csv", str(table),
             "--clocks", "1410,1050"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for_load(env)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
        self.assertEqual(out.count("not measured"), 2, out)
        self.assertNotIn(" late", out)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([(row["repetitions"], row["late"], row["transition_median_s"])
                          for row in rows], [("0", "0", "")] * 2)

    def test_the_table_fits_80_columns_and_says_how_far_each_may_be_off(self):
        done = self.harpe("switch-latency", "--gpus", "0", "--repeats", "2", env=self.simulated)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if line.startswith("from ")]
        self.assertEqual(len(rows), 4)
        for row in rows:
            self.assertRegex(row, r"\d+\.\d±\d+\.\d <=\d+\.\d")
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)
        self.assertIn("median, error of each value, longest", done.stdout)

    def test_a_gpu_that_fails_does_not_lose_the_ones_before_it(self):
        table = self.folder / "pairs.csv"
        lost = self.folder / "lost.toml"
        lost.write_text(SIMULATION.format(folder=self.folder) +
                        '[[fault]]\nkind = "gpu_lost"\ngpu = 1\n')
        done = self.harpe("switch-latency", "--gpus", "0,1", "--repeats", "1", "--clocks",
                          "1410,1050", "--csv", str(table),
                          env=dict(self.bare, HARPE_SIMULATION=str(lost)))
        self.assertEqual(done.returncode, 69, done.stderr)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual({row["gpu"] for row in rows}, {"0"})

    def test_what_was_measured_before_a_gpu_was_lost_is_kept_and_the_rest_measured(self):
        table = self.folder / "pairs.csv"
        lost = self.folder / "lost.toml"
        lost.write_text(SIMULATION.format(folder=self.folder) +
                        '[[fault]]\nkind = "gpu_lost"\ngpu = 0\nafter_calls = 600\n')
        done = self.harpe("switch-latency", "--gpus", "0,1", "--repeats", "20", "--clocks",
                          "1410,1050", "--csv", str(table), "--json",
                          env=dict(self.bare, HARPE_SIMULATION=str(lost)))
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertRegex(done.stderr, r"(?s)GPU 0: after \d+ of 40 switches: .*lost.* are kept")
        result = json.loads(done.stdout)
        self.assertFalse(result["complete"])
        first, second = result["gpus"]
        self.assertEqual(first["error"]["code"], "unavailable")
        self.assertGreater(first["repetitions"], 0)
        self.assertLess(first["repetitions"], 40)
        self.assertEqual(first["repetitions_wanted"], 40)
        self.assertNotIn("error", second)
        self.assertEqual(second["repetitions"], 40)
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual({row["gpu"] for row in rows}, {"0", "1"})
        self.assertEqual(sum(int(row["repetitions"]) for row in rows), first["repetitions"] + 40)

    def test_unknown_clocks_are_named_with_the_nearest(self):
        done = self.harpe("switch-latency", "--clocks", "1410,1051", env=self.simulated)
        self.assertEqual(done.returncode, 2)
        self.assertIn("1050 MHz", done.stderr)

    def test_a_machine_without_gpus_is_told(self):
        done = self.harpe("switch-latency")
        self.assertEqual(done.returncode, 69)
        self.assertIn("nvml:", done.stderr)


if __name__ == "__main__":
    HARPE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_dir():
        SIMULATED_NVML = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=1)
