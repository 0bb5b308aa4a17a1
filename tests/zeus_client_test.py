#!/usr/bin/env python3
"""Zeus from PyPI, as it is, through the agent: its monitor, power limits and locked clocks on
simulated GPUs. Usage: zeus_client_test.py HARPE FOLDER_OF_NVML_LIBRARY VENV"""

import os
import pathlib
import subprocess
import sys
import textwrap

import agent_process
from agent_process import AgentTest

LIBRARY, VENV = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
PYTHON = VENV / "bin" / "python"
if not PYTHON.exists():
    print(f"{PYTHON} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)


class ZeusClient(AgentTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY), "PYTHONPATH": str(LIBRARY),
                            "HARPE_SIMULATION": str(self.simulation), "ZEUSD_SOCK_PATH": str(self.socket)}

    def zeus(self, code):
        return subprocess.Popen([PYTHON, "-c", textwrap.dedent(code)], env=self.environment, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        out, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return out

    def test_the_monitor_measures(self):
        self.start()
        out = self.finish(self.zeus("""
            import time
            from zeus.monitor import ZeusMonitor
            monitor = ZeusMonitor(gpu_indices=[0, 1])
            monitor.begin_window("w", sync_execution=False)
            time.sleep(1)
            window = monitor.end_window("w", sync_execution=False)
            print(window.gpu_energy[0], window.gpu_energy[1], window.time)
        """))
        first, second, seconds = map(float, out.split())
        self.assertAlmostEqual(seconds, 1, delta=0.3)
        for energy in (first, second):  # two idle A40
            self.assertGreater(energy / seconds, 15)
            self.assertLess(energy / seconds, 60)

    def test_limits_and_clocks_are_set_and_put_back_when_the_client_ends(self):
        self.start()
        client = self.zeus("""
            from zeus.device import get_gpus
            gpus = get_gpus()
            for index in range(len(gpus)):
                gpus.set_power_management_limit(index, 200_000, block=True)
                gpus.set_gpu_locked_clocks(index, 900, 1200, block=True)
                gpus.set_persistence_mode(index, True, block=True)
            gpus.set_power_management_limit(1, 180_000, block=False)
            print(gpus.get_power_management_limit(0), flush=True)
            input()
        """)
        self.assertEqual(client.stdout.readline().strip(), "200000", "" if client.poll() is None else client.stderr.read())
        self.wait_for(lambda: self.limits() == [200, 180])
        self.finish(client)
        self.wait_for(lambda: self.limits() == [300, 300])

    def test_a_killed_client_leaves_the_previous_limit(self):
        # An operator had set a limit other than the default before.
        subprocess.run([self.harpe, "limit", "set", "250", "--direct", "--simulate", self.simulation, "--gpus", "0"],
                       check=True, capture_output=True)
        self.start()
        client = self.zeus("""
            from zeus.device import get_gpus
            get_gpus().set_power_management_limit(0, 150_000, block=True)
            print("set", flush=True)
            input()
        """)
        self.assertEqual(client.stdout.readline().strip(), "set")
        self.assertEqual(self.limits(), [150, 300])
        client.kill()
        client.communicate()
        self.wait_for(lambda: self.limits() == [250, 300])

    def test_what_the_policy_forbids_is_an_exception(self):
        self.start()
        out = self.finish(self.zeus("""
            from zeus.device import get_gpus
            try:
                get_gpus().set_power_management_limit(0, 290_000, block=True)
            except Exception as error:
                print(type(error).__name__, error)
        """))
        self.assertIn("Zeusd", out)
        self.assertIn("policy", out)
        self.assertEqual(self.limits(), [300, 300])

    def test_power_is_streamed(self):
        self.start()
        out = self.finish(self.zeus("""
            import os, time
            from zeus.monitor.power_streaming import PowerStreamingClient
            from zeus.utils.zeusd import ZeusdConfig
            client = PowerStreamingClient(servers=[ZeusdConfig.uds(os.environ["ZEUSD_SOCK_PATH"])])
            for _ in range(100):
                readings = list(client.get_power().values())
                if readings and len(readings[0].gpu_power_w) == 2 and readings[0].cpu_power_w:
                    break
                time.sleep(0.1)
            print(sorted(readings[0].gpu_power_w), [round(cpu.cpu_w) for cpu in readings[0].cpu_power_w.values()])
            client.stop()
        """))
        self.assertEqual(out.strip(), "[0, 1] [90]")


if __name__ == "__main__":
    agent_process.run(sys.argv[1])
