"""The programs of a run, each on its machine: PostgreSQL, servers, and nodes with an agent and a trainer."""

import json
import os
import pathlib
import signal
import subprocess

import postgres_process

LEASE_S = 2.0  # of servers, instead of 10 s
PATIENCE_S = 5.0  # of ranks, instead of 30 s
PORT = 7787
KEY = "0123456789abcdef0123456789abcdef"
TRAINER_USER, INTRUDER_USER = 12001, 12002
FOUND_MHZ = 1200  # an administrator has locked GPU 0 of each node to this clock
IDLE_MHZ = 210  # the clock of idle GPUs without a lock
SIMULATION = """state_file = "{folder}/gpus"
shared_by = "everyone"
set = "root"
[[gpu]]
model = "a100-sxm"
count = {gpus}
gain = 1.0
call_ms = 1
switch_ms = 10
switch_spread = 0.1
slow_target_share = 0
slow_pair_share = 0
"""
POLICY = f"""[[allow]]
users = [{TRAINER_USER}]
gpus = ["*"]
read = true
clocks_mhz = [210, 1410]
[[allow]]
users = [0]
gpus = ["*"]
read = true
"""


def tmpfs(path, size):
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", path], check=True)
    return path


def as_another(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]


class FullDisk:
    """Uses up the rest of a small file system, and releases it."""

    def __init__(self, path):
        self.ballast = path / "ballast"

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as file:
            block = 1 << 16
            while block >= 512:
                try:
                    file.write(b"\1" * block)
                except OSError:
                    block //= 2

    def free(self):
        self.ballast.unlink(missing_ok=True)


class Program:
    """A process that is started repeatedly. It appends to its log."""

    def __init__(self, name, machine, network, history, folder):
        self.name, self.machine, self.network, self.history, self.folder = name, machine, network, history, folder
        self.process = None
        self.expected = False  # true if it should be running
        self.ended_on_purpose = self.stopped = False
        folder.mkdir(exist_ok=True)

    def command(self):
        raise NotImplementedError

    environment = {}

    def start(self):
        with open(self.folder / (self.name + ".log"), "ab") as log:
            self.process = subprocess.Popen(self.network.command(self.machine, self.command()), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env={**os.environ, **self.environment})
        self.expected, self.ended_on_purpose, self.stopped = True, False, False
        self.tell("up")

    def count_in_log(self, text):
        return (self.folder / (self.name + ".log")).read_text().count(text)

    def tell(self, state, **more):
        self.history.add("program", program=self.name, state=state, **more)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def end(self, how=signal.SIGKILL, seconds=30):
        """Ends the program; SIGTERM: orderly. Returns True if it ended within the time."""
        self.expected, self.ended_on_purpose = False, True
        if not self.runs():
            return True
        self.go_on()
        self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            return False
        finally:
            self.tell("down")
        return True

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True
        self.tell("stopped")

    def go_on(self):
        if self.stopped and self.runs():
            self.process.send_signal(signal.SIGCONT)
            self.tell("up")
        self.stopped = False

    def look(self):
        """Records it if the program ended on its own."""
        if not self.expected or self.runs():
            return
        self.expected = False
        self.tell("down", by_itself=True, status=self.process.returncode)

    def memory(self):
        """Records its peak memory in MiB, its threads and open files."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        values = {line.split(":")[0]: line.split(":")[1].split()[0] for line in status.splitlines() if ":\t" in line
                  and line.split(":")[1].split()}
        files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        self.history.add("memory", program=self.name, peak_mib=int(values["VmHWM"]) / 1024,
                         threads=int(values["Threads"]), files=files)


class Database(postgres_process.Postgres):
    """PostgreSQL on its own disk, which can be filled."""

    def __init__(self, network, folder):
        self.network, self.folder = network, folder
        self.disk = FullDisk(tmpfs(folder / "database", "72m"))
        (folder / "database" / "here").mkdir()
        super().__init__(folder / "database" / "here")
        with open(self.data / "pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/24 trust\n")
        self.options = {"listen_addresses": network.address("db"), "min_wal_size": "2MB", "max_wal_size": "8MB"}

    @property
    def log_file(self):
        return self.folder / "database.log"

    @property
    def url(self):
        return f"postgresql://harpe@{self.network.address('db')}:5432/postgres"

    def launch(self, command):
        as_user = as_another(self.as_user["user"])
        return subprocess.Popen(self.network.command("db", as_user + command), cwd=self.directory, stdout=self.log,
                                stderr=self.log)

    def runs(self):
        return self.process is not None and self.process.poll() is None


class Server(Program):
    def __init__(self, name, network, history, folder, harpe, store):
        super().__init__(name, name, network, history, folder)
        self.harpe, self.store = harpe, store
        self.address = network.address(name)
        self.key = folder / "key"
        self.key.write_text(KEY + "\n")
        self.key.chmod(0o600)

    def command(self):
        return [self.harpe, "serve", "--tcp", f"{self.address}:{PORT}", "--insecure", "--signing-key", self.key,
                "--store", self.store, "--test-lease", f"{LEASE_S}s"]


class Agent(Program):
    """The agent of a node with simulated GPUs. Its state and log are on a small disk."""

    def __init__(self, name, network, history, folder, harpe, gpus):
        super().__init__(name, name, network, history, folder)
        self.harpe, self.gpus = harpe, gpus
        self.simulation = folder / f"{name}.toml"
        place = folder / name
        place.mkdir()
        place.chmod(0o755)
        self.simulation.write_text(SIMULATION.format(folder=place, gpus=gpus))
        self.policy = folder / f"{name}-policy.toml"
        self.policy.write_text(POLICY)
        self.policy.chmod(0o600)
        disk = tmpfs(folder / f"{name}-disk", "3m")
        self.disk = FullDisk(disk)
        self.socket, self.clock_socket = place / "agent.sock", place / "clock.sock"
        self.state, self.audit = disk / "state.json", disk / "audit.jsonl"
        subprocess.run([harpe, "clock", "set", str(FOUND_MHZ), "--direct", "--gpus", "0",
                        "--simulate", self.simulation], check=True, capture_output=True)

    def found(self, gpu):
        """Returns the lock that existed before the agent."""
        return [FOUND_MHZ, FOUND_MHZ] if gpu == 0 else []

    def command(self):
        return [self.harpe, "agent", "--simulate", self.simulation, "--policy", self.policy, "--socket", self.socket,
                "--clock-socket", self.clock_socket, "--state-file", self.state, "--audit-log", self.audit,
                "--minimum-dwell", "1ms"]

    def idle_clocks(self):
        """Returns the clocks of the GPUs themselves, without an agent: when idle, the lowest clock that is allowed."""
        done = subprocess.run([self.harpe, "devices", "--simulate", self.simulation, "--json"], check=True,
                              capture_output=True, text=True)
        return [gpu["graphics_clock"]["now_mhz"] for gpu in json.loads(done.stdout)["gpus"]]


class Trainer(Program):
    """A training with Harpe's real client: two pipelines of two stages on the GPUs of a node. It is restarted as by a
    launcher: with all of its ranks, and a new run."""

    def __init__(self, job, agent, network, history, folder, trainer, server, token_file):
        super().__init__(job, agent.machine, network, history, folder)
        self.agent, self.trainer, self.server, self.token_file = agent, trainer, server, token_file
        self.control = folder / f"{job}-control"
        own = folder / f"{job}-out"
        own.mkdir()
        os.chown(own, TRAINER_USER, TRAINER_USER)
        self.log = own / "iterations.csv"
        self.run, self.rank_stopped = 0, 0

    @property
    def environment(self):
        return {"HARPE_TOKEN_FILE": str(self.token_file), "HARPE_INSECURE": "1", "HARPE_RUN": f"run {self.run}",
                "TRAINER_PATIENCE_S": str(PATIENCE_S), "TRAINER_BLOCKING_W": "80"}

    def command(self):
        return [*as_another(TRAINER_USER), self.trainer, "--simulation", self.agent.simulation,
                "--data", "2", "--stages", "2", "--micro-batches", "3", "--forward-s", "0.05", "--iterations", "1000000",
                "--server", f"http://{self.server.address}:{PORT}", "--agent", self.agent.clock_socket, "--job", self.name, "--control", self.control, "--log", self.log]

    def start(self):
        self.run += 1
        self.control.write_text("")
        super().start()
