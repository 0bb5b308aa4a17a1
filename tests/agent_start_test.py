#!/usr/bin/env python3
"""`harpe agent` finds harpe-agent and becomes it.
Usage: agent_start_test.py HARPE"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HARPE = pathlib.Path(sys.argv.pop())
# Replaces harpe-agent: prints its environment and arguments.
STAND_IN = """#!/bin/sh
echo "$0"
echo "$$ $LISTEN_PID $LISTEN_FDS"
echo "$*"
/bin/cat
exit 7
"""


class Start(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        self.harpe = self.folder / "bin" / "harpe"
        shutil.copy(HARPE, self.harpe)

    def stand_in(self, place):
        file = self.folder / place / "harpe-agent"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(STAND_IN)
        file.chmod(0o755)
        return file

    def run_harpe(self, *words, **environment):
        return subprocess.run([self.harpe, *words], capture_output=True, text=True, timeout=60, input="typed\n",
                              cwd=self.folder, env={**os.environ, "PATH": f"{self.folder}/none", **environment})

    def test_it_becomes_the_agent(self):
        file = self.stand_in("bin")
        words = ["--socket", "a b.sock", "--dry-run", "--json"]
        # The sockets from systemd are for the process with this id.
        command = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", self.harpe, "agent", *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said, _ = process.communicate("typed\n", timeout=60)
        self.assertEqual(said.splitlines(),
                         [str(file), f"{process.pid} {process.pid} 1", " ".join(words), "typed"])
        self.assertEqual(process.returncode, 7)

    def test_it_looks_beside_itself_then_in_libexec_then_in_path(self):
        for place in ["path", "libexec/harpe", "bin"]:
            file = self.stand_in(place)
            said = self.run_harpe("agent", PATH=f"{self.folder}/path")
            self.assertEqual(said.stdout.splitlines()[0], str(file), said.stderr)

    def test_the_working_directory_has_no_say(self):
        self.stand_in(".")
        self.stand_in("path")
        for path in ["path", ".", "", ":"]:
            self.assertEqual(self.run_harpe("agent", PATH=path).returncode, 69, path)

    def test_it_says_where_it_looked_and_what_helps(self):
        said = self.run_harpe("agent", "--dry-run")
        self.assertEqual((said.returncode, said.stdout), (69, ""))
        self.assertIn(f"no such program in {self.folder}/bin, {self.folder}/libexec/harpe, {self.folder}/none", said.stderr)
        self.assertIn("cmake --install", said.stderr)
        said = self.run_harpe("agent", "--json")
        self.assertEqual(json.loads(said.stdout)["error"]["code"], "unavailable")
        (self.folder / "bin" / "harpe-agent").write_text("neither a program nor a script\0")
        (self.folder / "bin" / "harpe-agent").chmod(0o755)
        said = self.run_harpe("agent")
        self.assertEqual(said.returncode, 69)
        self.assertIn("cannot be started: Exec format error", said.stderr)

    def test_help_and_wrong_words_need_no_agent(self):
        self.assertIn("--owner-cpus CPUS", self.run_harpe("agent", "--help").stdout)
        self.assertIn("--expires", self.run_harpe("agent", "token", "issue", "--help").stdout)
        said = self.run_harpe("agent", "--sockt", "a")
        self.assertEqual(said.returncode, 2)
        self.assertIn("did you mean '--socket'?", said.stderr)

    def test_both_have_the_same_options(self):
        def told(*command):
            return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout

        agent = HARPE.with_name("harpe-agent")
        for words in [(), ("token",), ("token", "issue")]:
            both = [told(HARPE, "agent", *words), told(agent, *words).replace("harpe-agent", "harpe agent")]
            both[1] = both[1].replace("  --version                     Show the version\n", "")
            self.assertEqual(*both)
        self.assertRegex(subprocess.run([agent, "--version"], check=True, capture_output=True, text=True).stdout,
                         r"^harpe-agent \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
