#!/usr/bin/env python3
"""What README and docs tell users to type: every command runs, in the order in which a page has it, in a folder of its
own, on simulated GPUs; and every option that a page names is one that its command has.
Usage: documented_commands_test.py HARPE NVML_FOLDER"""

import calendar
import contextlib
import itertools
import json
import math
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import server_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HARPE, NVML = None, None

# Commands that cannot run here, and the tests that run them instead, by the beginning of a command.
ELSEWHERE = {
    r"sudo |sudoedit ": "changes the machine; packages_test.sh and install_test.sh install into empty roots",
    r"(\./)?scripts/|cmake |ctest ": "builds and tests; the tests themselves are its run",
    r"build/(quick|release|asan|venv)|bench/|for i in |/usr/bin/python3 tests/": "benchmarks, tests, and programs of others that have tests",
    r"python3 -m venv ~/venv/zeus|~/venv/zeus/|ZEUS_PFO_": "Zeus's server; zeus_pipeline_test.py",
    r"python3 -m venv |\. ~/venv/|pip install out/": "wheel_test.py",
    r"harpe --version$": "of the wheel; wheel_test.py",
    r"harpe demo ": "takes over a minute; run_demo, run_carbon_demo, packages_test.sh",
    r"docker run ": "needs an engine that runs, and GPUs; container_test.sh starts what is in the images",
    r"tar -xf harpe-|harpe/bin/harpe ": "scripts/portable.sh, which runs what is in its archive",
    r"sqlite3 ": "stores have tests of their own",
    r"HARPE_OBSERVE=1 .*torchrun ": "training that is only observed; end_to_end_test.py",
    r"sbatch |while harpe job wait|(srun |HARPE_JOB=demo )?torchrun ": "Slurm and launchers; launchers_test.py",
    r"curl .*https://server": "server_tls_test.py",
    r'echo >> "\$HARPE_STEPS"': "a line of a training script; run_optimize_test.py",
    r"harpe serve .*(postgresql://|--signing-key)|openssl |harpe agent --tcp|harpe agent token": "server_tls_test.py, agent_tls",
    r"(harpe carbon (now|history|forecast)|harpe serve --carbon) ": "asks providers over the network; carbon_source has their answers",
    r"harpe carbon simulate": "takes minutes; carbon_replay has its tests",
    r"harpe carbon report --server": "the operator's server; server_carbon_test.py",
    r"harpe run --carbon DE|harpe run --optimize": "asks a provider or needs an agent; run_optimize_test.py",
    r"harpe switch-latency .* -- python3 -c": "loads a real GPU; switch_latency has its tests",
    r"harpe monitor$": "needs a GPU that is there",
    r"harpe profile measure ": "profile_measure_test.py",
    r"harpe agent --simulate |HARPE_SERVER=.* python3 examples/|harpe job watch demo": "training; end_to_end_test.py",
    r"harpe lab reproduce ": "reads data that are not in the repository; reproduce/sosp24_test",
    r"harpe replay power-limit": "wants a file of Zeus's dataset; limit_replay_test",
    r"curl --unix-socket /run/harpe": "the node's own agent; packages_test.sh",
    r"rm /dev/shm": "takes what other tests use",
    r"export PATH=": "the test has harpe on its PATH",
    r"export (HARPE_SIMULATION|LD_LIBRARY_PATH)=": "the test's environment has them",
}
# Requests that a server refuses without training; the page shows their form.
REFUSED = {"docs/server.md": ("/reports", "/frontier", "/profile", "/stragglers/1", "/events")}
JOBS = {"README.md": "demo"}  # pages whose job commands use another job than gpt3
MOST_S = 60
# The source that pages with a running server assume.
CARBON = "file:grid.csv?zone=DE&time=time&value=grams&unit=g/kWh&kind=direct"


def blocks(page):
    """Returns fenced blocks of shell, and files that a page shows with their name in the first line: (kind, line,
    text)."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```(sh|toml)\n(.*?)^```", text, re.M | re.S):
        yield block[1], text[:block.start(2)].count("\n") + 1, block[2]


def commands(line, block):
    """Returns the commands of a block, each as one text: (line, text), without prompts and comments."""
    lines = block.split("\n")
    while lines:
        at, command = line, re.sub(r"^\$ ", "", lines.pop(0))
        line += 1
        while lines and not is_whole(command):
            command += "\n" + lines.pop(0)
            line += 1
        if command.strip() and not command.startswith("#"):
            yield at, command if "\n" in command else re.sub(r"[ \t]+# .*$", "", command)


def is_whole(command):
    if command.endswith("\\"):
        return False
    if not re.search(r"""['"]|<<|\b(for|while|do)\b""", command):
        return True
    checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
    return checked.returncode == 0 and "here-document" not in checked.stderr


def all_commands(page):
    return [found for kind, line, block in blocks(page) if kind == "sh" for found in commands(line, block)]


def options_by_command():
    """Reads the options from the generated reference, which a test compares with the command itself."""
    found = {}
    for section in re.split(r"^## (?=harpe)", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, text = section.partition("\n")
        found[name.strip()] = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    return found


class DocumentedCommands(unittest.TestCase):
    def test_every_option_is_one_that_its_command_has(self):
        known = options_by_command()
        self.assertGreater(len(known), 40)
        wrong, seen = [], 0
        for page in PAGES:
            if page.name == "cli.md":
                continue
            text = page.read_text(encoding="utf-8")
            spans = [(text[:span.start()].count("\n") + 1, span[1])
                     for span in re.finditer(r"`(harpe [^`]+)`", text)]
            for line, command in [*spans, *all_commands(page)]:
                for part in re.split(r"&&|;|\|(?!-)", command.replace("\\\n", " ")):
                    words = part.strip().lstrip("[").split()
                    if words[:1] == ["sudo"]:
                        words = words[1:]
                    if words[:1] != ["harpe"]:
                        continue
                    name = max((n for n in known if words[:len(n.split())] == n.split()), key=len)
                    if "--" in words:
                        words = words[:words.index("--")]
                    for word in words[len(name.split()):]:
                        option = re.match(r"\[?(--?[a-zA-Z][\w-]*)", word)
                        seen += option is not None
                        if option and option[1] not in known[name]:
                            wrong.append(f"{page.relative_to(ROOT)}:{line}: {name} has no {option[1]}")
        self.assertGreater(seen, 100)
        self.assertEqual(wrong, [])


class Shell:
    """A reader's folder, with everything that the page assumes."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "home").mkdir()
        (folder / "home" / ".curlrc").write_text('fail-with-body\nsilent\nshow-error\nmax-time = 20\n')
        (folder / "bin").mkdir()
        (folder / "bin" / "harpe").symlink_to(HARPE)
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "train.py").write_text("sum(range(10 ** 6))\n")
        header = "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (LCA)"
        for year in (2021, 2022):
            begin = calendar.timegm((year, 1, 1, 0, 0, 0))
            self.write_hours(f"ES_{year}_hourly.csv", header, begin, 365, ",Spain,Spain,ES")
        self.write_hours("grid.csv", "time,grams", int(time.time()) // 3600 * 3600 - 7 * 86400, 14)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.environment = {
            **os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder / "home"),
            "HARPE_SIMULATION": str(folder / "examples" / "simulations" / "a100x4.toml"),
            "LD_LIBRARY_PATH": NVML, "PYTHONPATH": NVML, "HARPE_SERVER": f"http://127.0.0.1:{self.port}"}
        self.server = None
        # Replacements for measured profiles.
        self.run("harpe synth --out gpt3-175b_a100-sxm.csv && harpe synth --stages 16 --out unequal.csv")
        self.run("harpe synth --stages 2 --out p.csv && "
                 "harpe plan --profile p.csv --micro-batches 4 --blocking-power 80 --out plan")

    def write_hours(self, name, header, begin, days, between=""):
        with open(self.folder / name, "w", encoding="utf-8") as file:
            print(header, file=file)
            for k in range(24 * days):
                at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(begin + 3600 * k))
                print(f"{at}{between},{200 + 80 * math.sin(k / 12 * math.pi) + 7 * k % 31:.2f}", file=file)

    def serve(self, words):
        self.stop()
        words = [word.replace("/var/lib/harpe", str(self.folder)) for word in words]
        if "--tcp" in words:
            at = words.index("--tcp")
            del words[at:at + 2]
        self.server = subprocess.Popen([*words, "--tcp", f"127.0.0.1:{self.port}"], cwd=self.folder,
                                       env=self.environment, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.server.stderr:
            said.append(line)
            if "listening on" in line:
                return 0, ""
        return self.server.wait(), "".join(said)

    def stop(self):
        if self.server is not None:
            self.server.terminate()
            self.server.wait(30)
            self.server.stderr.close()
            self.server = None

    def run(self, command):
        command = command.replace("localhost:7787", f"127.0.0.1:{self.port}")
        if command.startswith("harpe serve"):
            return self.serve(shlex.split(command))
        if command.startswith(("curl -N", "harpe monitor", "harpe job watch")):  # these run until they are stopped
            command = f"timeout --preserve-status --signal=INT 2 {command} >/dev/null"
        try:
            run = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=MOST_S)
        except subprocess.TimeoutExpired as slow:
            return "no end", slow.output or ""
        return run.returncode, run.stdout


class PagesRun(unittest.TestCase):
    def send(self, shell, method, path, body):
        command = f"curl -X {method} localhost:7787/v1/jobs/{path} -d {shlex.quote(json.dumps(body))}"
        status, said = shell.run(command)
        self.assertEqual(status, 0, said)

    def plan_a_job(self, shell, name):
        self.send(shell, "PUT", name, server_process.specification(data=2))
        for data, stage in itertools.product(range(2), range(2)):
            self.send(shell, "POST", f"{name}/ranks", {"data": data, "stage": stage, "session": f"s{data}{stage}",
                                                       "clocks_mhz": server_process.CLOCKS})
        end = time.monotonic() + MOST_S
        while shell.run(f"curl localhost:7787/v1/jobs/{name}/frontier")[0] != 0:
            self.assertLess(time.monotonic(), end, "the job has no plans")

    def check(self, page):
        name = str(page.relative_to(ROOT))
        failed, last_plan = [], ""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
            shell = Shell(pathlib.Path(folder))
            ends.callback(shell.stop)
            for kind, line, block in blocks(page):
                if kind == "toml" and (named := re.match(r"# ([\w.-]+)\n", block)):
                    (shell.folder / named[1]).write_text(block)
                for at, command in runnable(line, block) if kind == "sh" else []:
                    if command.startswith("harpe job") and shell.server is None:
                        status, said = shell.serve(["harpe", "serve", "--store", "none", "--carbon", CARBON])
                        self.assertEqual(status, 0, said)
                        self.plan_a_job(shell, JOBS.get(name, "gpt3"))
                    # "harpe plan ... --slowdown 5" refers to the first plan of the page.
                    last_plan = last_plan or (command if command.startswith("harpe plan --profile") else "")
                    status, said = shell.run(command.replace("harpe plan ...", last_plan))
                    if status != 0 and not any(part in command for part in REFUSED.get(name, ())):
                        failed.append(f"{name}:{at}: {command}\n  status {status}: {said[-600:]}")
        self.assertEqual(failed, [], "\n".join(failed))


def runnable(line, block):
    return [(at, command) for at, command in commands(line, block)
            if not any(re.match(beginning, command) for beginning in ELSEWHERE)]


def add_pages():
    for page in PAGES:
        if any(runnable(line, block) for kind, line, block in blocks(page) if kind == "sh"):
            setattr(PagesRun, "test_" + page.stem.lower().replace("-", "_"), lambda self, page=page: self.check(page))


if __name__ == "__main__":
    HARPE, NVML = sys.argv[1:3]
    add_pages()
    unittest.main(argv=["test", "-v", *sys.argv[3:]])
