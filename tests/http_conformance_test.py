#!/usr/bin/env python3
"""What the running agent and server response to which bytes, and whether the connection goes on:
http_conformance.json, which room http itself is held to as well (http_conformance_test.cc). Requests that are
hidden in others are looked for in the metrics: what got no response was not executed.
Usage: http_conformance_test.py HARPE"""

import json
import pathlib
import re
import socket
import sys
import unittest

import agent_process
import server_process
from agent_process import AgentTest
from server_process import ServerTest

CASES = json.loads((pathlib.Path(__file__).resolve().parent / "http_conformance.json").read_text())
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def bytes_of(case):
    parts = [[case["send"], 1]] if isinstance(case["send"], str) else case["send"]
    return b"".join(text.encode("latin-1") * times for text, times in parts)


def statuses_of(responses, head):
    """Returns the status of each response; -1 for anything else."""
    found = []
    while responses:
        begin, separator, rest = responses.partition(b"\r\n\r\n")
        if not separator or not begin.startswith(b"HTTP/1."):
            return found + [-1]
        found.append(int(begin[9:12]))
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", begin)
        responses = rest[int(length[1]) if length and not head else 0:]
        head = False
    return found


class Conformance:
    """Tests of a program that `self.open()` connects to."""

    def exchange(self, data):
        """Returns all responses until the connection ends."""
        connection = self.open()
        with connection:
            connection.settimeout(20)
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before it was read: there is a response
            responses = b""
            try:
                while more := connection.recv(65536):
                    responses += more
            except ConnectionResetError:
                pass
            return responses

    def requests(self):
        """Returns the number of requests executed before this one."""
        return int(re.search(self.counted + rb" (\d+)", self.exchange(METRICS))[1]) - 1

    def test_all_cases(self):
        self.assertGreater(len(CASES), 150)
        for case in CASES:
            with self.subTest(case["name"]):
                before = self.requests()
                closes = case["closes"]
                responses = self.exchange(bytes_of(case) + (b"" if closes else LAST))
                expected = case["statuses"] + ([] if closes else [200])
                self.assertEqual(statuses_of(responses, case.get("head", False)), expected)
                # All requests, except those answered by the transport itself, and the one for the metrics.
                executed = [status for status in expected if status in (200, 405)]
                self.assertEqual(self.requests() - before, len(executed) + 1)


class Agent(Conformance, AgentTest):
    counted = rb"\nharpe_agent_http_requests_total"

    def setUp(self):
        super().setUp()
        self.start()

    def open(self):
        return self.connect()


class Server(Conformance, ServerTest):
    counted = rb"\nharpe_server_http_requests_total"

    def setUp(self):
        super().setUp()
        self.start()

    def open(self):
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ServerTest.harpe = pathlib.Path(sys.argv[1]).resolve()
    agent_process.run(sys.argv[1])
