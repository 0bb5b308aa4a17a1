#!/usr/bin/env python3
"""The wheel of scripts/wheel.sh, installed where there is no compiler and nothing else of Python's.
Usage: wheel_test.py REPOSITORY FOLDER_FOR_THE_WHEEL PYNVML [--local]
PYNVML is nvidia-ml-py's only file, pynvml.py. With --local the wheel is made of build/release."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY, OUT, PYNVML = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
LOCAL = sys.argv[4:]
# Programs of a user's shell; no compiler, no CMake, no Harpe.
TOOLS = ("env", "sh", "sleep", "uname")


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = subprocess.run([REPOSITORY / "scripts" / "wheel.sh", *LOCAL, OUT], capture_output=True, text=True)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        (cls.wheel,) = OUT.glob("harpe-*.whl")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "tools").mkdir()
        for tool in TOOLS:
            (cls.folder / "tools" / tool).symlink_to(shutil.which(tool))
        venv = cls.folder / "venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True)
        cls.bin = venv / "bin"
        cls.environment = {"PATH": f"{cls.bin}:{cls.folder / 'tools'}", "HOME": folder.name, "LANG": "C.UTF-8"}
        begin = time.monotonic()
        cls.check("pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", cls.wheel)
        cls.install_s = time.monotonic() - begin
        cls.check("harpe", "synth", "--out", cls.folder / "gpt3.csv")
        cls.simulations = pathlib.Path(cls.python("import harpe; print(harpe.__path__[0])").strip()) / "simulations"

    @classmethod
    def run_program(cls, program, *arguments, **variables):
        # Not in the folder of the tests, so that the installed module is found.
        return subprocess.run([cls.bin / program, *map(str, arguments)], env={**cls.environment, **variables},
                              cwd=cls.folder, capture_output=True, text=True, timeout=120)

    @classmethod
    def check(cls, program, *arguments, **variables):
        done = cls.run_program(program, *arguments, **variables)
        if done.returncode != 0:
            raise AssertionError(f"{program} {arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def python(cls, code, **variables):
        return cls.check("python", "-c", code, **variables)

    def test_it_is_installed_in_seconds(self):
        self.assertLess(self.install_s, 30)
        self.assertIsNone(shutil.which("cc", path=self.environment["PATH"]))
        self.assertIsNone(shutil.which("cmake", path=self.environment["PATH"]))

    def test_the_command_plans(self):
        out = self.check("harpe", "plan", "--json", "--profile", "gpt3.csv", "--micro-batches", "24", "--blocking-power",
                         "83.64", "--out", "plan")
        self.assertGreater(json.loads(out)["plans"]["chosen"]["saving_percent"], 0)
        self.assertTrue((self.folder / "plan" / "report.html").exists())

    def test_the_command_keeps_arguments_status_and_signals(self):
        done = self.run_program("harpe", "run", "--out", "report.json", "--", "sh", "-c", "echo \"$0\"; exit 3", "a  b")
        self.assertEqual((done.returncode, done.stdout), (3, "a  b\n"))
        self.check("harpe", "run", "--", "sleep", "1")
        child = subprocess.Popen([self.bin / "harpe", "run", "--out", "r.json", "--", "sh", "-c", "echo up; exec sleep 60"],
                                 env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True)
        self.assertEqual(child.stdout.readline(), "up\n")
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM)

    def test_the_agent_is_there_too(self):
        self.assertIn("harpe-agent", self.check("harpe-agent", "--help"))
        self.assertIn("agent", self.check("harpe", "agent", "--help"))

    def test_the_experiments_are_there_too(self):
        self.assertIn("sosp24", self.check("harpe", "lab", "reproduce", "--help"))
        self.assertEqual(self.check("harpe-lab", "--help"), self.check("harpe", "lab", "--help"))
        self.assertEqual(self.check("harpe", "--version"), self.check("python", "-m", "harpe", "--version"))

    def test_the_demonstrations_start(self):
        for name in ([], ["carbon"]):
            with self.subTest(name):
                # Not in the folder of the tests: everything it needs must be in the wheel.
                demo = subprocess.Popen([self.bin / "harpe", "demo", *name, "--out", self.folder / "demo"],
                                        env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, text=True)
                try:
                    self.assertTrue(any(line.startswith("1. A job of 2 pipelines") for line in demo.stdout))
                    demo.terminate()
                    demo.communicate(timeout=60)
                    self.assertEqual(demo.returncode, 128 + signal.SIGTERM)
                finally:
                    demo.kill()
                    demo.wait()

    def test_help_says_where_the_pages_are(self):
        folder = pathlib.Path(self.check("harpe", "--help").split()[-1])
        self.assertEqual(folder, self.simulations.parent / "docs")
        self.assertIn("harpe.start", (folder / "python.md").read_text(encoding="utf-8"))

    def test_python_plans_and_measures(self):
        said = self.python(
            "import harpe\n"
            "plan = harpe.plan('gpt3.csv', micro_batches=24, blocking_power=83.64)\n"
            "plan.save('saved', points=2)\n"
            "with harpe.measure(carbon='DE') as m: sum(range(10**6))\n"
            "print(plan.saving > 0, m.joules > 0, m.simulated, m.grams_co2 > 0, harpe.__version__ in %r)" % self.wheel.name,
            HARPE_SIMULATION=str(self.simulations / "a100x4.toml"))
        self.assertEqual(said, "True True True True True\n")

    def test_programs_of_others_see_the_simulated_gpus(self):
        shutil.copy(PYNVML, self.folder / "pynvml.py")
        said = self.python(
            "import pynvml\n"
            "pynvml.nvmlInit()\n"
            "first = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
            "print(pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetName(first))",
            HARPE_SIMULATION=str(self.simulations / "a100x4.toml"),
            LD_LIBRARY_PATH=str(self.simulations.parent / "simulated_nvml"))
        self.assertTrue(said.startswith("4 NVIDIA A100"), said)

    def test_types_travel_with_it(self):
        files = self.python("import importlib.metadata as m; print(*m.files('harpe'))").split()
        for file in ("harpe/py.typed", "harpe/_client.pyi"):
            self.assertIn(file, files)
        # Licenses of the libraries inside; a local wheel uses those of the system.
        self.assertEqual("harpe/licenses/curl.txt" in files, not LOCAL)

    @unittest.skipIf(LOCAL, "a local wheel has PostgreSQL")
    def test_a_store_in_postgresql_is_refused_with_the_way_out(self):
        done = self.run_program("harpe", "serve", "--tcp", "127.0.0.1:0", "--store", "postgresql://harpe:secret@127.0.0.1/harpe")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("stores jobs only in SQLite", done.stderr)
        self.assertNotIn("secret", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
