#!/usr/bin/env python3
"""Several `harpe serve` over one real PostgreSQL: any answers for any job, and the end of one loses nothing.
Usage: several_servers_test.py HARPE"""

import concurrent.futures
import http.client
import json
import random
import signal
import ssl
import subprocess
import sys
import threading
import unittest

import server_process
from postgres_process import Postgres
from server_process import CLOCKS, ServerTest, specification


class Node(ServerTest):
    """One of several servers; its methods are those of a test with one."""

    def __init__(self, store):
        super().__init__("log")
        self.setUp()
        self.store = store

    def log(self):
        return (self.folder / "log").read_text()

    def unanswered(self):
        """Requests that wait for their answer, but for this one."""
        counts = [line.rsplit(" ", 1) for line in self.ask("GET", "/metrics").body.decode().splitlines()]
        asked = sum(float(count) for name, count in counts if name == "harpe_server_http_requests_total")
        return asked - sum(float(count) for name, count in counts if "http_answers_total{" in name) - 1

    def jobs(self):
        return [job["id"] for job in self.good("GET", "/v1/jobs")["jobs"]]


class SeveralServers(unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres()
        self.addCleanup(self.postgres.remove)
        self.postgres.start()

    def node(self, *options):
        node = Node(self.postgres.url)
        self.addCleanup(node.doCleanups)
        node.start(*options)
        return node

    def rank(self, node, data, stage, session="s", job="j"):
        return node.ask("POST", f"/v1/jobs/{job}/ranks", {"data": data, "stage": stage, "clocks_mhz": CLOCKS,
                                                          "session": f"{session}{data}{stage}"})

    def report(self, node, iteration, data=0, stage=0, version=1):
        return node.good("POST", "/v1/jobs/j/reports", {"data": data, "stage": stage, "session": f"s{data}{stage}",
                                                        "iteration": iteration, "version": version, "time_s": 0.3})

    def train_with_zeus(self, metadata, node, *nodes_of_ranks):
        """Two stages, each rank at a node of its own; the training's id."""
        job = node.good("POST", "/register_job", {"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1,
                                                  "world_size": 2, "job_metadata": metadata})
        for rank, of_rank in enumerate(nodes_of_ranks):
            of_rank.good("POST", f"/register_rank/{job}", {
                "rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0, "available_frequencies": CLOCKS})
        return job

    def test_any_of_them_answers_for_any_job(self):
        a, b, c = self.node(), self.node(), self.node()
        a.good("PUT", "/v1/jobs/j", specification(data=2))
        for place, node in zip([(0, 0), (0, 1), (1, 0), (1, 1)], [a, b, c, b]):
            self.assertEqual(self.rank(node, *place).status, 200)
        c.wait_for_phase("running")
        listening = http.client.HTTPConnection(b.address, timeout=60)
        listening.request("GET", "/v1/jobs/j/events?data=0&stage=1")
        events = listening.getresponse()
        self.assertEqual(events.headers["Content-Type"], "text/event-stream")
        self.assertEqual(events.readline(), b"event: orders\n")
        # A straggler told to one is known to all, and to those who listen to another.
        c.good("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.3})
        for line in iter(events.readline, b"event: phase\n"):
            pass
        self.assertIn(b"running", events.readline())
        for line in iter(events.readline, b"event: phase\n"):
            pass
        self.assertIn(b"straggling", events.readline())
        listening.close()
        texts = {node.ask("GET", path).body for node in (a, b, c)
                 for path in ["/v1/jobs/j/plans"]}
        self.assertEqual(len(texts), 1)
        for node in (a, b, c):
            self.assertEqual([one["pipeline"] for one in node.good("GET", "/v1/jobs/j")["stragglers"]], [1])
            self.assertTrue(node.good("GET", "/v1/jobs/j/log")["events"])
        b.good("PUT", "/v1/jobs/k", specification())
        for node in (a, b, c):
            self.assertEqual(node.jobs(), ["j", "k"])
        # Errors are those of the job's own server.
        self.assertEqual(self.rank(b, 9, 0).status, 400)
        self.assertEqual(b.ask("PUT", "/v1/jobs/j", specification(micro_batches=8)).status, 409)
        self.assertEqual(b.ask("PATCH", "/v1/jobs/j").status, 405)
        # Deleted at one, gone at all, and free for another.
        c.good("DELETE", "/v1/jobs/j")
        for node in (a, b, c):
            self.assertEqual(node.ask("GET", "/v1/jobs/j").status, 404)
        self.assertEqual(b.ask("PUT", "/v1/jobs/j", specification()).status, 201)
        self.assertEqual(a.jobs(), ["j", "k"])

    def test_one_id_asked_of_all_at_once_is_one_job(self):
        nodes = [self.node() for _ in range(3)]
        for number in range(8):
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(
                    lambda node: node.ask("PUT", f"/v1/jobs/j{number}", specification()).status, nodes * 4))
            self.assertEqual(sorted(answers), [200] * 11 + [201])

    def test_kill_9_of_one_loses_nothing(self):
        a, b = self.node(), self.node()
        a.begin(data=2)
        a.wait_for_phase("running")
        for iteration in range(3):
            self.report(b, iteration)
        a.good("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.3})
        before, plans = b.good("GET", "/v1/jobs/j"), b.ask("GET", "/v1/jobs/j/plans").body
        listening = http.client.HTTPConnection(b.address, timeout=60)
        listening.request("GET", "/v1/jobs/j/events?data=0&stage=0")
        events = listening.getresponse()
        a.kill()
        # Those who listened through another learn it by the end of the stream.
        self.assertNotIn(b"deleted", events.read())
        # And those who ask notice nothing.
        self.report(b, 3)
        after = b.good("GET", "/v1/jobs/j")
        for same in ("phase", "ranks_registered", "stragglers"):
            self.assertEqual(after[same], before[same], same)
        self.assertGreater(after["version"], before["version"])
        self.assertEqual(b.ask("GET", "/v1/jobs/j/plans").body, plans)
        self.assertIn("has moved here", b.log())
        # A third finds it there.
        c = self.node()
        self.assertEqual(c.good("GET", "/v1/jobs/j")["phase"], "straggling")
        self.assertEqual(c.good("DELETE", "/v1/jobs/j/stragglers/1")["phase"], "running")

    def test_watching_goes_on_where_a_home_ended(self):
        a, b = self.node(), self.node()
        a.begin()
        a.wait_for_phase("running")
        watch = subprocess.Popen([a.harpe, "job", "watch", "j", "--server", "http://" + b.address],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.kill)
        self.assertIn("now running", watch.stdout.readline())
        a.kill()
        self.assertIn("now running", watch.stdout.readline())  # again, from where the job is now
        b.good("DELETE", "/v1/jobs/j")
        self.assertIn("now deleted", watch.stdout.read())
        self.assertEqual(watch.wait(60), 0)

    def test_jobs_nobody_asks_for_move_too(self):
        a, b = self.node(), self.node()
        for number in range(5):
            a.good("PUT", f"/v1/jobs/j{number}", specification())
        a.kill()
        b.wait_for(lambda: b.log().count("has moved here") == 5)
        b.stop()
        # A server that comes later takes up what nobody has.
        c = self.node()
        c.wait_for(lambda: c.log().count("has moved here") == 5)
        self.assertEqual(c.jobs(), [f"j{number}" for number in range(5)])

    def test_every_answered_registration_survives_while_servers_are_killed(self):
        nodes = [self.node("--requests-per-second", "0") for _ in range(3)]
        nodes[0].good("PUT", "/v1/jobs/j", specification(data=120))
        answered, failed = [], []
        done = threading.Event()

        def register(first):
            for data in range(first, 120, 4):
                for stage in range(2):
                    while not done.is_set():
                        node = random.choice(nodes)
                        try:
                            answer = self.rank(node, data, stage)
                        except (OSError, EOFError, http.client.HTTPException):
                            continue  # this server is being killed
                        if answer.status == 200:
                            answered.append((data, stage))
                            break
                        # It could not be promised; the same again is harmless.
                        if answer.status != 503:
                            failed.append((answer.status, answer.body))
                            return

        threads = [threading.Thread(target=register, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        try:
            for kill in range(3):
                nodes[0].wait_for(lambda: len(answered) > 40 * (kill + 1) or failed)
                owner = self.postgres.execute("SELECT url FROM harpe_owner WHERE job = 'j'")
                at = next((i for i, node in enumerate(nodes) if node.address in owner), 0)
                nodes[at].kill()
                nodes[at] = self.node("--requests-per-second", "0")
            for thread in threads:
                thread.join(60)
        finally:
            done.set()
        self.assertEqual(failed, [])
        self.assertEqual(len(answered), 240)
        for data, stage in answered:
            other = self.rank(nodes[1], data, stage, "other")
            self.assertEqual(other.status, 409, (data, stage))

    def test_a_server_that_hung_and_lost_a_job_changes_nothing_when_it_wakes(self):
        a, b = self.node(), self.node()
        a.begin()
        a.wait_for_phase("running")
        a.server.send_signal(signal.SIGSTOP)
        # Its machine is gone, as far as the database can tell.
        backend = self.postgres.execute("SELECT backend FROM harpe_owner WHERE job = 'j'")
        self.postgres.execute(f"SELECT pg_terminate_backend({backend})")
        b.good("PUT", "/v1/jobs/j/wish", {"slowdown": 0.04})
        a.server.send_signal(signal.SIGCONT)
        # It believes that it has the job, until it wants to change it.
        a.ask("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1.5})
        a.wait_for(lambda: a.good("GET", "/v1/jobs/j")["wish"] == b.good("GET", "/v1/jobs/j")["wish"])
        self.assertEqual(b.good("GET", "/v1/jobs/j")["stragglers"], [])
        self.assertIn("another server", a.log())

    def test_what_cannot_be_reached_is_said(self):
        a, b = self.node(), self.node("--peer-url", "http://127.0.0.1:9")
        b.good("PUT", "/v1/jobs/lost", specification())
        a.good("PUT", "/v1/jobs/here", specification())
        answer = a.ask("GET", "/v1/jobs/lost")
        self.assertEqual(answer.status, 503)
        self.assertIn("http://127.0.0.1:9", answer.json()["error"]["message"])
        jobs = a.good("GET", "/v1/jobs")
        self.assertEqual([job["id"] for job in jobs["jobs"]], ["here"])
        self.assertEqual(jobs["unreachable"], ["http://127.0.0.1:9"])

    def test_zeus_clients_may_ask_any(self):
        a, b = self.node(), self.node()
        a.begin("planned")
        for metadata, via in ((json.dumps(specification()), a), ("planned", b)):
            job = self.train_with_zeus(metadata, via, a, b)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                schedules = list(pool.map(
                    lambda pair: pair[1].good("GET", f"/schedule/{job}?rank={pair[0]}"), enumerate((b, a))))
            self.assertEqual([one["rank"] for one in schedules], [0, 1])
            for schedule in schedules:
                self.assertIn(schedule["frequencies"][0][1], CLOCKS)

    def test_trainings_of_zeus_go_on_where_a_home_ended(self):
        a, b, c = self.node(), self.node(), self.node()
        a.good("PUT", "/v1/jobs/planned", specification())
        job = self.train_with_zeus("planned", b, b, b)
        b.wait_for_phase("running", "planned")

        def schedules(*nodes):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                return list(pool.map(
                    lambda pair: pair[1].good("GET", f"/schedule/{job}?rank={pair[0]}"), enumerate(nodes)))

        before = schedules(b, c)
        a.kill()
        self.assertEqual(schedules(b, c), before)
        c.good("POST", f"/result/{job}", {"rank": 0, "iter_time": [0.3], "iter_energy": [40.0]})
        self.assertEqual(c.good("GET", "/v1/jobs/planned")["reports"], 1)

    def test_a_schedule_that_is_waited_for_moves_with_its_job(self):
        a, b = self.node(), self.node()
        a.good("PUT", "/v1/jobs/planned", specification())
        job = self.train_with_zeus("planned", a, a, a)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(a.good, "GET", f"/schedule/{job}?rank=0")
            a.wait_for(lambda: a.unanswered() == 1)
            a.server.send_signal(signal.SIGSTOP)
            backend = self.postgres.execute("SELECT backend FROM harpe_owner WHERE job = 'planned'")
            self.postgres.execute(f"SELECT pg_terminate_backend({backend})")
            b.good("PUT", "/v1/jobs/planned/wish", {"slowdown": 0.04})
            a.server.send_signal(signal.SIGCONT)
            a.ask("PUT", "/v1/jobs/planned/stragglers/0", {"factor": 1.5})  # it learns that the job has moved
            other = pool.submit(b.good, "GET", f"/schedule/{job}?rank=1")
            self.assertEqual([waiting.result(60)["rank"], other.result(60)["rank"]], [0, 1])

    def test_limits_are_those_of_each_client(self):
        key = self.postgres.directory / "signing-key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        a, b = (self.node("--signing-key", str(key), "--requests-per-second", "5") for _ in range(2))
        issued = subprocess.run([a.harpe, "serve", "token", "issue", "--signing-key", key, "--user", "u",
                                 "--scope", "job-read,job-write"], capture_output=True, text=True, check=True)

        def ask(node, source, method="GET", body=None, **headers):
            connection = http.client.HTTPConnection(node.address, timeout=60, source_address=(source, 0))
            connection.request(method, "/v1/jobs/j", body,
                               {"Authorization": f"Bearer {issued.stdout.strip()}", **headers})
            status = connection.getresponse().status
            connection.close()
            return status

        self.assertEqual(ask(a, "127.0.0.9", "PUT", json.dumps(specification())), 201)
        # One that asks another server too often is one address at the job's own, not that server's.
        self.assertIn(429, [ask(b, "127.0.0.2") for _ in range(40)])
        self.assertEqual(ask(b, "127.0.0.3"), 200)
        # What a client says of itself does not count: neither a name nor a token of its own.
        for claim in ("address 127.0.0.{}", issued.stdout.strip() + "{}"):
            self.assertIn(429, [ask(a, "127.0.0.4", **{"Harpe-Forwarded": claim.format(i)}) for i in range(40)])
        self.assertEqual(ask(b, "127.0.0.5"), 200)

    def test_they_speak_tls_with_each_other(self):
        folder = self.postgres.directory
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key", "-out",
                        folder / "certificate", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        tls = ("--tls-certificate", str(folder / "certificate"), "--tls-key", str(folder / "key"))
        trusting = (*tls, "--peer-certificates", str(folder / "certificate"))
        a, b, c = self.node(*trusting), self.node(*trusting), self.node(*tls)
        for node in (a, b, c):
            node.trust = str(folder / "certificate")
        a.good("PUT", "/v1/jobs/j", specification())
        self.assertEqual(b.good("GET", "/v1/jobs/j")["phase"], "registering")
        # Listeners that come and go at another server than the job's.
        for _ in range(5):
            listening = http.client.HTTPSConnection(
                b.address, timeout=60, context=ssl.create_default_context(cafile=folder / "certificate"))
            listening.request("GET", "/v1/jobs/j/events?data=0&stage=0")
            with listening.getresponse() as events:
                self.assertEqual(events.readline(), b"event: phase\n")
            listening.close()
        a.wait_for(lambda: b"harpe_server_listeners 0\n" in a.ask("GET", "/metrics").body)
        refused = c.ask("GET", "/v1/jobs/j")
        self.assertEqual(refused.status, 503)
        self.assertIn("certificate verify failed", refused.json()["error"]["message"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    server_process.run(sys.argv.pop())
