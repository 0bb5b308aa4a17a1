#!/usr/bin/env python3
"""Programs of other projects run on simulated GPUs as they are: nvidia-ml-py, gpustat, nvitop
and Zeus. Usage: nvml_programs_test.py FOLDER_OF_LIBRARY VENV"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

LIBRARY, VENV = (pathlib.Path(argument) for argument in sys.argv[1:3])
PYTHON = VENV / "bin" / "python"
if not PYTHON.exists():
    print(f"{PYTHON} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)


class Simulated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.simulate('[[gpu]]\nmodel = "a100-sxm"\ncount = 2\n[[gpu]]\nmodel = "a40"\n', gain="gain = 1\n")

    def simulate(self, gpus, gain=""):
        self.config = self.folder / "sim.toml"
        self.config.write_text(f'state_file = "{self.folder}/state"\n{gpus}{gain}')
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY), "PYTHONPATH": str(LIBRARY),
                            "HARPE_SIMULATION": str(self.config), "TERM": "xterm", "COLUMNS": "120"}

    def start(self, *command):
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def run_program(self, *command):
        process = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        return process.stdout

    def python(self, code):
        return self.run_program(PYTHON, "-c", textwrap.dedent(code))


class NvidiaMlPy(Simulated):
    def test_every_function_it_knows_is_there(self):
        out = self.python("""
            import ctypes, pathlib, pynvml, re
            names = set(re.findall(r'_nvmlGetFunctionPointer\\("(\\w+)"\\)', pathlib.Path(pynvml.__file__).read_text()))
            library = ctypes.CDLL("libnvidia-ml.so.1")
            print(len(names), [name for name in sorted(names) if not hasattr(library, name)])
        """)
        self.assertRegex(out, r"^[34]\d\d \[\]$")

    def test_reads_and_sets_through_its_own_structures(self):
        out = self.python("""
            import harpe_sim, json, time
            from pynvml import *
            nvmlInit()
            gpu = nvmlDeviceGetHandleByIndex(2)
            nvmlDeviceSetPowerManagementLimit(gpu, 200_000)
            nvmlDeviceSetGpuLockedClocks(gpu, 900, 900)
            harpe_sim.set_load(2, 0.5)
            time.sleep(1.2)  # what is an average is one over a second
            fields = nvmlDeviceGetFieldValues(gpu, [83, 185, (186, 0), 190])
            pci = nvmlDeviceGetPciInfo(gpu)
            print(json.dumps({
                "name": nvmlDeviceGetName(gpu), "bus": pci.busId, "device": pci.pciDeviceId >> 16,
                "limit": nvmlDeviceGetPowerManagementLimit(gpu), "clock": nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM),
                "fields": [[f.nvmlReturn, f.value.ullVal if f.valueType == 3 else f.value.uiVal] for f in fields],
                "memory": nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2).total,
                "processes": len(nvmlDeviceGetComputeRunningProcesses(gpu)),
                "details": len(nvmlDeviceGetRunningProcessDetailList(gpu, nvmlProcessDetailList_v1, 0)),
                "utilisation": nvmlDeviceGetUtilizationRates(gpu).gpu, "clocks": len(
                    nvmlDeviceGetSupportedGraphicsClocks(gpu, nvmlDeviceGetSupportedMemoryClocks(gpu)[0])),
                "temperature": [nvmlDeviceGetTemperature(gpu, 0), nvmlDeviceGetTemperatureV(gpu, 0)],
                "truth": harpe_sim.truth(2).power}))
        """)
        seen = json.loads(out)
        self.assertEqual([seen["name"], seen["bus"], seen["device"]], ["NVIDIA A40", "00000000:07:00.0", 0x2235])
        self.assertEqual([seen["limit"], seen["clock"], seen["clocks"]], [200_000, 900, 103])
        self.assertEqual([code for code, _ in seen["fields"]], [0, 0, 0, 0])
        self.assertEqual(seen["fields"][3][1], 200_000)
        self.assertAlmostEqual(seen["fields"][2][1] / 1000 / seen["truth"], 1, delta=0.05)
        self.assertEqual([seen["processes"], seen["details"]], [1, 1])
        self.assertEqual(seen["memory"], 48 << 30)
        self.assertAlmostEqual(seen["utilisation"], 50, delta=10)
        self.assertEqual(seen["temperature"][0], seen["temperature"][1])

    def test_errors_have_their_own_exceptions(self):
        self.simulate('set = "root"\n[[gpu]]\nmodel = "a40"\n[[gpu]]\nmodel = "a40"\n'
                      '[[fault]]\nkind = "no_permission"\ngpu = 0\n[[fault]]\nkind = "gpu_lost"\ngpu = 1\n')
        out = self.python("""
            from pynvml import *
            nvmlInit()
            for call in (lambda: nvmlDeviceSetPowerManagementLimit(nvmlDeviceGetHandleByIndex(0), 200_000),
                         lambda: nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(1)),
                         lambda: nvmlDeviceGetHandleByIndex(2),
                         lambda: nvmlDeviceGetEccMode(nvmlDeviceGetHandleByIndex(0))):
                try:
                    call()
                except NVMLError as error:
                    print(type(error).__name__, error.value)
        """)
        self.assertEqual([line.split()[1] for line in out.splitlines()], ["4", "15", "2", "3"])


class Gpustat(Simulated):
    def test_shows_the_gpus(self):
        self.python("import harpe_sim; harpe_sim.run(0, 1.3); harpe_sim.set_load(1, 1)")
        seen = json.loads(self.run_program(VENV / "bin" / "gpustat", "--json"))["gpus"]
        self.assertEqual([gpu["name"] for gpu in seen],
                         ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A40"])
        self.assertGreater(seen[1]["power.draw"], 300)
        self.assertEqual(seen[2]["memory.total"], 48 << 10)


class Nvitop(Simulated):
    def test_shows_the_gpus(self):
        seen = self.run_program(VENV / "bin" / "nvitop", "-1")
        self.assertEqual(len(re.findall("A100-SXM4-80GB", seen)), 2)
        self.assertRegex(seen, r"/ 300W")
        self.assertIn("harpe-sim", seen)


class Zeus(Simulated):
    def test_its_monitor_measures_what_was_spent(self):
        out = self.python("""
            import harpe_sim, json, time
            from zeus.monitor import ZeusMonitor
            monitor = ZeusMonitor(gpu_indices=[0, 2])
            before = harpe_sim.truth(0).energy
            monitor.begin_window("work", sync_execution=False)
            for _ in range(20):
                harpe_sim.run(0, 0.1)
            measured = monitor.end_window("work", sync_execution=False)
            print(json.dumps([measured.gpu_energy[0], harpe_sim.truth(0).energy - before]))
        """)
        measured, truth = json.loads(out.splitlines()[-1])
        # Zeus's window ends at the counter's last step.
        self.assertAlmostEqual(measured, truth, delta=0.12 * 480)
        self.assertGreater(truth, 700)

    def test_its_power_monitor_and_controls_work(self):
        self.simulate('[[gpu]]\nmodel = "a100-sxm"\ncount = 2\n', gain="gain = 1\n")  # it requires equal GPUs
        script = self.folder / "power.py"
        script.write_text(textwrap.dedent("""
            import harpe_sim, json, time
            from zeus.device import get_gpus
            from zeus.monitor.power import PowerMonitor
            if __name__ == "__main__":
                gpus = get_gpus()
                gpus.set_gpu_locked_clocks(1, 900, 900)
                gpus.set_power_management_limit(1, 300_000)
                harpe_sim.set_load(1, 0.5)
                monitor = PowerMonitor(gpu_indices=[1])
                time.sleep(1.5)
                begin = time.time()
                before = harpe_sim.truth(1).energy
                time.sleep(3)  # the window that is compared
                spent = harpe_sim.truth(1).energy - before
                time.sleep(0.3)
                print(json.dumps([monitor.get_energy(begin, begin + 3)[1], spent, harpe_sim.truth(1).clock,
                                  gpus.get_power_management_limit(1)]))
                monitor.stop()
        """))
        for _ in range(3):
            process = self.start(PYTHON, script)
            out, _ = process.communicate(timeout=120)
            if "failed to start within 10 seconds" not in out:
                break
        else:
            self.skipTest("Zeus's power monitor waits 10 s for its processes, too short on a machine this busy")
        self.assertEqual(process.returncode, 0, out)
        measured, truth, clock, limit = json.loads(out.splitlines()[-1])
        self.assertEqual([clock, limit], [900, 300_000])
        # It misses energy before its first and after its last sample.
        self.assertLess(measured, truth * 1.05)
        self.assertGreater(measured, truth * 0.7)


class Processes(Simulated):
    def test_share_one_state_and_survive_each_other(self):
        seed = 4711
        chance = random.Random(seed)
        victim = textwrap.dedent("""
            import harpe_sim
            from pynvml import *
            nvmlInit()
            gpu = nvmlDeviceGetHandleByIndex(0)
            print("ready", flush=True)
            while True:
                nvmlDeviceSetPowerManagementLimit(gpu, 200_000)
                nvmlDeviceSetGpuLockedClocks(gpu, 210, 900)
                harpe_sim.run(0, 0.001)
                nvmlDeviceGetTotalEnergyConsumption(gpu)
                nvmlDeviceSetPowerManagementLimit(gpu, 400_000)
                nvmlDeviceResetGpuLockedClocks(gpu)
        """)
        for _ in range(6):
            process = self.start(PYTHON, "-c", victim)
            self.assertEqual(process.stdout.readline().strip(), "ready", f"seed {seed}")
            time.sleep(chance.uniform(0.01, 0.15))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            limit = int(self.python("""
                from pynvml import *
                nvmlInit()
                print(nvmlDeviceGetPowerManagementLimit(nvmlDeviceGetHandleByIndex(0)))
            """))
            self.assertIn(limit, (200_000, 400_000, 467_000), f"seed {seed}")


class HarpeSim(Simulated):
    def test_runs_what_a_profile_says_at_the_clock_in_force(self):
        profile = self.folder / "profile.csv"
        profile.write_text("stage,instruction,frequency,time,energy\n"
                           "0,forward,900,0.4,80\n0,forward,1410,0.2,60\n")
        out = self.python(f"""
            import harpe_sim, json
            span = harpe_sim.run_profile(0, "{profile}", 0, "forward")
            print(json.dumps([harpe_sim.gpus(), span.end - span.begin]))
            for stage, instruction, file in ((7, "forward", "{profile}"), (0, "forward", "/nowhere.csv")):
                try:
                    harpe_sim.run_profile(0, file, stage, instruction)
                except harpe_sim.SimulationError as error:
                    print(error)
        """).splitlines()
        gpus, seconds = json.loads(out[0])
        self.assertEqual(gpus, 3)
        self.assertAlmostEqual(seconds, 0.2, delta=0.001)
        self.assertIn("has no forward of stage 7", out[1])
        self.assertIn("/nowhere.csv", out[2])

    def test_says_what_is_missing(self):
        del self.environment["HARPE_SIMULATION"]
        process = self.start(PYTHON, "-c", "import harpe_sim; harpe_sim.gpus()")
        out, _ = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("HARPE_SIMULATION names no simulation", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
