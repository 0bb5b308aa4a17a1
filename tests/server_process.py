"""A running `harpe serve` for tests, and the plainest of clients."""

import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import tempfile
import time
import unittest

from contract import Contract

CONTRACT = Contract()
PROFILE = """stage,instruction,frequency,time,energy
0,forward,1740,0.010,3.0
0,forward,1410,0.012,2.5
0,forward,1005,0.017,2.2
0,backward,1740,0.020,6.0
0,backward,1410,0.024,5.0
0,backward,1005,0.034,4.4
1,forward,1740,0.014,4.2
1,forward,1410,0.017,3.5
1,forward,1005,0.024,3.1
1,backward,1740,0.028,8.4
1,backward,1410,0.034,7.0
1,backward,1005,0.048,6.2
"""
CLOCKS = [1740, 1410, 1005]


def specification(**changes):
    return {"data": 1, "stages": 2, "schedule": "1f1b", "micro_batches": 4, "blocking_power_w": 80, "plans": 20,
            "profile": PROFILE, **changes}


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class ServerTest(unittest.TestCase):
    harpe = None  # set by the test script
    slow = bool(os.environ.get("HARPE_SANITIZE"))  # builds with sanitizers are slow
    trust = None  # certificate of a server with TLS
    source = None  # local address and port of requests; without TLS

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = f"sqlite:{self.folder}/harpe.db"
        self.server = None

    def start(self, *options, tcp="127.0.0.1:0", **how):
        if "--search-time" not in options:  # plans that change at any time are for their own tests
            options = ("--search-time", "0", *options)
        self.server = subprocess.Popen(
            [self.harpe, "serve", "--tcp", tcp, "--store", self.store, "--log", self.folder / "log", *options],
            stderr=subprocess.PIPE, text=True, **how)
        self.addCleanup(self.stop)
        said = ""
        while "listening on" not in said:
            line = self.server.stderr.readline()
            if not line:
                self.fail("the server did not start: " + said)
            said += line
        self.address = said.split("listening on ")[1].split()[0].split("://")[-1]

    def stop(self):
        if self.server.poll() is None:
            self.server.terminate()
            self.server.send_signal(signal.SIGCONT)  # a failed test may have left it stopped
        try:
            self.server.wait(60)
        finally:
            self.server.kill()
            self.server.stderr.close()
        return self.server.returncode

    def kill(self):
        self.server.kill()
        self.server.wait(60)
        self.server.stderr.close()

    def ask(self, method, path, body=None, headers={}):
        if self.trust is None:
            connection = http.client.HTTPConnection(self.address, timeout=60, source_address=self.source)
        else:
            connection = http.client.HTTPSConnection(
                self.address, timeout=60, context=ssl.create_default_context(cafile=self.trust))
        try:
            text = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
            connection.request(method, path, text, dict(headers))
            response = Answer(connection.getresponse())
            error = CONTRACT.error(method, path, response.status, response.headers["Content-Type"], response.body)
            self.assertIsNone(error, (method, path, response.status, response.body[:2000]))
            return response
        finally:
            connection.close()

    def good(self, *arguments, **more):
        response = self.ask(*arguments, **more)
        self.assertIn(response.status, (200, 201), response.body)
        return response.json()

    def good_in_time(self, *arguments, seconds=60):
        """Like `good`, repeated while a server does not have the job yet, or asks to try again."""
        responses = []

        def responds():
            responses.append(self.ask(*arguments))
            return responses[-1].status != 503
        self.wait_for(responds, seconds)
        self.assertIn(responses[-1].status, (200, 201), responses[-1].body)
        return responses[-1].json()

    def begin(self, job="j", **changes):
        spec = specification(**changes)
        self.good("PUT", f"/v1/jobs/{job}", spec)
        for data in range(spec["data"]):
            for stage in range(spec["stages"]):
                self.good("POST", f"/v1/jobs/{job}/ranks",
                          {"data": data, "stage": stage, "session": f"s{data}{stage}", "clocks_mhz": CLOCKS})

    def wait_for(self, holds, seconds=60):
        # Under sanitizers planning takes ten times as long, and with other load several times that.
        end = time.monotonic() + seconds * (5 if self.slow else 1)
        while not holds():
            self.assertLess(time.monotonic(), end, "it did not come")
            time.sleep(0.02)

    def wait_for_phase(self, phase, job="j"):
        """Waits until the job is in this phase and no plans are being made."""
        def there():
            status = self.good("GET", f"/v1/jobs/{job}")
            return status["phase"] == phase and status["characterization"] is None
        self.wait_for(there)


def run(harpe):
    ServerTest.harpe = harpe
    unittest.main(argv=["test", "-v"])
