#!/usr/bin/env python3
"""A thousand malformed requests to a `harpe serve` that holds a running job: each is refused with a reason,
the job is as it was, and the server holds no more memory. Usage: server_malformed_test.py HARPE"""

import json
import os
import random
import re
import socket
import sys

import server_process
from server_process import CLOCKS, CONTRACT, ServerTest, specification

SEED = 20260501
REQUESTS = 1000
# Largest growth of the server's memory; with a sanitizer it is not meaningful.
MOST_MORE_BYTES = 32 << 20
REFUSALS = {400, 404, 405, 409, 413, 414, 422, 431, 501, 505}

REPORT = {"stage": 0, "session": "s00", "iteration": 1, "version": 1, "time_s": 0.3, "energy_j": 40,
          "instructions": [{"name": "forward", "count": 4, "time_s": 0.05, "energy_j": 12},
                           {"name": "backward", "count": 4, "time_s": 0.1, "energy_j": 24}]}
ZEUS_JOB = {"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1, "world_size": 2, "job_metadata": None}
# Valid bodies, which the generators below break.
BODIES = (
    ("PUT", "/v1/jobs/k", specification()),
    ("POST", "/v1/jobs/j/ranks", {"stage": 0, "session": "s00", "clocks_mhz": CLOCKS}),
    ("POST", "/v1/jobs/j/reports", REPORT),
    ("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1.2}),
    ("PUT", "/v1/jobs/j/objective", {"slowdown": 0.1}),
    ("POST", "/register_job", ZEUS_JOB),
)
# Well-formed, but wrong.
WRONG = (
    ("POST", "/v1/jobs/j/ranks", {"stage": 0, "session": "another", "clocks_mhz": CLOCKS}),
    ("POST", "/v1/jobs/j/ranks", {"stage": 2, "session": "s", "clocks_mhz": CLOCKS}),
    ("POST", "/v1/jobs/j/ranks", {"stage": -1, "session": "s", "clocks_mhz": CLOCKS}),
    ("POST", "/v1/jobs/j/ranks", {"stage": 1, "session": "s01", "clocks_mhz": []}),
    ("POST", "/v1/jobs/j/ranks", {"stage": 1, "session": "s" * 257, "clocks_mhz": CLOCKS}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "session": "another"}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "stage": 7}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "data": 1_000_000}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "time_s": 0}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "time_s": -1}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "time_s": 1e300}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "iteration": -1}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "iteration": 1.5}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "iteration": 10**30}),
    ("POST", "/v1/jobs/j/reports", {**REPORT, "instructions": [{"name": "sideways", "count": 1, "time_s": 1}]}),
    ("PUT", "/v1/jobs/j/stragglers/0", {"factor": 0.5}),
    ("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1e9}),
    ("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1.2, "until": 5}),
    ("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.2}),
    ("PUT", "/v1/jobs/j/stragglers/99999999999999999999", {"factor": 1.2}),
    ("PUT", "/v1/jobs/j/objective", {"deadline_s": 0.001}),
    ("PUT", "/v1/jobs/j/objective", {"slowdown": 0.1, "least_energy": True}),
    ("PUT", "/v1/jobs/k", specification(data=262_145)),
    ("PUT", "/v1/jobs/k", specification(micro_batches=10**9)),
    ("PUT", "/v1/jobs/k", specification(profile="stage,instruction\n0,forward\n")),
    ("PUT", "/v1/jobs/k", specification(profile="stage,instruction,frequency,time,energy\n0,forward,1,nan,inf\n")),
    ("POST", "/register_job", {**ZEUS_JOB, "world_size": 3}),
    ("POST", "/register_job", {**ZEUS_JOB, "job_metadata": "{" * 5000}),
    ("POST", "/register_job", {**ZEUS_JOB, "job_metadata": "x" * 5000}),
    ("POST", "/register_job", [0] * 600_000),
    ("POST", "/register_rank/none", {"rank": 0}),
    ("GET", "/schedule/none?rank=0", None),
    ("GET", "/v1/jobs/j/assignments?stage=5", None),
    ("GET", "/v1/jobs/j/assignments?stage=%zz", None),
    ("GET", "/v1/jobs/j/assignments?stage=0&stage=1", None),
    ("GET", "/v1/jobs/j/events?data=-1", None),
    ("GET", "/v1/jobs/j/log?after=9e9", None),
    ("GET", "/v1/jobs/%00", None),
    ("GET", "/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", None),
    ("GET", "/v1/jobs/" + "j" * 5000, None),
    ("DELETE", "/v1/jobs/none", None),
    ("POST", "/v1/jobs/j", {}),
    ("PATCH", "/v1/jobs/j/objective", {}),
)


def request(method, target, body=b"", *headers):
    head = [f"{method} {target} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def text_of(body):
    return b"" if body is None else json.dumps(body).encode()


class Generator:
    """Each method generates one kind of wrong request: its bytes, and method and target if it is HTTP."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("with_")]

    def next(self):
        kind = self.random.choice(self.kinds)
        return kind.__name__, *kind()

    def valid(self):
        method, target, body = self.random.choice(BODIES)
        return method, target, text_of(body)

    # JSON

    def of(self, body, change):
        method, target, _ = body
        return request(method, target, change), method, target

    def with_the_end_missing(self):
        valid = self.valid()
        return self.of(valid, valid[2][:self.random.randrange(len(valid[2]))])

    def with_too_much(self):
        valid = self.valid()
        return self.of(valid, valid[2] + self.random.choice([b"}", b"{}", b",", b"\x00", b"null", valid[2]]))

    def with_bytes_that_are_no_text(self):
        valid = self.valid()
        wrong = self.random.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x00", b"\xe2\x82"])
        at = self.random.randrange(len(valid[2]))
        return self.of(valid, valid[2][:at] + wrong + valid[2][at:])

    def with_no_number(self):
        wrong = self.random.choice([b"NaN", b"-NaN", b"Infinity", b"1e999", b"-1e999", b"0x10", b"1.", b"01", b"+1", b"--1", b"1e"])
        member = self.random.choice([b"time_s", b"energy_j", b"iteration"])
        body = re.sub(rb'("' + member + rb'": )[^,}]+', rb"\g<1>" + wrong, text_of(REPORT))
        return request("POST", "/v1/jobs/j/reports", body), "POST", "/v1/jobs/j/reports"

    def with_nesting(self):
        valid = self.valid()
        depth = self.random.choice([100, 1000, 30_000])
        return self.of(valid, self.random.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth,
                                                  b'{"session": ' + b"[" * depth + b"]" * depth + b"}"]))

    def with_another_type(self):
        method, target, body = self.random.choice(BODIES)
        name = self.random.choice([name for name, value in body.items() if name != "job_metadata"])
        wrong = {**body, name: self.random.choice([True, {}, [[]], [None], "x\ud800", {"a": "b"}])}
        return request(method, target, text_of(wrong)), method, target

    def with_a_name_twice(self):
        valid = self.valid()
        name = valid[2].split(b":")[0][1:]
        return self.of(valid, valid[2][:-1] + b", " + name + b": 1}")

    def with_what_nobody_knows(self):
        method, target, body = self.random.choice(BODIES[:-1])  # Zeus's server accepts it
        return request(method, target, text_of({**body, "x" * self.random.choice([1, 10, 10_000]): 1})), method, target

    def with_no_object(self):
        valid = self.valid()
        return self.of(valid, self.random.choice([b"", b"null", b"0", b'"x"', b"[]", b"[{}]", b"\xef\xbb\xbf", b" " * 1000]))

    def with_what_is_not_so(self):
        method, target, body = self.random.choice(WRONG)
        return request(method, target, text_of(body)), method, target

    def with_a_long_body(self):
        method, target, limit = self.random.choice([("PUT", "/v1/jobs/j/objective", 64 << 10), ("POST", "/v1/jobs/j/ranks", 64 << 10),
                                                    ("POST", "/v1/jobs/j/reports", 1 << 20), ("PUT", "/v1/jobs/k", 32 << 20)])
        head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {limit + 1}\r\n\r\n".encode()
        return head + b" " * self.random.choice([0, 10, 1000]), method, target

    # Framing

    def with_noise(self):
        return self.random.randbytes(self.random.randrange(1, 300)).replace(b"\n", b"") + b"\r\n\r\n", None, None

    def with_a_wrong_first_line(self):
        line = self.random.choice([
            "GET", "GET /health", "GET /health HTTP/2.0", "GET /health HTTP/9", "GET /health HTTP/1.1 x", "GET  HTTP/1.1",
            " GET /health HTTP/1.1", "GET health HTTP/1.1", "GET /hea\x00lth HTTP/1.1", "G\x01T /health HTTP/1.1", "PRI * HTTP/2.0",
            "GET /" + "a" * 20_000 + " HTTP/1.1", "GET * HTTP/1.1", "CONNECT x:1 HTTP/1.1", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
        return line.encode("latin-1") + b"\r\nHost: x\r\n\r\n", None, None

    def with_a_wrong_header(self):
        line = self.random.choice([
            "no colon", ": no name", "a b: space", "a\x00: zero", "x: a\x00b", " folded: x", "x : y", "Content-Length: x", "Content-Length: -1",
            "Content-Length: 1e3", "Content-Length: 99999999999999999999999", "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5"])
        return f"PUT /v1/jobs/j/objective HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode("latin-1") + b"{}{}{}", None, None

    def with_headers_without_end(self):
        one = self.random.choice(["x: " + "a" * 17_000 + "\r\n", "x: y\r\n" * 4000, "y" * 17_000])
        return b"GET /health HTTP/1.1\r\n" + one.encode(), None, None

    def with_broken_chunks(self):
        chunks = self.random.choice(["x\r\n", "-1\r\n\r\n", "ffffffffffffffffff\r\n", "2\r\n{}x\r\n0\r\n\r\n", "2\r\n{}{}\r\n",
                                     "\r\n", "0x2\r\n{}\r\n0\r\n\r\n", "fffffff\r\n{}"])
        return ("PUT /v1/jobs/j/objective HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks).encode(), None, None

    def with_a_body_that_never_comes(self):
        return request("PUT", "/v1/jobs/j/objective", b"")[:-2].replace(b"Content-Length: 0", b"Content-Length: 500") + b"\r\n{", "", ""


class Raw:
    """Reads responses from a socket, byte by byte."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it was read: there is a response

    def response(self):
        """Returns (status, content type, body) of the next response; None if the connection has ended."""
        received = b""
        while b"\r\n\r\n" not in received:
            more = self.receive()
            if not more:
                return None
            received += more
        head, body = received.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"(?i)\r\ncontent-length: (\d+)", head)[1])
        while len(body) < length:
            body += self.receive()
        kind = re.search(rb"(?i)\r\ncontent-type: ([^\r]*)", head)
        return int(head[9:12]), kind[1].decode(), body[:length]

    def receive(self):
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""


class Malformed(ServerTest):
    def memory(self, name):
        """Returns the bytes in a line of /proc/PID/status of the server."""
        with open(f"/proc/{self.server.pid}/status") as status:
            return int(re.search(rf"{name}:\s+(\d+) kB", status.read())[1]) << 10

    def state(self):
        state = self.good("GET", "/v1/jobs/j")
        for noted in ("reports_refused", "refused", "heard_at"):  # changed by wrong requests
            state.pop(noted)
        return state, self.good("GET", "/v1/jobs/j/assignments?stage=0"), self.good("GET", "/v1/jobs/j/plans")

    def test_a_running_job_is_unharmed(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        before = self.state()
        # Connections that stop in the middle of a request stay open all the time.
        silent = [Raw(self.address) for _ in range(50)]
        for i, one in enumerate(silent):
            one.send(request("PUT", "/v1/jobs/k", b"x" * 1000)[:i * 20 + 5])
        memory = self.memory("VmHWM")
        generator = Generator(SEED)
        statuses = set()
        for number in range(REQUESTS):
            kind, data, method, target = generator.next()
            told = (number, kind, data[:300])
            raw = Raw(self.address)
            raw.send(data)
            if kind == "with_a_body_that_never_comes":
                raw.socket.close()
                continue
            response = raw.response()
            raw.socket.close()
            self.assertIsNotNone(response, told)
            status, content_type, body = response
            statuses.add(status)
            self.assertIn(status, REFUSALS, (told, body))
            self.assertGreater(len(body), 10, told)
            if method is not None:
                self.assertIsNone(CONTRACT.error(method, target, status, content_type, body), (told, response))
        self.assertGreaterEqual(statuses, REFUSALS)
        if not os.environ.get("HARPE_SANITIZE"):
            self.assertLess(self.memory("VmHWM") - memory, MOST_MORE_BYTES)
        for one in silent:
            one.socket.close()

        self.assertEqual(self.state(), before)
        self.assertEqual([job["id"] for job in self.good("GET", "/v1/jobs")["jobs"]], ["j"])
        self.assertEqual(self.good("GET", "/health")["status"], "ok")
        version = before[0]["version"]
        for stage in range(2):
            told = self.good("POST", "/v1/jobs/j/reports",
                             {**REPORT, "stage": stage, "session": f"s0{stage}", "version": version, "known": version})
            self.assertEqual(told["version"], version)
            self.assertNotIn("assignments", told)
        self.assertEqual(self.good("GET", "/v1/jobs/j")["newest_iteration"], 1)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
