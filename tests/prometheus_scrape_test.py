#!/usr/bin/env python3
"""A real Prometheus scrapes the running agent over TCP with a token, and can compute with what it
finds. Usage: prometheus_scrape_test.py HARPE"""

import json
import shutil
import subprocess
import sys
import textwrap
import urllib.parse
import urllib.request

import agent_process
from agent_process import AgentTest, free_port

if shutil.which("prometheus") is None:
    print("prometheus is missing: run scripts/install-dependencies.sh")
    sys.exit(77)


class Prometheus(AgentTest):
    def query(self, expression):
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(expression)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return json.load(response)["data"]["result"]
        except OSError:
            return []

    def test_it_is_scraped(self):
        agent = free_port()
        self.start("--tcp", f"127.0.0.1:{agent}", "--signing-key", self.key)
        self.port = free_port()
        self.write("token", self.token("gpu-read,cpu-read"))
        self.write("prometheus.yml", textwrap.dedent(f"""
            global: {{scrape_interval: 1s}}
            scrape_configs:
              - job_name: harpe
                authorization: {{credentials_file: {self.folder}/token}}
                static_configs: [{{targets: ["127.0.0.1:{agent}"]}}]
        """))
        server = subprocess.Popen(["prometheus", f"--config.file={self.folder}/prometheus.yml",
                                   f"--storage.tsdb.path={self.folder}/data",
                                   f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"])
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.wait_for(lambda: len(self.query("rate(harpe_gpu_energy_joules_total[10s]) > 0")) == 2, 60)
        self.assertEqual(self.query("up")[0]["value"][1], "1")
        power = float(self.query('harpe_gpu_power_watts{gpu="0"}')[0]["value"][1])
        self.assertGreater(power, 10)  # an idle A40
        self.assertLess(power, 100)
        self.assertEqual(len(self.query("harpe_cpu_package_energy_joules_total")), 1)


if __name__ == "__main__":
    agent_process.run(sys.argv[1])
