"""An agent on simulated GPUs, and the plainest of HTTP clients, for tests of the running agent."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest

GPUS = '[[gpu]]\nmodel = "a40"\ncount = 2\n[[cpu]]\ncount = 1\npower_w = 90\ndram_w = 12\n'
POLICY = """[[allow]]
users = ["*"]
tokens = ["alice"]
gpus = ["*"]
read = true
clocks_mhz = [210, 1740]
memory_clocks_mhz = [405, 7251]
power_limit_w = [100, 280]
persistence_mode = true
max_lease_s = 3600
"""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def read_response(file):
    """Reads one response of a keep-alive connection; None at its end."""
    line = file.readline()
    if not line:
        return None
    status = int(line.split()[1])
    headers = {}
    while (line := file.readline().strip()):
        name, value = line.split(b":", 1)
        headers[name.decode().lower()] = value.strip().decode()
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, "")
    return Answer(status, headers, file.read(int(headers.get("content-length", "0"))).decode())


class AgentTest(unittest.TestCase):
    harpe = None  # set by the test script

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.socket = self.folder / "agent.sock"
        self.simulation = self.write("sim.toml", f'state_file = "{self.folder}/state"\n{GPUS}')
        self.policy = self.write("policy.toml", POLICY)
        self.key = self.write("key", "0123456789abcdef0123456789abcdef\n")
        self.agent = None

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def command(self, *options):
        return [self.harpe, "agent", "--policy", self.policy, "--simulate", self.simulation, "--socket", self.socket,
                "--log", self.folder / "log", *options]

    def start(self, *options, **how):
        self.agent = subprocess.Popen(self.command(*options), stderr=subprocess.PIPE, text=True, **how)
        self.addCleanup(self.stop)
        said = []
        wanted = 2 if "--tcp" in options else 1
        while sum("listening on" in line for line in said) < wanted:
            line = self.agent.stderr.readline()
            if not line:
                self.fail("the agent did not start: " + "".join(said))
            said.append(line)
        return said

    def stop(self):
        if self.agent.poll() is None:
            self.agent.terminate()
        self.agent.wait(30)
        self.agent.stderr.close()
        return self.agent.returncode

    def refused_start(self, *options):
        run = subprocess.run(self.command(*options), capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        return run.stderr

    def connect(self, timeout=20):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(str(self.socket))  # blocks while the backlog is full
        connection.settimeout(timeout)
        return connection

    def ask(self, method, target, body=None, headers=(), connection=None):
        text = json.dumps(body).encode() if body is not None else b""
        own = connection is None
        connection = connection or self.connect()
        lines = [f"{method} {target} HTTP/1.1", "Host: any", f"Content-Length: {len(text)}", *headers]
        with contextlib.suppress(BrokenPipeError):  # a refused connection may get its response before its request
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
        with connection.makefile("rb") as file:
            response = read_response(file)
        if own:
            connection.close()
        return response

    def raw(self, data, timeout=20):
        """Returns the agent's whole response to these bytes, until it closes the connection."""
        connection = self.connect(timeout)
        connection.sendall(data)
        response = b""
        while (more := connection.recv(65536)):
            response += more
        return response

    def limits(self):
        limits = self.ask("GET", "/gpu/get_power_limit").json()
        return [limits[gpu]["power_limit_mw"] // 1000 for gpu in sorted(limits)]

    def wait_for(self, what, seconds=10):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                self.fail("it did not happen in time")
            time.sleep(0.02)

    def token(self, scopes, expires="1h"):
        run = subprocess.run([self.harpe, "agent", "token", "issue", "--signing-key", self.key, "--user", "alice",
                              "--scope", scopes, "--expires", expires], capture_output=True, text=True, check=True)
        return run.stdout.strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(harpe):
    AgentTest.harpe = pathlib.Path(harpe).resolve()
    os.umask(0o022)
    unittest.main(argv=["test"], verbosity=2)
