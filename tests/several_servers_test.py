#!/usr/bin/env python3
"""Several `harpe serve` over one real PostgreSQL: any serves any job, and the end of one loses nothing.
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
import time
import unittest

import server_process
from postgres_process import Network, Postgres
from server_process import CLOCKS, ServerTest, specification
from training_ranks import Training

# A lease short enough for tests to wait for.
LEASE_S = 1.5
BRIEF = ("--test-lease", f"{LEASE_S}s")


class Node(ServerTest):
    """One of several servers, with the methods of a test with one server."""

    def __init__(self, store):
        super().__init__("log")
        self.setUp()
        self.store = store

    def log(self):
        return (self.folder / "log").read_text()

    def unanswered(self):
        """Returns the number of requests without a response, excluding this one."""
        counts = [line.rsplit(" ", 1) for line in self.ask("GET", "/metrics").body.decode().splitlines()]
        asked = sum(float(count) for name, count in counts if name == "harpe_server_http_requests_total")
        return asked - sum(float(count) for name, count in counts if "http_responses_total{" in name) - 1

    def jobs(self):
        return [job["id"] for job in self.good("GET", "/v1/jobs")["jobs"]]


class SeveralServers(unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres()
        self.addCleanup(self.postgres.remove)
        self.postgres.start()

    def node(self, *options, store=None):
        node = Node(store or self.postgres.url)
        self.addCleanup(node.doCleanups)
        node.start(*options)
        return node

    def owner(self, job):
        """Returns the URL of the server that owns a job, running or not."""
        return self.postgres.execute(
            f"SELECT s.url FROM harpe_owner o JOIN harpe_server s USING (server) WHERE o.job = '{job}'")

    def moves_from(self, node, job="j"):
        node.wait_for(lambda: self.owner(job) not in ("", "http://" + node.address))

    def rank(self, node, data, stage, session="s", job="j"):
        return node.ask("POST", f"/v1/jobs/{job}/ranks", {"data": data, "stage": stage, "clocks_mhz": CLOCKS,
                                                          "session": f"{session}{data}{stage}"})

    def report(self, node, iteration, data=0, stage=0, version=1):
        return node.good("POST", "/v1/jobs/j/reports", {"data": data, "stage": stage, "session": f"s{data}{stage}",
                                                        "iteration": iteration, "version": version, "time_s": 0.3})

    def train_with_zeus(self, metadata, node, *nodes_of_ranks):
        """Registers two stages, each rank at its own node. Returns the training's id."""
        job = node.good("POST", "/register_job", {"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1,
                                                  "world_size": 2, "job_metadata": metadata})
        for rank, of_rank in enumerate(nodes_of_ranks):
            of_rank.good("POST", f"/register_rank/{job}", {
                "rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0, "available_frequencies": CLOCKS})
        return job

    def test_any_of_them_serves_any_job(self):
        a, b, c = self.node(), self.node(), self.node()
        a.good("PUT", "/v1/jobs/j", specification(data=2))
        for place, node in zip([(0, 0), (0, 1), (1, 0), (1, 1)], [a, b, c, b]):
            self.assertEqual(self.rank(node, *place).status, 200)
        c.wait_for_phase("running")
        listening = http.client.HTTPConnection(b.address, timeout=60)
        listening.request("GET", "/v1/jobs/j/events?data=0&stage=1")
        events = listening.getresponse()
        self.assertEqual(events.headers["Content-Type"], "text/event-stream")
        self.assertEqual(events.readline(), b"event: assignments\n")
        # A straggler declared to one server reaches all of them, and event streams at others.
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
        # Errors come from the job's own server.
        self.assertEqual(self.rank(b, 9, 0).status, 422)
        self.assertEqual(b.ask("PUT", "/v1/jobs/j", specification(micro_batches=8)).status, 202)
        self.assertEqual(b.ask("PATCH", "/v1/jobs/j").status, 405)
        # Deleted at one server, the job is gone at all, and its id is free.
        c.good("DELETE", "/v1/jobs/j")
        for node in (a, b, c):
            self.assertEqual(node.ask("GET", "/v1/jobs/j").status, 404)
        self.assertEqual(b.ask("PUT", "/v1/jobs/j", specification()).status, 201)
        self.assertEqual(a.jobs(), ["j", "k"])

    def test_one_id_asked_of_all_at_once_is_one_job(self):
        nodes = [self.node() for _ in range(3)]
        for number in range(8):
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                responses = list(pool.map(
                    lambda node: node.ask("PUT", f"/v1/jobs/j{number}", specification()).status, nodes * 4))
            self.assertEqual(sorted(responses), [200] * 11 + [201])

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
        # A stream through another server ends.
        self.assertNotIn(b"deleted", events.read())
        # Requests continue to succeed.
        self.report(b, 3)
        after = b.good("GET", "/v1/jobs/j")
        for same in ("phase", "ranks_registered", "stragglers"):
            self.assertEqual(after[same], before[same], same)
        self.assertGreater(after["version"], before["version"])
        self.assertEqual(b.ask("GET", "/v1/jobs/j/plans").body, plans)
        self.assertIn("has moved here", b.log())
        # A third server finds it there.
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
        # The stream continues with the job's current state: plans that were not stored yet are made again.
        line = watch.stdout.readline()
        while "now characterizing" in line:
            line = watch.stdout.readline()
        self.assertIn("now running", line)
        b.good("DELETE", "/v1/jobs/j")
        self.assertIn("now deleted", watch.stdout.read())
        self.assertEqual(watch.wait(60), 0)

    def test_idle_jobs_stay_with_their_server_and_move_with_the_others(self):
        idle = ("--idle-after", "1s", "--end-after", "1h", *BRIEF)
        a, b = self.node(*idle), self.node(*idle)
        a.begin(data=2)
        a.wait_for_phase("running")
        before = a.good("GET", "/v1/jobs/j")
        epoch = self.postgres.execute("SELECT epoch FROM harpe_owner")
        a.wait_for(lambda: a.good("GET", "/health")["jobs_in_memory"] == 0)
        # The job stays with this server: others do not take it over.
        self.assertEqual(self.owner("j"), "http://" + a.address)
        seen = b.good("GET", "/v1/jobs/j")
        self.assertEqual((seen["activity"], seen["epoch"]), ("idle", before["epoch"]))
        for node in (a, b):
            self.assertEqual([job["activity"] for job in node.good("GET", "/v1/jobs")["jobs"]], ["idle"])
        a.wait_for(lambda: a.good("GET", "/health")["jobs_in_memory"] == 0)
        self.assertEqual(self.postgres.execute("SELECT epoch FROM harpe_owner"), epoch)
        # Its server hangs for longer than its lease: jobs that are not in memory move, too.
        a.server.send_signal(signal.SIGSTOP)
        self.moves_from(a)
        self.report(b, 5)
        after = b.good("GET", "/v1/jobs/j")
        self.assertEqual((after["phase"], after["incarnation"]), (before["phase"], before["incarnation"]))
        self.assertGreater(after["epoch"], before["epoch"])
        b.good("DELETE", "/v1/jobs/j")
        a.server.send_signal(signal.SIGCONT)
        a.wait_for(lambda: a.ask("GET", "/v1/jobs/j").status == 404)
        self.assertEqual(a.jobs() + b.jobs(), [])
        self.assertEqual(self.postgres.execute("SELECT (SELECT count(*) FROM harpe_job) + (SELECT count(*) FROM harpe_part) + "
                                               "(SELECT count(*) FROM harpe_summary)"), "0")

    def test_lists_of_several_servers_come_in_pages(self):
        a, b = self.node(), self.node()
        jobs = [f"j{number}" for number in range(7)]
        for number, job in enumerate(jobs):
            (a, b)[number % 3 == 0].good("PUT", f"/v1/jobs/{job}", specification())
        for limit in (1, 2, 3, 7):
            listed, after = [], ""
            while after is not None:
                page = b.good("GET", f"/v1/jobs?limit={limit}&after={after}")
                self.assertLessEqual(len(page["jobs"]), limit)
                listed += [job["id"] for job in page["jobs"]]
                after = page.get("next")
            self.assertEqual(listed, jobs, limit)
        self.assertEqual(a.ask("GET", "/v1/jobs?limit=0").status, 400)

    def test_jobs_nobody_asks_for_move_too(self):
        a, b = self.node(), self.node()
        for number in range(5):
            a.good("PUT", f"/v1/jobs/j{number}", specification())
        a.kill()
        b.wait_for(lambda: b.log().count("has moved here") == 5)
        b.stop()
        # A server that starts later takes over jobs without a server.
        c = self.node()
        c.wait_for(lambda: c.log().count("has moved here") == 5)
        self.assertEqual(c.jobs(), [f"j{number}" for number in range(5)])

    def test_every_acknowledged_registration_survives_while_servers_are_killed(self):
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
                            response = self.rank(node, data, stage)
                        except (OSError, EOFError, http.client.HTTPException):
                            continue  # this server is being killed
                        if response.status == 200:
                            answered.append((data, stage))
                            break
                        # The registration could not be stored; repeating it is harmless.
                        if response.status != 503:
                            failed.append((response.status, response.body))
                            return

        threads = [threading.Thread(target=register, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        try:
            for kill in range(3):
                nodes[0].wait_for(lambda: len(answered) > 40 * (kill + 1) or failed)
                owner = self.owner("j")
                at = next((i for i, node in enumerate(nodes) if node.address in owner), 0)
                nodes[at].kill()
                nodes[at] = self.node("--requests-per-second", "0")
            for thread in threads:
                thread.join(60)
        finally:
            done.set()
        self.assertEqual(failed, [])
        self.assertEqual(len(answered), 240)
        self.assertEqual(nodes[1].good("GET", "/v1/jobs/j")["ranks_registered"], 240)
        for data, stage in random.sample(answered, 100):  # more than half would count as a takeover
            other = self.rank(nodes[1], data, stage, "other")
            self.assertEqual(other.status, 409, (data, stage))

    def test_a_server_that_hung_and_lost_a_job_lets_it_go_when_it_wakes(self):
        a, b = self.node(*BRIEF), self.node(*BRIEF)
        a.begin()
        a.wait_for_phase("running")
        listening = http.client.HTTPConnection(b.address, timeout=60)
        listening.request("GET", "/v1/jobs/j/events?data=0&stage=0")
        events = listening.getresponse()
        epoch = b.good("GET", "/v1/jobs/j")["epoch"]
        a.server.send_signal(signal.SIGSTOP)
        self.moves_from(a)
        # While it moves, the response may be to try again.
        b.wait_for(lambda: b.ask("PUT", "/v1/jobs/j/objective", {"slowdown": 0.04}).status == 200)
        # Streams through another server to the hanging one also end.
        self.assertNotIn(b"deleted", events.read())
        listening.close()
        a.server.send_signal(signal.SIGCONT)
        # Its first response already comes from the new owner.
        self.assertEqual(a.ask("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1.5}).status, 200)
        for node in (a, b):
            status = node.good("GET", "/v1/jobs/j")
            self.assertEqual([one["pipeline"] for one in status["stragglers"]], [0])
            self.assertEqual(status["objective"], {"slowdown": 0.04})
            self.assertEqual(status["epoch"], epoch + 1)
        a.wait_for(lambda: "is released" in a.log())

    def test_a_server_that_is_started_again_responds_within_a_second(self):
        a = self.node()  # with a lease of 10 s
        a.begin()
        a.wait_for_phase("running")
        # An acknowledged change is stored, and the phase with it; without one the phase is stored a moment later.
        a.good("PUT", "/v1/jobs/j/objective", {"slowdown": 0.04})
        epoch = a.good("GET", "/v1/jobs/j")["epoch"]
        took = []
        # On a busy machine a start may take seconds, but not every time; waiting for the lease would take ten.
        while not took or (took[-1] > 1 and len(took) < 5):
            a.kill()
            begin = time.monotonic()
            a.start(tcp=a.address)
            status = a.good("GET", "/v1/jobs/j")
            took.append(time.monotonic() - begin)
            self.assertEqual(status["phase"], "running")
            self.assertEqual(status["epoch"], epoch + len(took))
            self.assertLess(took[-1], 9)
        self.assertLess(min(took), 5 if a.slow else 1, took)

    def test_what_one_of_them_has_registered_the_others_know_at_once(self):
        a, b = self.node(), self.node()
        for number in range(20):
            job = f"/v1/jobs/j{number}"
            self.assertEqual(b.ask("GET", job).status, 404)
            a.good("PUT", job, specification())
            self.assertEqual(b.ask("GET", job).status, 200)

    def test_a_database_that_is_started_again_costs_no_job(self):
        a, b = self.node(), self.node()
        for number in range(3):
            a.good("PUT", f"/v1/jobs/a{number}", specification())
            b.good("PUT", f"/v1/jobs/b{number}", specification())
        owners = "SELECT job, server, epoch FROM harpe_owner ORDER BY job"
        before = self.postgres.execute(owners)
        self.postgres.stop()
        self.postgres.start()
        for node, other in ((a, "b"), (b, "a")):
            for number in range(3):
                node.good("GET", f"/v1/jobs/{other}{number}")
        self.assertEqual(self.postgres.execute(owners), before)

    def test_one_server_commands_whatever_is_stopped_cut_off_or_killed(self):
        """Runs the same ranks through all faults: see the assertions at the end."""
        networks = [Network(self.postgres) for _ in range(2)]
        for network in networks:
            self.addCleanup(network.remove)
        nodes = [self.node(*BRIEF, store=network.url) for network in networks]
        a, b = nodes
        spec = specification(data=2, plans=20)
        with Training("j", spec, [node.address for node in nodes]) as training:
            a.wait_for(lambda: b.ask("GET", "/v1/jobs/j").status == 200)
            a.wait_for_phase("running")
            changes = 1

            def owner():
                """Returns the indices of the server that owns the job, and of the other one."""
                at = int(b.address in self.owner("j"))
                return at, 1 - at

            def trains(iterations=20):
                end = training.now() + iterations
                a.wait_for(lambda: training.now() > end)

            def declare(node, factor):
                """Declares a straggler to one server. A few iterations later all ranks know it, or a newer change,
                except those that the response lists."""
                response = node.good_in_time("PUT", "/v1/jobs/j/stragglers/1", {"factor": factor})
                trains()
                known = [rank.known() for rank in training.ranks]
                told = node.good_in_time("GET", "/v1/jobs/j")["epoch"], response["version"]
                self.assertLessEqual(sum(one < told for one in known), response["ranks_unheard"], (told, known))
                status = node.good_in_time("GET", "/v1/jobs/j")
                self.assertEqual([one["factor"] for one in status["stragglers"]], [factor])

            trains()
            # The owner hangs for longer than its lease.
            hangs = nodes[owner()[0]]
            hangs.server.send_signal(signal.SIGSTOP)
            self.moves_from(hangs)
            changes += 1
            trains()
            hangs.server.send_signal(signal.SIGCONT)
            declare(hangs, 1.2)
            # The database is restarted.
            self.postgres.stop()
            time.sleep(0.3)  # both servers lose their connections
            self.postgres.start()
            trains()
            declare(b, 1.3)
            changes += 1  # counted, since it may have taken too long
            # The owner is cut off from the database, but not from its ranks.
            at, other = owner()
            cut_off = nodes[at]
            networks[at].cut()
            self.moves_from(cut_off)
            changes += 1
            trains()
            declare(nodes[other], 1.4)
            # It cannot know the owner of the job, and forwards nothing.
            response = cut_off.ask("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.9})
            self.assertEqual(response.status, 503)
            networks[at].heal()
            cut_off.wait_for(lambda: cut_off.ask("GET", "/v1/jobs/j").status == 200)
            declare(cut_off, 1.5)
            # The owner is killed.
            at, other = owner()
            nodes[at].kill()
            self.moves_from(nodes[at])
            changes += 1
            alive = nodes[other]
            for rank in training.ranks:
                rank.address = alive.address  # like a load balancer in front of the servers
            trains()
            declare(alive, 1.6)
        print(training.summary(), flush=True)
        self.assertEqual(training.two_commanders(), [])
        epochs = training.commanders()
        self.assertEqual(epochs, sorted(epochs))
        self.assertGreaterEqual(len(epochs), 4)
        # Assignments take some iterations per change to reach all ranks. Ranks whose server hangs or is cut off keep
        # theirs until their patience ends, and no longer.
        declared, patience = 5, int(2 * training.patience_s / training.iteration_s)
        self.assertLessEqual(len(training.mixed()), 4 * (changes + declared) + patience, training.summary())
        self.assertGreater(len(training.iterations), 150)

    def test_what_cannot_be_reached_is_said(self):
        a, b = self.node(), self.node("--peer-url", "http://127.0.0.1:9")
        b.good("PUT", "/v1/jobs/lost", specification())
        a.good("PUT", "/v1/jobs/here", specification())
        response = a.ask("GET", "/v1/jobs/lost")
        self.assertEqual(response.status, 503)
        self.assertIn("http://127.0.0.1:9", response.json()["error"]["message"])
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
        a, b = self.node(*BRIEF), self.node(*BRIEF)
        a.good("PUT", "/v1/jobs/planned", specification())
        job = self.train_with_zeus("planned", a, a, a)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(a.good, "GET", f"/schedule/{job}?rank=0")
            a.wait_for(lambda: a.unanswered() == 1)
            a.server.send_signal(signal.SIGSTOP)
            self.moves_from(a, "planned")
            a.server.send_signal(signal.SIGCONT)
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
        # A client that asks another server too often is one address at the job's own server, distinct from the
        # forwarding server's.
        self.assertIn(429, [ask(b, "127.0.0.2") for _ in range(40)])
        self.assertEqual(ask(b, "127.0.0.3"), 200)
        # Neither a name nor an own token that a client sends changes its identity.
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
        # Event streams that open and close at another server than the job's.
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
