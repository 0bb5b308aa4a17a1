"""A real PostgreSQL for tests: Debian's programs in a temporary directory, reached by a Unix socket there."""

import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time


def program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else shutil.which(name)


class Postgres:
    def __init__(self, directory=None):
        """Uses an existing empty directory, or creates one."""
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="harpe-postgres-"))
        self.as_user = {}
        if os.getuid() == 0:
            # PostgreSQL refuses to run as root.
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.process = None
        self.run("initdb", "--pgdata", self.data, "--username=harpe", "--auth=trust", "--no-sync", "--no-instructions",
                 "--locale=C", "--encoding=UTF8", "--wal-segsize=1")

    options = {}  # of the server, in addition to those of `start`

    @property
    def data(self):
        return self.directory / "data"

    @property
    def log_file(self):
        return self.directory / "log"

    @property
    def url(self):
        return f"postgresql://harpe@/postgres?host={self.directory}"

    def run(self, name, *arguments):
        done = subprocess.run([program(name), *arguments], cwd=self.directory, capture_output=True, text=True,
                              timeout=120, **self.as_user)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def execute(self, statement):
        return self.run("psql", "-h", self.directory, "-U", "harpe", "-d", "postgres", "-qtAc", statement).strip()

    def start(self):
        # No data has to survive a power failure.
        options = {"listen_addresses": "", "unix_socket_directories": self.directory, "fsync": "off",
                   "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": 40, **self.options}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self.log = open(self.log_file, "ab")
        self.process = self.launch([program("postgres"), "-D", self.data, *settings])
        end = time.monotonic() + 60
        while True:
            try:
                return self.execute("SELECT 1")
            except RuntimeError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def launch(self, command):
        return subprocess.Popen(command, cwd=self.directory, stdout=self.log, stderr=self.log, **self.as_user)

    def stop(self, how=signal.SIGINT):
        """Stops the server. SIGINT: orderly; SIGQUIT: immediately, like a crash."""
        if self.process is None:
            return
        self.process.send_signal(how)
        self.process.wait(60)
        self.log.close()
        self.process = None

    def remove(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)


class Network:
    """The network between a server and the database, by a separate Unix socket. When cut, it delivers nothing and
    closes no connection, like a network with a failed route; when healed, delayed data arrives."""

    def __init__(self, postgres):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="harpe-network-"))
        self.target = str(postgres.directory / ".s.PGSQL.5432")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(self.directory / ".s.PGSQL.5432"))
        self.listening.listen(20)
        self.peer = {}  # socket -> its peer
        self.through = threading.Event()
        self.through.set()
        self.ending = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @property
    def url(self):
        return f"postgresql://harpe@/postgres?host={self.directory}"

    def cut(self):
        self.through.clear()

    def heal(self):
        self.through.set()

    def remove(self):
        self.ending = True
        self.heal()
        self.thread.join(10)
        for one in (self.listening, *self.peer):
            one.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self):
        while not self.ending:
            if not self.through.wait(0.05):
                continue
            for ready in select.select([self.listening, *self.peer], [], [], 0.02)[0]:
                if not self.through.is_set():
                    break
                if ready is self.listening:
                    self.connect(self.listening.accept()[0])
                elif ready in self.peer:
                    self.carry(ready)

    def connect(self, client):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
        except OSError:
            client.close()
            server.close()
            return
        self.peer[client], self.peer[server] = server, client

    def carry(self, source):
        other = self.peer[source]
        try:
            data = source.recv(65536)
            if data:
                return other.sendall(data)
        except OSError:
            pass
        for one in (source, other):
            del self.peer[one]
            one.close()
