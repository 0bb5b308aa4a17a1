#!/usr/bin/env python3
"""A `harpe serve` whose store goes away while jobs train: PostgreSQL ends, the disk is full. Training goes on,
requests whose effect cannot be kept are refused for now, and in the end all is stored.
Usage: server_faults_test.py HARPE"""

import http.client
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import postgres_process
import server_process
from server_process import CLOCKS, Answer, ServerTest, specification

# Longest time for a response to a rank's report, whatever the store does.
LONGEST_ANSWER_S = 5


class Training:
    """The ranks of a job, which report one iteration after another until they are stopped."""

    def __init__(self, test, job, data):
        self.test, self.job, self.data = test, job, data
        self.iteration, self.slowest, self.refused = 0, 0.0, []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        test.addCleanup(self.end)

    def run(self):
        while not self.ending.is_set():
            for data in range(self.data):
                for stage in range(2):
                    self.report(data, stage)
            self.iteration += 1

    def report(self, data, stage):
        begin = time.monotonic()
        try:
            response = self.test.ask("POST", f"/v1/jobs/{self.job}/reports", {
                "data": data, "stage": stage, "session": f"s{data}{stage}", "iteration": self.iteration, "time_s": 0.3})
            if response.status != 200:
                self.refused.append((response.status, response.body))
        except (OSError, AssertionError) as error:
            self.refused.append(error)
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def goes_on(self, iterations):
        """Waits until that many more iterations have been reported."""
        end = self.iteration + iterations
        self.test.wait_for(lambda: self.iteration >= end)

    def end(self):
        self.ending.set()
        self.thread.join()


class Outage:
    """Tests for any store. Subclasses implement `take_store` and `give_store_back`."""

    shared = False  # true if other servers may command its jobs after its lease has expired

    def refused_by_store(self, method, path, body=None):
        response = self.ask(method, path, body)
        self.assertEqual(response.status, 503, response.body)
        self.assertEqual(response.json()["error"]["code"], "unavailable")
        return response.json()["error"]["message"]

    def test_a_trial_that_could_not_be_stored_begins_once(self):
        self.start()
        job = "/v1/recurring-jobs/mnist"
        self.good("PUT", job, {"batch_sizes": [8, 16], "default_batch_size": 8, "max_power": 300,
                               "number_of_gpus": 1, "gpu_model": "A40"})
        self.take_store()
        for _ in range(3):
            self.assertIn("repeating the request is harmless", self.refused_by_store("POST", job + "/trials"))
        self.give_store_back()
        self.wait_for(lambda: self.good("GET", "/health")["status"] == "ok")
        self.assertEqual(self.good("POST", job + "/trials")["trial_number"], 1)
        self.assertEqual([one["status"] for one in self.good("GET", job)["trials"]], ["dispatched"])

    def test_training_goes_on_and_all_is_stored_in_the_end(self):
        self.start()
        self.begin(data=2)
        self.begin("gone")
        self.wait_for_phase("running")
        training = Training(self, "j", data=2)
        training.goes_on(3)

        self.take_store()
        # A change that cannot be stored is made, and the response says that it is not stored.
        self.assertIn("is not stored yet", self.refused_by_store("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.3}))
        self.assertEqual(self.good("GET", "/health")["status"], "degraded")
        self.assertEqual(self.good("GET", "/health")["store"], "failing")
        self.refused_by_store("PUT", "/v1/jobs/j/objective", {"slowdown": 0.02})
        self.refused_by_store("PUT", "/v1/jobs/k", specification())
        self.refused_by_store("POST", "/v1/jobs/k/ranks", {"stage": 0, "session": "s00", "clocks_mhz": CLOCKS})
        self.refused_by_store("DELETE", "/v1/jobs/gone")
        if self.shared:
            self.wait_for(lambda: self.ask("GET", "/v1/jobs/gone").status == 503)
            self.wait_for(lambda: training.refused)
        else:
            self.assertEqual(self.ask("GET", "/v1/jobs/gone").status, 200)
            training.goes_on(20)
            self.assertEqual(self.good("GET", "/v1/jobs/j")["phase"], "straggling")
        self.assertRegex(self.ask("GET", "/metrics").body.decode(), r"(?m)^harpe_server_save_failures_total [1-9]")

        self.give_store_back()
        self.wait_for(lambda: self.good("GET", "/health")["status"] == "ok")
        # The same request again, now stored.
        self.good("PUT", "/v1/jobs/k", specification())
        self.good("POST", "/v1/jobs/k/ranks", {"stage": 0, "session": "s00", "clocks_mhz": CLOCKS})
        self.good("PUT", "/v1/jobs/j/objective", {"slowdown": 0.02})
        training.goes_on(3)
        training.end()
        self.assertEqual([one for one in training.refused if not self.shared or one[0] != 503], [])
        self.assertLess(training.slowest, LONGEST_ANSWER_S)
        before = self.good("GET", "/v1/jobs/j")
        self.kill()

        self.start()
        after = self.good("GET", "/v1/jobs/j")
        for same in ("phase", "stragglers", "objective", "ranks_registered"):
            self.assertEqual(after[same], before[same], same)
        self.assertEqual(self.good("GET", "/v1/jobs/k")["ranks_registered"], 1)
        self.assertEqual(self.good("GET", "/v1/jobs/gone")["phase"], "running")
        phases = [event["text"] for event in self.good("GET", "/v1/jobs/j/log")["events"] if event["kind"] == "phase"]
        self.assertEqual(phases[-2:], ["running", "straggling"])
        # The last versions may not have been stored; later ones that ranks receive are still newer.
        Training(self, "j", data=2).goes_on(2)
        self.assertGreater(self.good("GET", "/v1/jobs/j")["version"], before["version"])


class DatabaseAway(Outage, ServerTest):
    shared = True

    def setUp(self):
        super().setUp()
        self.postgres = postgres_process.Postgres()
        self.addCleanup(self.postgres.remove)
        self.postgres.start()
        self.store = self.postgres.url

    def take_store(self):
        self.postgres.stop(signal.SIGQUIT)

    def give_store_back(self):
        self.postgres.start()

    def launch(self):
        """Starts a server whose database is unavailable, and waits until it reports that."""
        self.socket = self.folder / "socket"
        server = subprocess.Popen([self.harpe, "serve", "--tcp", "127.0.0.1:0", "--socket", self.socket, "--store", self.store],
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        said = ""
        while "waits for its database: PostgreSQL cannot be reached" not in said:
            line = server.stderr.readline()
            self.assertTrue(line, "the server ended: " + said)
            said += line
        return server

    def ask_waiting(self, method, path, body=None):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        with connection.sock:
            connection.sock.settimeout(30)
            connection.sock.connect(str(self.socket))
            connection.request(method, path, body)
            return Answer(connection.getresponse())

    def test_a_server_waits_for_a_database_that_starts_later(self):
        self.take_store()
        server = self.launch()
        for method, path, body in (("GET", "/health", None), ("PUT", "/v1/jobs/j", "{}"), ("POST", "/register_job", "{}")):
            response = self.ask_waiting(method, path, body)
            self.assertEqual(response.status, 503)
            self.assertEqual(response.headers["Retry-After"], "1")
            self.assertIn(b"waits for its database", response.body)
            self.assertNotIn(b"postgres", response.body)  # its address is not public
        self.give_store_back()
        said = ""
        while "listening on" not in said:
            line = server.stderr.readline()
            self.assertTrue(line, "the server ended: " + said)
            said += line
        self.assertIn("the database is reachable", said)
        self.assertEqual(self.ask_waiting("GET", "/health").status, 200)

    def test_a_server_ends_at_once_while_it_connects_to_a_database_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            server = subprocess.Popen([self.harpe, "serve", "--tcp", "127.0.0.1:0", "--store",
                                       f"postgresql://harpe@127.0.0.1:{silent.getsockname()[1]}/harpe"], stderr=subprocess.PIPE)
            self.addCleanup(server.stderr.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            connected, _ = silent.accept()
            with connected:
                server.terminate()
                self.assertEqual(server.wait(5), 0)  # an attempt takes ten seconds

    def test_a_server_that_waits_ends_when_it_is_asked_to(self):
        self.take_store()
        server = self.launch()
        server.terminate()
        self.assertEqual(server.wait(60), 0)


class DiskFull(Outage, ServerTest):
    """A limit on the size of files simulates a full disk: no file grows beyond one page."""

    def limit(self, size):
        _, hard = resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (size, hard))

    def take_store(self):
        self.limit(4096)

    def give_store_back(self):
        self.limit(resource.RLIM_INFINITY)


if __name__ == "__main__":
    if postgres_process.program("initdb") is None:
        print("PostgreSQL is missing: run scripts/install-dependencies.sh")
        sys.exit(77)
    server_process.run(sys.argv[1])
