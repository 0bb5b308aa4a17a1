#!/usr/bin/env python3
"""What shells offer of a running system when one presses Tab: jobs of the server, UUIDs of GPUs.
Usage: completion_test.py HARPE"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import server_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _harpe; printf "%s\\n" "${COMPREPLY[@]}"'


class Completion(server_process.ServerTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "harpe").symlink_to(self.harpe)
        self.environment = {**os.environ, "PATH": f"{folder.name}:{os.environ['PATH']}",
                            "HARPE_SIMULATION": str(ROOT / "examples" / "simulations" / "a100x4.toml")}

    def offered(self, *words):
        ran = subprocess.run(["bash", "-c", f"source <(harpe completion bash); {WORDS}", "bash", "harpe", *words],
                             env=self.environment, capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(ran.stderr, "")
        return ran.stdout.split()

    def test_jobs_of_the_server(self):
        self.start()
        self.environment["HARPE_SERVER"] = f"http://{self.address}"
        for job in ("gpt3-a", "gpt3-b", "bloom"):
            self.begin(job)
        self.assertEqual(self.offered("job", "show", "gpt"), ["gpt3-a", "gpt3-b"])
        self.assertIn("bloom", self.offered("job", "straggler", ""))
        self.assertEqual(self.offered("batch-size", "show", "gpt"), [])

    def test_without_a_server_nothing_but_options(self):
        self.environment["HARPE_SERVER"] = "http://127.0.0.1:9"
        self.assertTrue(all(word.startswith("-") for word in self.offered("job", "show", "")))

    def test_gpus_of_this_machine(self):
        offered = self.offered("clock", "set", "1200", "--gpus", "GPU-")
        self.assertEqual(len(offered), 4)

    def test_zsh_and_fish_ask_the_same(self):
        for shell in ("zsh", "fish"):
            script = subprocess.run([self.harpe, "completion", shell], capture_output=True, text=True, check=True).stdout
            self.assertIn("harpe completion jobs", script)
            self.assertIn("harpe completion gpus", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
