"""The processes of a demonstration: an agent on simulated GPUs, a server, a trainer of two pipelines with four stages each,
which talk over real sockets. What `harpe demo` and `harpe demo carbon` have in common."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request

from page_frame import digest

PIPELINES, STAGES, MICRO_BATCHES = 2, 4, 4
BLOCKING_W = 83.64
PATIENCE_S = 120  # without progress, on a machine with much other load
LONGEST_S = 600
TOLD_S = 15  # interval between messages about a wait
JOB = "demo"
SIMULATION = """# Eight A100 SXM whose clocks take 10 ms to change. Waiting draws what Perseus measured on A100.
# They warm up in seconds rather than in a minute, so that what is measured early holds later.
state_file = "{folder}/gpus"
[[gpu]]
model = "a100-sxm"
count = 8
gain = 1.0
limit_softness = 0.0
joule_per_kelvin = 30
idle_power_w = {blocking}
call_ms = 1
switch_ms = 10
switch_spread = 0.1
slow_target_share = 0
slow_pair_share = 0
"""
POLICY = '[[allow]]\nusers = ["*"]\ngpus = ["*"]\nread = true\nclocks_mhz = [210, 1410]\n'
LEFT_BEHIND = ("gpus", "jobs.db*", "control", "*.sock", "iterations.csv")  # files of an earlier demonstration


def wrapped(text, columns=80):
    """Wraps sentences at a column; lines with paths, such as commands to type, stay whole."""
    lines = []
    for line in text.split("\n"):
        if len(line) <= columns or "/" in line:
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) or 3)
        lines += textwrap.wrap(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def end_on_signals():
    """Raises SystemExit on signals, so that the processes that were started are ended, too."""
    ends = [end for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(end) is not signal.SIG_IGN]  # nohup ignores SIGHUP

    def leave(number, _):
        for end in ends:
            signal.signal(end, signal.SIG_IGN)
        sys.exit(128 + number)

    for end in ends:
        signal.signal(end, leave)


@contextlib.contextmanager
def temporary_folder():
    """Yields a folder for one demonstration. Removes the folders of killed demonstrations whose processes have all
    ended."""
    for old in pathlib.Path(tempfile.gettempdir()).glob("harpe-demo-*"):
        with contextlib.suppress(OSError):
            found = old.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            with open(old / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if lock.read() == socket.gethostname():  # a lock may be visible on one machine only
                    shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="harpe-demo-") as folder:
        yield folder


class DemoCluster:
    def __init__(self, harpe, trainer, folder, command=""):
        """command: the command that the user typed instead of this script's name: "harpe demo"."""
        self.command = command
        self.harpe, self.trainer, self.folder = harpe.resolve(), trainer.resolve(), pathlib.Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another demonstration runs in {self.folder}: end it, or give another --out")
        self.lock.write(socket.gethostname())
        self.lock.flush()
        end_on_signals()
        for pattern in LEFT_BEHIND:
            for old in self.folder.glob(pattern):
                old.unlink()
        self.processes = []
        self.url = None
        self.control = self.folder / "control"

    def start(self, name, command, **how):
        with open(self.folder / f"{name}.log", "w") as log:
            # The lock is inherited: the folder is in use until the last process has ended, even if this process is
            # killed.
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT,
                                       pass_fds=[self.lock.fileno()], **how)
        self.processes.append((name, process))
        return process

    def start_agent_and_server(self, *serve_options, idle_w=BLOCKING_W):
        """idle_w: power of a waiting GPU."""
        folder = self.folder
        self.idle_w = idle_w
        (folder / "simulation.toml").write_text(SIMULATION.format(folder=folder, blocking=idle_w))
        policy = folder / "policy.toml"
        policy.write_text(POLICY)
        policy.chmod(0o600)
        self.start("agent", [self.harpe, "agent", "--simulate", folder / "simulation.toml", "--policy", policy, "--socket",
                             folder / "agent.sock", "--clock-socket", folder / "clock.sock", "--minimum-dwell", "1ms",
                             "--audit-log", folder / "audit.jsonl"])
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.start("server", [self.harpe, "serve", "--tcp", f"127.0.0.1:{port}", "--store", f"sqlite:{folder}/jobs.db",
                              *serve_options])
        end = time.monotonic() + PATIENCE_S
        while not (folder / "clock.sock").exists() or not self.is_up():
            for name, process in self.processes:
                if process.poll() is not None:
                    sys.exit(f"the {name} has ended:\n" + (folder / f"{name}.log").read_text().rstrip())
            if time.monotonic() > end:
                sys.exit("agent and server did not start: see " + str(folder))
            time.sleep(0.05)

    def source(self):
        """Returns the origin of a page, for framed_page."""
        said = subprocess.run([self.harpe, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        near = os.path.relpath(sys.argv[0])
        command = shlex.split(self.command) or [sys.argv[0] if near.startswith("..") else near]
        left_out = ["--out"]  # the output folder has no influence on the result
        if self.command:
            left_out += ["--command", "--harpe", "--trainer"]  # set by that command
        words = iter(sys.argv[1:])
        for word in words:
            if word in left_out:
                next(words, None)
            elif not word.startswith(tuple(f"{option}=" for option in left_out)):
                command.append(word)
        simulation = (self.folder / "simulation.toml").read_text().replace(str(self.folder), ".")
        return {"program": said, "command": command, "inputs": [("simulation.toml", digest(simulation))],
                "documentation": "docs/simulated-gpus.md, docs/jobs.md."}

    def how_to_look(self):
        """Returns commands to type in another terminal in the meantime."""
        harpe = self.harpe if self.harpe != which("harpe") else "harpe"
        return (f"The server is at {self.url} while this runs. In another terminal:\n"
                f"   export HARPE_SERVER={self.url}\n"
                f"   {harpe} job watch {JOB}\n"
                f"   {harpe} job show {JOB}\n"
                f"   {harpe} job watch {JOB} --events\n")

    def start_trainer(self, iterations=100000, forward_s=0.03):
        return self.start("trainer", [
            self.trainer, "--simulation", self.folder / "simulation.toml", "--data", PIPELINES, "--stages", STAGES,
            "--micro-batches", MICRO_BATCHES, "--forward-s", forward_s, "--iterations", iterations, "--server", self.url,
            "--agent", self.folder / "clock.sock", "--job", JOB, "--control", self.control,
            "--log", self.folder / "iterations.csv"], env={**os.environ, "TRAINER_BLOCKING_W": str(self.idle_w)})

    def stop(self):
        for _, process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for _, process in reversed(self.processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.loads(response.read() or b"null")

    def is_up(self):
        try:
            self.ask("GET", "/health")
            return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def status(self):
        for name, process in self.processes:
            if process.poll() is not None:
                tail = (self.folder / f"{name}.log").read_text()[-2000:]
                sys.exit(f"the {name} has ended:\n{tail}")
        try:
            return self.ask("GET", f"/v1/jobs/{JOB}")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {"phase": "registering", "newest_iteration": -1, "version": 0}

    def wait(self, what, holds):
        begun = moved = told = time.monotonic()
        newest = None
        while True:
            status = self.status()
            if holds(status):
                return status
            now = time.monotonic()
            if status["newest_iteration"] != newest:
                newest, moved = status["newest_iteration"], now
            if now > min(moved + PATIENCE_S, begun + LONGEST_S):
                (self.folder / "status.json").write_text(json.dumps(status, indent=1))
                sys.exit(f"no result: waited {now - begun:.0f} s for {what} ({progress(status)}){busy()}.\n"
                         f"Run it again where little else runs. What the server says of the job is in {self.folder / 'status.json'}")
            if now > told + TOLD_S:
                print(f"   waiting for {what}: {progress(status)}, {now - begun:.0f} s{busy()}", file=sys.stderr, flush=True)
                told = now
            time.sleep(0.2)

    def wait_for_plans(self):
        """Waits for the best plans. Quick plans run first; the comparison uses the best ones."""
        return self.wait("the best plans", lambda status: status["phase"] in ("running", "straggling")
                         and status["characterization"] is None)


def add_program_options(parser):
    parser.add_argument("--harpe", type=pathlib.Path, help="the harpe command (default: from PATH)")
    parser.add_argument("--trainer", type=pathlib.Path, help="program built from examples/trainer.cc (default: the installed one)")
    # The name of the command that started this script, for messages.
    parser.add_argument("--command", default="", help=argparse.SUPPRESS)


def find_programs(arguments):
    """Sets programs that were not given to those of the installation that contains `harpe`."""
    arguments.harpe = arguments.harpe or which("harpe")
    if arguments.harpe is None:
        sys.exit("there is no harpe on the PATH: give --harpe, or install it (docs/install.md)")
    installed = arguments.harpe.resolve().parent.parent / "libexec" / "harpe" / "trainer"
    arguments.trainer = arguments.trainer or installed
    if not arguments.trainer.exists():
        sys.exit(f"there is no {arguments.trainer}: give --trainer, or run `harpe demo`, which finds it")


def progress(status):
    """Returns the progress of a job, as text for the user."""
    text = f"{status['phase']}, iteration {status['newest_iteration']}"
    searched = (status.get("characterization") or {}).get("fraction")
    if searched is None:
        return text
    if status["phase"] in ("running", "straggling"):
        return f"{text} by first plans, {100 * searched:.0f} % of the search for better ones done"
    return f"{text}, {100 * searched:.0f} % planned"


def busy():
    """Returns a note for the user if the machine has other load."""
    load, processors = os.getloadavg()[0], os.cpu_count()
    return f" (this machine is busy: load {load:.1f} on {processors} processors)" if load > 1.5 * processors else ""


def which(program):
    found = shutil.which(program)
    return pathlib.Path(found).resolve() if found else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
