#!/usr/bin/env python3
"""How much memory connections can make the running agent and server hold: 16 of each kind that send without end,
that never finish what they send, or that never read, in clear and with TLS, and thousands that do nothing. Prints
what was measured. Usage: hostile_connections_test.py HARPE [KIND]; with a kind, such as "a trailer", of those that
send without end only that one is there"""

import pathlib
import re
import select
import socket
import ssl
import subprocess
import sys
import unittest

import agent_process
from agent_process import AgentTest, free_port
from server_process import ServerTest, specification

CONNECTIONS = 16
# Largest growth of memory during any of these tests, in MiB; docs/security.md. Bodies of specifications of one address
# may take up to half of 256 MiB.
MOST_MIB = 24
MOST_WITH_BODIES_MIB = 192
MOST_HELLOS_MIB = 64
# Bytes of the program's memory per idle connection.
MOST_IDLE, MOST_IDLE_TLS = 8 << 10, 24 << 10

HEAD = b"POST /health HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = 1 << 16
ENDLESS = {
    "an extension of a chunk": (CHUNKED + b"1;", b"a" * PIECE),
    "extensions of small chunks": (CHUNKED, (b"1;" + b"a" * 1000 + b"\r\nb\r\n") * 64),
    "small chunks": (CHUNKED, b"1\r\nb\r\n" * 10000),
    "a trailer": (CHUNKED + b"0\r\nA: ", b"a" * PIECE),
    "trailers": (CHUNKED + b"0\r\n", b"A: b\r\n" * 10000),
    "a size": (CHUNKED, b"0" * PIECE),
    "empty lines": (b"", b"\r\n" * 30000),
    "a request line": (b"GET /", b"a" * PIECE),
    "a header": (HEAD + b"A: ", b"a" * PIECE),
    "fields": (HEAD, b"A: b\r\n" * 10000),
    "requests": (b"", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 2000),
    "noise": (b"", bytes(range(32, 127)) * 700),
}
# Bytes that each connection may send before the test stops: much more than any limit.
MOST_SENT = 64 << 20
KIND = None


class Hostile:
    """Tests of a program that `self.open()` connects to, with or without TLS."""
    idle, most_idle = 2000, MOST_IDLE

    def status(self, name):
        """Returns the bytes in a line of /proc/PID/status."""
        with open(f"/proc/{self.process().pid}/status") as status:
            return int(re.search(rf"{name}:\s+(\d+) kB", status.read())[1]) << 10

    def clear_peak(self):
        with open(f"/proc/{self.process().pid}/clear_refs", "w") as file:
            file.write("5")

    def measured(self, what, work, most):
        """Calls `work`. Checks that memory grows by at most `most` MiB at its peak."""
        self.clear_peak()
        before = self.status("VmRSS")
        work()
        peak = self.status("VmHWM")
        print(f"{type(self).__name__}, {what}: {before >> 20} MiB before, {peak >> 20} MiB at most", flush=True)
        self.assertLess(peak - before, most << 20, what)

    def send_endlessly(self):
        """Sends on all connections as fast as possible, until all have ended, are blocked, or have sent MOST_SENT."""
        left = {}
        for begin, piece in [ENDLESS[KIND]] if KIND else ENDLESS.values():
            for _ in range(CONNECTIONS):
                connection = self.open()
                connection.setblocking(False)
                left[connection] = [begin or piece, piece, 0]
        while left:
            writable = select.select([], list(left), [], 1)[1]
            for connection in writable:
                data, piece, sent = left[connection]
                try:
                    count = connection.send(data)
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    continue
                except OSError:
                    count = 0
                left[connection] = [data[count:] or piece, piece, sent + count]
                if count == 0 or sent > MOST_SENT:
                    connection.close()
                    del left[connection]
            if not writable:
                break
        for connection in left:
            connection.close()

    def test_endless_requests(self):
        self.measured("requests without end", self.send_endlessly, MOST_MIB)
        self.assertEqual(self.health(), 200)

    def test_requests_that_never_end(self):
        held = []

        def hold():
            for begin in (b"GET /" + b"a" * 16000, HEAD + b"A: " + b"a" * 16000, CHUNKED + b"1;" + b"a" * 16000,
                          HEAD + b"Content-Length: 65536\r\n\r\n" + b"a" * 65000):
                for _ in range(CONNECTIONS):
                    connection = self.open()
                    connection.sendall(begin)
                    held.append(connection)
            self.assertEqual(self.health(), 200)  # everything before it was read
        self.measured("requests that never end", hold, MOST_MIB)
        for connection in held:
            connection.close()

    def test_responses_that_are_not_read(self):
        held = []

        def hold():
            # As many requests as buffers hold, whose responses are never read.
            requests = f"GET {self.large} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20000
            for _ in range(CONNECTIONS):
                connection = self.open()
                connection.settimeout(0.2)
                try:
                    connection.sendall(requests)
                except (TimeoutError, OSError):
                    pass
                held.append(connection)
            self.assertEqual(self.health(), 200)
        self.measured("responses that are not read", hold, MOST_MIB)
        for connection in held:
            connection.close()

    def test_idle_connections(self):
        connections = [self.open() for _ in range(100)]  # allocates memory that is used only once
        before = self.status("VmRSS")
        connections += [self.open() for _ in range(self.idle)]
        self.assertEqual(self.health(), 200)
        each = (self.status("VmRSS") - before) // self.idle
        print(f"{type(self).__name__}: {each} bytes for an idle connection", flush=True)
        self.assertLess(each, self.most_idle)
        for connection in connections:
            connection.close()


class Tls:
    """Certificates, and connections with TLS."""
    idle, most_idle = 500, MOST_IDLE_TLS
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def certify(self, folder):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", folder / "tls-key.pem", "-out", folder / "tls.pem", "-days", "1", "-subj", "/CN=x"],
                       check=True, capture_output=True)
        (folder / "tls-key.pem").chmod(0o600)
        return "--tls-certificate", folder / "tls.pem", "--tls-key", folder / "tls-key.pem"

    def secure(self, connection):
        return self.trusting.wrap_socket(connection)


class Agent(Hostile, AgentTest):
    large = "/metrics"

    def setUp(self):
        super().setUp()
        self.start("--connections-per-user", "5000")

    def process(self):
        return self.agent

    def open(self):
        return self.connect()

    def health(self):
        return self.ask("GET", "/health").status


class AgentOverTls(Tls, Agent):

    def setUp(self):
        AgentTest.setUp(self)
        self.port = free_port()
        self.start("--tcp", f"127.0.0.1:{self.port}", "--signing-key", self.key, "--connections-per-user", "5000",
                   *self.certify(self.folder))

    def open(self):
        return self.secure(socket.create_connection(("127.0.0.1", self.port), timeout=20))

    def test_client_hellos_that_never_end(self):
        held = []

        def hold():
            for _ in range(1000):
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
                # A record with the beginning of a hello of 128 KiB, for which OpenSSL allocates memory at once.
                connection.sendall(b"\x16\x03\x01\x01\x00\x01\x01\xff\xf0\x03\x03" + b"\0" * 250)
                held.append(connection)
            self.wait_for(lambda: "harpe_agent_http_connections 1001\n" in self.ask("GET", "/metrics").body)
            self.assertEqual(self.health(), 200)  # the last accepted connection was read
        # One address may have a quarter of the 1024 simultaneous handshakes.
        self.measured("hellos that never end", hold, MOST_HELLOS_MIB)
        for connection in held:
            connection.close()


class Server(Hostile, ServerTest):
    large = "/openapi.yaml"

    def setUp(self):
        super().setUp()
        self.store = "none"
        self.start("--requests-per-second", "0")

    def process(self):
        return self.server

    def open(self):
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=20)

    def health(self):
        return self.ask("GET", "/health").status

    def test_specifications_that_never_end(self):
        held = []

        def hold():
            for number in range(CONNECTIONS):
                connection = self.open()
                connection.settimeout(1)
                begin = f"PUT /v1/jobs/j{number} HTTP/1.1\r\nHost: x\r\nContent-Length: {32 << 20}\r\n\r\n"
                try:
                    connection.sendall(begin.encode() + b" " * ((32 << 20) - 1))
                except (TimeoutError, OSError):
                    pass
                held.append(connection)
            self.assertEqual(self.health(), 200)
            # Specifications that arrive in time are still accepted.
            self.assertEqual(self.ask("PUT", "/v1/jobs/small", specification()).status, 201)
        self.measured("specifications that never end", hold, MOST_WITH_BODIES_MIB)
        for connection in held:
            connection.close()


class ServerOverTls(Tls, Server):

    def setUp(self):
        ServerTest.setUp(self)
        self.store = "none"
        self.start("--requests-per-second", "0", *self.certify(self.folder))
        self.trust = str(self.folder / "tls.pem")

    def open(self):
        return self.secure(Server.open(self))

    def health(self):
        with self.open() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            return int(connection.recv(4096)[9:12])

    test_specifications_that_never_end = None  # the same as without TLS


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    KIND = sys.argv[2] if len(sys.argv) > 2 else None
    ServerTest.harpe = pathlib.Path(sys.argv[1]).resolve()
    agent_process.run(sys.argv[1])
