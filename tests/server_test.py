#!/usr/bin/env python3
"""`harpe serve` as a process: what docs/openapi.yaml promises, Zeus's protocol word by word, crashes.
Usage: server_test.py HARPE"""

import contextlib
import datetime
import http.server
import json
import os
import pty
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import unittest

import contract
import server_process
from server_process import CLOCKS, CONTRACT, ServerTest, specification

COSTS = {(int(stage), name, int(clock)): (float(time), float(energy))
         for stage, name, clock, time, energy in (line.split(",") for line in server_process.PROFILE.splitlines()[1:])}


class Options(ServerTest):
    def test_they_may_stand_in_a_file_which_the_command_line_comes_before(self):
        key = self.folder / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        config = self.folder / "server.toml"
        config.write_text(f'store = "sqlite:/nowhere/harpe.db"\ntcp = "none"\nsigning-key = "{key}"\n')
        self.start("--config", config)
        self.assertEqual(self.ask("GET", "/v1/jobs").status, 401)

    def test_what_is_wrong_in_the_file_is_named_by_its_place_and_nothing_is_made(self):
        config = self.folder / "server.toml"
        config.write_text(f'store = "{self.store}"\nstoer = "none"\nworkers = 0\n')
        said = subprocess.run([self.harpe, "serve", "--config", config], capture_output=True, text=True, timeout=60)
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn(f"{config}:2:1: unknown option 'stoer'; did you mean 'store'?", said.stderr)
        self.assertIn(f"{config}:3:11: workers: ", said.stderr)
        self.assertEqual(list(self.folder.iterdir()), [config])


class Search(ServerTest):
    def test_a_better_plan_is_searched_for_and_kept(self):
        self.start("--search-time", "5s")
        self.begin()
        self.wait_for(lambda: (self.good("GET", "/v1/jobs/j")["search"] or {}).get("state") in ("searching", "ended"), 240)
        shown = subprocess.run([self.harpe, "job", "show", "j", "--server", f"http://{self.address}"],
                               capture_output=True, text=True, timeout=60)
        self.assertRegex(shown.stdout, "\n  search  .* better plan")
        self.wait_for(lambda: self.good("GET", "/v1/jobs/j")["search"]["state"] == "ended", 240)
        energy = self.good("GET", "/v1/jobs/j")["plans"][0]["energy_j"]
        self.kill()
        self.start("--search-time", "0")
        self.good("POST", "/v1/jobs/j/ranks", {"data": 0, "stage": 0, "session": "s00", "clocks_mhz": CLOCKS})
        after = self.good("GET", "/v1/jobs/j")
        self.assertIsNone(after["search"])
        self.assertEqual(after["plans"][0]["energy_j"], energy)


class Crashes(ServerTest):
    def test_what_was_promised_survives_kill_9(self):
        self.start()
        self.begin(data=2)
        self.wait_for_phase("running")
        self.good("PUT", "/v1/jobs/j/objective", {"slowdown": 0.02})
        self.wait_for(lambda: any(plan["for_objective"] for plan in self.good("GET", "/v1/jobs/j")["plans"]))
        plans = self.good("GET", "/v1/jobs/j/plans")
        self.good("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.3})
        self.good("PUT", "/v1/jobs/gone", specification())
        self.good("DELETE", "/v1/jobs/gone")
        before = self.good("GET", "/v1/jobs/j")
        self.kill()
        self.start()
        after = self.good("GET", "/v1/jobs/j")
        for same in ("name", "phase", "ranks_registered", "stragglers", "objective", "data", "stages"):
            self.assertEqual(after[same], before[same], same)
        self.assertEqual(self.good("GET", "/v1/jobs/j/plans"), plans)
        self.assertEqual(self.ask("GET", "/v1/jobs/gone").status, 404)
        self.assertTrue(self.good("GET", "/v1/jobs/j/log")["events"])
        # The same job and rank again are accepted.
        self.assertEqual(self.ask("PUT", "/v1/jobs/j", specification(data=2)).status, 200)
        self.good("POST", "/v1/jobs/j/ranks", {"data": 1, "stage": 1, "session": "s11", "clocks_mhz": CLOCKS})
        self.assertEqual(self.good("DELETE", "/v1/jobs/j/stragglers/1")["phase"], "running")

    def test_every_acknowledged_registration_survives_a_kill_in_the_middle(self):
        self.start("--requests-per-second", "0")
        self.good("PUT", "/v1/jobs/j", specification(data=200))
        answered = []

        def register(first):
            for data in range(first, 200, 4):
                for stage in range(2):
                    try:
                        response = self.ask("POST", "/v1/jobs/j/ranks", {
                            "data": data, "stage": stage, "session": f"s{data}-{stage}", "clocks_mhz": CLOCKS})
                    except (OSError, EOFError):
                        return
                    if response.status == 200:
                        answered.append((data, stage))

        threads = [threading.Thread(target=register, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        self.wait_for(lambda: len(answered) > 60)
        self.kill()
        for thread in threads:
            thread.join()
        self.start("--requests-per-second", "0")
        for data, stage in answered:
            other = self.ask("POST", "/v1/jobs/j/ranks",
                             {"data": data, "stage": stage, "session": "other", "clocks_mhz": CLOCKS})
            self.assertEqual(other.status, 409, (data, stage))

    def test_it_stops_when_asked_and_keeps_everything(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        self.good("POST", "/v1/jobs/j/reports", {"data": 0, "stage": 0, "session": "s00", "iteration": 0, "version": 0,
                                                 "time_s": 0.5, "energy_j": 40, "instructions": []})
        energy = self.good("GET", "/v1/jobs/j/energy")
        self.assertEqual(self.stop(), 0)
        self.start()
        self.assertEqual(self.good("GET", "/v1/jobs/j")["phase"], "running")
        kept = self.good("GET", "/v1/jobs/j/energy")
        rows = [sum(row[1] for row in one["runs"][0]["intervals"]["rows"]) for one in (energy, kept)]
        self.assertAlmostEqual(rows[0], 40)
        self.assertAlmostEqual(rows[1], 40)

    def test_without_a_key_its_socket_is_its_owners_and_the_log_says_who_may_do_what(self):
        path, key = self.folder / "socket", self.folder / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        for options, mode, told in (((), 0o600, True), (("--signing-key", key), 0o666, False)):
            self.start("--socket", path, *options)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), mode)
            self.assertEqual("may read, change and delete every job" in (self.folder / "log").read_text(), told)
            self.stop()
            (self.folder / "log").unlink()

    def in_a_terminal(self, hang_up=signal.SIG_DFL):
        """Starts a server in a new terminal, and waits until it accepts connections. Returns its process id and the
        terminal."""
        child, terminal = pty.fork()
        if child == 0:
            signal.signal(signal.SIGHUP, hang_up)
            try:
                os.execv(self.harpe, ["harpe", "serve", "--tcp", "127.0.0.1:0", "--store", str(self.store), "--log",
                                      str(self.folder / "log")])
            finally:
                os._exit(127)
        self.addCleanup(self.end_of, child, signal.SIGKILL)
        printed = b""
        while b"listening on" not in printed:
            printed += os.read(terminal, 4096)
        return child, terminal

    def log_text(self):
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    @staticmethod
    def end_of(child, with_signal=None):
        """Returns the exit status, or None while it runs."""
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if with_signal:
                os.kill(child, with_signal)
            done, status = os.waitpid(child, 0 if with_signal else os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if done else None

    def test_it_ends_in_order_when_its_terminal_closes_and_reopens_its_log_otherwise(self):
        child, terminal = self.in_a_terminal()
        os.kill(child, signal.SIGHUP)
        self.wait_for(lambda: "log reopened" in self.log_text())
        os.close(terminal)
        ended = []
        self.wait_for(lambda: ended.append(self.end_of(child)) or ended[-1] is not None)
        self.assertEqual(ended[-1], 0)
        self.assertIn("asked to stop", self.log_text())

    def test_with_nohup_it_outlives_its_terminal(self):
        child, terminal = self.in_a_terminal(signal.SIG_IGN)
        os.close(terminal)
        self.wait_for(lambda: "log reopened" in self.log_text())
        os.kill(child, signal.SIGHUP)
        self.wait_for(lambda: self.log_text().count("log reopened") == 2)
        self.assertIsNone(self.end_of(child))

    def test_a_second_server_on_one_file_is_refused(self):
        self.start()
        second = subprocess.run([self.harpe, "serve", "--tcp", "127.0.0.1:0", "--store", self.store],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 75, second.stderr)


class Commands(ServerTest):
    """Tests `harpe job` with a running server."""

    def job(self, *arguments, server=None):
        return subprocess.run([self.harpe, "job", *arguments, "--server", server or f"http://{self.address}"],
                              capture_output=True, text=True, timeout=60)

    def test_what_was_told_stands_in_the_log(self):
        self.start()
        self.begin(data=2)
        self.wait_for_phase("running")
        self.assertEqual(self.job("straggler", "j", "1", "1.2").returncode, 0)
        log = self.job("log", "j")
        self.assertEqual(log.returncode, 0, log.stderr)
        self.assertRegex(log.stdout, r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  now straggling$")

    def test_what_a_job_emitted_is_reported_with_its_user(self):
        key = self.folder / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        self.start("--signing-key-path", key)
        issued = subprocess.run([self.harpe, "serve", "token", "issue", "--signing-key", key, "--user", "alice",
                                 "--scope", "job-read,job-write"], capture_output=True, text=True, check=True)
        bearer = {"Authorization": "Bearer " + issued.stdout.strip()}
        token = self.folder / "token"
        token.write_text(issued.stdout)
        token.chmod(0o600)
        self.assertEqual(self.ask("PUT", "/v1/jobs/j", specification(), headers=bearer).status, 201)
        for stage in range(2):
            self.assertEqual(self.ask("POST", "/v1/jobs/j/ranks", {
                "data": 0, "stage": stage, "session": f"s0{stage}", "clocks_mhz": CLOCKS}, headers=bearer).status, 200)
        for iteration in range(3):
            for stage in range(2):
                self.assertEqual(self.ask("POST", "/v1/jobs/j/reports", {
                    "data": 0, "stage": stage, "session": f"s0{stage}", "iteration": iteration, "version": 0, "time_s": 200,
                    "energy_j": 600000, "instructions": []}, headers=bearer).status, 200)
        report = subprocess.run([self.harpe, "carbon", "report", "--server", f"http://{self.address}", "--token-file", token,
                                 "--carbon", "300", "--by", "user", "--per", "iteration", "--json"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(report.returncode, 0, report.stderr)
        document = json.loads(report.stdout)
        self.assertEqual([row["name"] for row in document["rows"]], ["alice"])
        self.assertAlmostEqual(document["total"]["grams"], 300)
        self.assertAlmostEqual(document["total"]["iterations"], 3, places=5)
        self.assertAlmostEqual(document["total"]["grams_per_unit"], 100, places=4)
        refused = subprocess.run([self.harpe, "carbon", "report", "--server", f"http://{self.address}", "--carbon", "300"],
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 77, refused.stderr)
        self.assertIn("--token-file", refused.stderr)

    def test_a_name_that_is_nearly_a_job_s_is_answered_with_that(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3-175b", specification())
        for command in (("show",), ("plan",), ("carbon",), ("objective", "--least-energy")):
            told = self.job(command[0], "gpt-175b", *command[1:])
            self.assertNotEqual(told.returncode, 0, told.stdout)
            self.assertIn("there is no job gpt-175b", told.stderr)
            self.assertIn("(did you mean 'gpt3-175b'?)", told.stderr)
        told = self.job("show", "llama")
        self.assertNotIn("did you mean", told.stderr)
        self.assertIn("harpe job list --all", told.stderr)

    def test_the_bill_of_a_job_s_cluster_is_by_its_plans(self):
        self.start()
        self.good("PUT", "/v1/jobs/new", specification())
        self.assertIn("No bill yet", self.job("show", "new", "--price", "0.10/kWh").stdout)
        self.begin(data=2)
        self.wait_for_phase("running")
        terms = ("--price", "0.10 EUR/kWh", "--carbon", "DE", "--pue", "1.2", "--hours", "100")
        self.assertRegex(self.job("show", "j", *terms).stdout, "In plain words: .* [(]2 pipelines of")
        status = json.loads(self.job("show", "j", *terms, "--json").stdout)
        bill, plans = status["cluster"], status["plans"]
        each = sum(plan["pipelines"] * plan["energy_j"] for plan in plans)
        self.assertAlmostEqual(bill["kwh"] / (1.2 * bill["iterations"] * each / 3.6e6), 1, 9)
        self.assertAlmostEqual(bill["money"] / (0.10 * bill["kwh"]), 1, 9)
        all_max = sum(plan["pipelines"] * plan["energy_j"] / (1 - plan["saving_to_all_max"]) for plan in plans)
        self.assertAlmostEqual(bill["saved"]["percent"], 100 * (1 - each / all_max), 6)
        refused = self.job("show", "j", "--pue", "0.5")
        self.assertEqual((refused.returncode, "a PUE is" in refused.stderr), (2, True), refused.stderr)

    def test_a_bill_is_by_the_terms_of_the_specification_unless_options_say_else(self):
        self.start()
        self.begin(data=2, cluster={"price": "0.10 EUR/kWh", "carbon": 400, "pue": 1.2, "gpus_per_node": 1000000})
        self.wait_for_phase("running")
        bill = json.loads(self.job("show", "j", "--json").stdout)["cluster"]
        self.assertEqual((bill["pue"], bill["currency"], bill["carbon"]["grams_per_kwh"]), (1.2, "EUR", 400))
        self.assertIn("In plain words:", self.job("show", "j").stdout)
        other = json.loads(self.job("show", "j", "--pue", "1.5", "--json").stdout)["cluster"]
        self.assertEqual((other["pue"], other["currency"]), (1.5, "EUR"))
        answer = self.ask("PUT", "/v1/jobs/k", specification(cluster={"carbon": "file:/etc/passwd"}))
        self.assertEqual(answer.status, 400, answer.body)
        self.assertIn("carbon", str(answer.json()))

    def test_a_list_may_have_jobs_without_an_id(self):
        class Odd(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                unknown = {"error": {"code": "not_found", "message": "there is no job gpt"}}
                listed = {"jobs": [3, None, {}, {"id": 7}, {"id": "gpt3"}]}
                status, body = (200, listed) if self.path.startswith("/v1/jobs?") else (404, unknown)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd) as odd:
            threading.Thread(target=odd.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{odd.server_port}"
            told = self.job("show", "gpt", server=url)
            report = subprocess.run([self.harpe, "carbon", "report", "--server", url, "--carbon", "300"],
                                    capture_output=True, text=True, timeout=60)
            odd.shutdown()
        self.assertIn("(did you mean 'gpt3'?)", told.stderr)
        self.assertIn("there is no job gpt", report.stderr)
        self.assertNotIn("terminate", told.stderr + report.stderr)

    def test_a_job_may_be_watched_before_it_comes(self):
        self.start()
        watch = subprocess.Popen([self.harpe, "job", "watch", "j", "--server", f"http://{self.address}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("there is no job j", watch.stderr.readline())
            self.begin()
            self.assertRegex(watch.stdout.readline(), r"\S")
        finally:
            watch.terminate()
            watch.communicate(timeout=60)

    def test_of_a_job_that_has_ended_watching_says_how_and_ends(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        for stage in range(2):
            self.good("POST", "/v1/jobs/j/end", {"data": 0, "stage": stage, "session": f"s0{stage}"})
        watched = self.job("watch", "j")
        self.assertEqual(watched.returncode, 0, watched.stderr)
        self.assertRegex(watched.stdout, r"^j has ended, \d{4}-\d\d-\d\d \d\d:\d\d, after it was running\n")
        self.assertNotIn("now running", watched.stdout)
        document = json.loads(self.job("watch", "j", "--json").stdout)
        self.assertEqual(document["activity"], "ended")

    def test_an_objective_that_cannot_be_judged_yet_says_so(self):
        self.start()
        self.good("PUT", "/v1/jobs/j", specification())
        for objective, says in ((("--deadline", "1ms"), True), (("--power-cap", "1W"), True), (("--least-energy",), False)):
            told = self.job("objective", "j", *objective)
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertEqual("note: the job has no plans yet" in told.stdout, says, told.stdout)
        self.assertIn("warning", self.good("PUT", "/v1/jobs/j/objective", {"deadline_s": 0.001}))
        self.begin()
        self.wait_for_phase("running")
        self.assertNotIn("warning", self.good("PUT", "/v1/jobs/j/objective", {"deadline_s": 10}))
        self.assertEqual(self.ask("PUT", "/v1/jobs/j/objective", {"deadline_s": 0.001}).status, 422)

    def test_mistakes_are_named_as_they_were_made(self):
        self.start()
        self.begin()
        for said, arguments in (("--for must be longer than 0", ("straggler", "j", "0", "1.2", "--for", "0")),
                                ("at least 1", ("straggler", "j", "0", "0.8")),
                                ("letters, digits", ("show", "a/b"))):
            told = self.job(*arguments)
            self.assertEqual(told.returncode, 2, arguments)
            self.assertIn(said, told.stderr)
        told = self.job("list", server=f"http://{self.address}/v1")
        self.assertEqual(told.returncode, 2)
        self.assertIn("must end after its host and port", told.stderr)
        self.assertIn("is `harpe serve` running there?", self.job("watch", "j", server="http://127.0.0.1:9").stderr)
        slash = self.ask("PUT", "/v1/jobs/k/", specification())
        self.assertEqual(slash.status, 404)
        self.assertIn("slash", slash.json()["error"]["message"])


class Room(ServerTest):
    """Tests a server with a low limit on open files."""

    FILES, CONNECTIONS = 100, 50

    def connect(self):
        host, port = self.address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(connection.close)
        return connection

    @unittest.skipIf(os.environ.get("HARPE_SANITIZE"), "sanitizers need files of their own")
    def test_connections_fit_open_files(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.FILES // 2, self.FILES))

        self.start(preexec_fn=few_files)
        said = (self.folder / "log").read_text()
        self.assertIn(f"holds {self.CONNECTIONS} connections at once, for {self.CONNECTIONS // 2} ranks with two each: "
                      f"more need more open files than the {self.FILES}", said)
        # Only a job with more ranks than that gets a warning.
        spec = specification(data=self.CONNECTIONS)
        self.assertIn(f"connections for {self.CONNECTIONS // 2}", self.good("PUT", "/v1/jobs/large", spec)["warning"])
        self.assertNotIn("warning", self.good("PUT", "/v1/jobs/small", specification()))

        held = []
        for _ in range(self.CONNECTIONS):
            held.append(self.connect())
            held[-1].sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(held[-1].recv(65536).startswith(b"HTTP/1.1 200 "))
        refused = self.ask("GET", "/v1/jobs")
        self.assertEqual((refused.status, refused.headers["Retry-After"]), (503, "5"))
        self.assertIn("its maximum number of connections", refused.json()["error"]["message"])
        self.assertIn("--connections", (self.folder / "log").read_text())
        # Its health can be read all the time.
        for _ in range(5):
            self.assertEqual(self.good("GET", "/health")["status"], "ok")
            self.assertEqual(self.ask("GET", "/metrics").status, 200)
        held.pop().close()
        self.wait_for(lambda: self.ask("GET", "/v1/jobs").status == 200)


class Contract(ServerTest):
    BODIES = {
        ("PUT", "/v1/jobs/{job}"): specification(),
        ("POST", "/v1/jobs/{job}/ranks"): {"stage": 0, "session": "s00", "clocks_mhz": CLOCKS},
        ("POST", "/v1/jobs/{job}/end"): {"stage": 0, "session": "s00"},
        ("POST", "/v1/jobs/{job}/reports"): {"stage": 0, "session": "s00", "iteration": 0, "time_s": 0.3},
        ("PUT", "/v1/jobs/{job}/stragglers/{pipeline}"): {"factor": 1.2},
        ("PUT", "/v1/jobs/{job}/objective"): {"slowdown": 0.1},
        ("PUT", "/v1/jobs/{job}/pace"): {},
        ("PUT", "/v1/jobs/{job}/carbon"): {"iterations": 100, "deadline_factor": 1.5},
        ("PUT", "/v1/recurring-jobs/{job}"): {"batch_sizes": [8, 16], "default_batch_size": 8, "max_power": 300,
                                              "number_of_gpus": 1, "gpu_model": "A40"},
        ("POST", "/v1/recurring-jobs/{job}/trials/{trial}/reports"): {"epoch": 1, "time_s": 10, "energy_j": 500, "metric": None},
    }
    STREAM = ("GET", "/v1/jobs/{job}/events")

    def filled(self, path, job="j", pipeline="0"):
        return path.replace("{job}", job).replace("{pipeline}", pipeline).replace("{trial}", "1")

    def test_it_is_served_as_it_is_written(self):
        self.start()
        self.assertEqual(self.ask("GET", "/openapi.yaml").body, contract.FILE.read_bytes())

    def test_every_route_responds_as_it_says(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        recurring = ("PUT", "/v1/recurring-jobs/{job}")
        self.assertEqual(self.ask("PUT", self.filled(recurring[1]), self.BODIES[recurring]).status, 201)
        self.assertEqual(self.ask("POST", self.filled(recurring[1]) + "/trials").status, 201)
        # Removed last, after everything below it.
        routes = sorted(CONTRACT.operations(),
                        key=lambda route: (route[0] == "DELETE" and "straggler" not in route[1], -route[1].count("/")))
        self.assertGreater(len(routes), 20)
        zeus = ("/register", "/schedule", "/result", "/jobs", "/report", "/trials")
        for method, path in routes:
            if (method, path) == self.STREAM or path.startswith(zeus):
                continue
            statuses = CONTRACT.operations()[method, path]
            response = self.ask(method, self.filled(path), self.BODIES.get((method, path)))
            expected = 201 if (method, path) == ("POST", "/v1/recurring-jobs/{job}/trials") else 200
            if path == "/v1/jobs/{job}/carbon" and method == "PUT":
                expected = 422  # this server has no carbon source
            self.assertEqual(response.status, expected, (method, path, response.body))
            self.assertIn(expected, statuses)

    def test_what_is_wrong_is_refused_as_it_says(self):
        self.start()
        self.begin()
        for (method, path), statuses in CONTRACT.operations().items():
            for job, body in (("none", {}), ("j", "{"), ("j", []), ("j", {"no": "such"}), ("a b", {}), ("j", b"\xff")):
                if (method, path) == self.STREAM and job == "j" or method == "DELETE":
                    continue
                target = self.filled(path, job.replace(" ", "%20"), "7")
                response = self.ask(method, target, body if method in ("PUT", "POST") else None)
                self.assertIn(response.status, statuses, (method, target, body, response.body))
                if response.status >= 400:
                    self.assertTrue({"error", "detail"} & set(response.json()), response.body)

    def test_other_methods_are_405(self):
        self.start()
        self.begin()
        for path in {path for _, path in CONTRACT.operations()}:
            for method in ("GET", "PUT", "POST", "DELETE", "PATCH"):
                if (method, path) in CONTRACT.operations():
                    continue
                response = self.ask(method, self.filled(path), {})
                self.assertEqual(response.status, 405, (method, path, response.body))

    def test_each_route_asks_for_a_token_where_there_is_a_key(self):
        key = self.folder / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        self.start("--signing-key-path", key)
        issued = subprocess.run([self.harpe, "serve", "token", "issue", "--signing-key", key, "--user", "a",
                                 "--scope", "job-read", "--job", "other"], capture_output=True, text=True, check=True)
        token = {"Authorization": "Bearer " + issued.stdout.strip()}
        for (method, path), statuses in CONTRACT.operations().items():
            if path in ("/health", "/openapi.yaml"):
                self.assertEqual(self.ask(method, path).status, 200)
                continue
            self.assertLessEqual({401, 403, 429}, statuses, (method, path))
            self.assertEqual(self.ask(method, self.filled(path)).status, 401, (method, path))
            expected = 200 if path in ("/v1/jobs", "/v1/carbon") else 403
            self.assertEqual(self.ask(method, self.filled(path), headers=token).status, expected, (method, path))


class Zeus(ServerTest):
    """Tests section 2 of Zeus's wire formats."""

    JOB = {"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1, "world_size": 2, "job_metadata": None}

    def register(self, metadata, **changes):
        return self.ask("POST", "/register_job", {**self.JOB, "job_metadata": metadata, **changes})

    def rank(self, job, rank, **changes):
        return self.ask("POST", f"/register_rank/{job}", {
            "rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0, "available_frequencies": CLOCKS, **changes})

    def schedules(self, job):
        """Requests the schedules of both ranks at the same time."""
        responses = [None, None]

        def ask(rank):
            responses[rank] = self.ask("GET", f"/schedule/{job}?rank={rank}")

        threads = [threading.Thread(target=ask, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return responses

    def test_responses_are_those_of_zeus(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        response = self.register("gpt3")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["Content-Type"], "application/json")
        job = response.json()
        time, rest = job[:19], job[19:]
        datetime.datetime.strptime(time, "%Y-%m-%d-%H-%M-%S")
        self.assertEqual(rest, "+dp1+pp2+tp1+PointSolution+gpt3")
        for rank in range(2):
            response = self.rank(job, rank)
            self.assertEqual((response.status, response.body), (200, b"null"))
        for rank, response in enumerate(self.schedules(job)):
            self.assertEqual(response.status, 200)
            schedule = response.json()
            self.assertEqual(set(schedule), {"rank", "frequencies"})
            self.assertEqual(schedule["rank"], rank)
            assignments = self.good("GET", f"/v1/jobs/gpt3/assignments?data=0&stage={rank}")["assignments"][-1]["clocks_mhz"]
            self.assertEqual([clock for _, clock in schedule["frequencies"]], assignments)
        result = {"rank": 0, "iter_time": [0.3, 0.3], "iter_energy": [40.0, 41.0],
                  "time_breakdown": {"forward": [[0.01] * 4] * 2, "backward": [[0.02] * 4] * 2},
                  "energy_breakdown": {"forward": [[3.0] * 4] * 2, "backward": [[6.0] * 4] * 2}}
        response = self.ask("POST", f"/result/{job}", result)
        self.assertEqual((response.status, response.body), (200, b"null"))
        self.assertEqual(self.good("GET", "/v1/jobs/gpt3")["reports"], 2)
        # A counter that has wrapped, and a wrong unit: an error response would end the training.
        for wrong in (-4.3e6, 1e15):
            response = self.ask("POST", f"/result/{job}", {"rank": 0, "iter_time": [0.3], "iter_energy": [wrong]})
            self.assertEqual(response.status, 200)
            self.assertIn(" J in 0.3 s is ", response.json()["energy_refused"])
        status = self.good("GET", "/v1/jobs/gpt3")
        self.assertEqual((status["reports"], status["energies_refused"], status["energy_j"]), (4, 2, 81))
        # The last plan is repeated.
        self.assertEqual([response.status for response in self.schedules(job)], [200, 200])

    def test_the_schedule_waits_for_all_ranks(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        job = self.register("gpt3").json()
        self.rank(job, 0)
        done = []
        first = threading.Thread(target=lambda: done.append(self.ask("GET", f"/schedule/{job}?rank=0")))
        first.start()
        self.rank(job, 1)
        first.join(0.5)
        self.assertEqual(done, [])
        self.assertEqual(self.ask("GET", f"/schedule/{job}?rank=1").status, 200)
        first.join(60)
        self.assertEqual(done[0].status, 200)

    def test_what_does_not_fit_is_422(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        for change, field in (({"job_id": "x"}, "job_id"), ({"world_size": 3}, "world_size"),
                              ({"pp_degree": 0}, "pp_degree"), ({"tp_degree": "a"}, "tp_degree")):
            response = self.register("gpt3", **change)
            self.assertEqual(response.status, 422, response.body)
            for detail in response.json()["detail"]:
                self.assertEqual(set(detail), {"loc", "msg", "type"})
            self.assertIn(field, response.json()["detail"][0]["loc"])
        self.assertEqual(self.ask("POST", "/register_job", "{").status, 422)
        self.assertEqual(self.ask("POST", "/register_job", "{}").status, 422)
        job = self.register("gpt3").json()
        self.assertEqual(self.rank(job, -1).status, 422)
        self.assertEqual(self.ask("GET", f"/schedule/{job}").status, 422)
        self.assertEqual(self.ask("GET", f"/schedule/{job}?rank=x").status, 422)
        self.assertEqual(self.ask("POST", f"/result/{job}", {"rank": 0}).status, 422)
        for path in ("/register_rank/none", "/result/none"):
            self.assertEqual(self.ask("POST", path, {}).status, 404)
        self.assertEqual(self.ask("GET", "/schedule/none?rank=0").status, 404)
        self.assertEqual(self.ask("GET", "/register_job").status, 405)
        self.assertEqual(self.rank(job, 2).status, 400)
        self.assertEqual(self.ask("GET", f"/schedule/{job}?rank=0").status, 400)

    def test_without_a_plan_the_schedule_says_so(self):
        self.start()
        job = self.register(None).json()
        for rank in range(2):
            self.assertEqual(self.rank(job, rank).status, 200)
        for response in self.schedules(job):
            self.assertEqual(response.status, 400)
            self.assertIn("job_metadata", response.json()["detail"])
        # Degrees that differ from those of the job.
        self.good("PUT", "/v1/jobs/wide", specification(data=2))
        job = self.register("wide").json()
        for rank in range(2):
            self.rank(job, rank)
        for response in self.schedules(job):
            self.assertEqual(response.status, 400)
            self.assertIn("other degrees", response.json()["detail"])
        self.assertEqual(self.register('{"schedule": "none"}').status, 400)
        self.assertEqual(self.register('{"schedule": "1f1b", "micro_batches": 2, "stages": 3}').status, 400)

    def result(self, job, rank, schedule, iterations=4):
        """Returns measurements of a rank that follows a schedule."""
        time, energy = {"forward": [], "backward": []}, {"forward": [], "backward": []}
        for name, clock in schedule["frequencies"]:
            cost = COSTS[rank, name, clock]
            time[name].append(cost[0])
            energy[name].append(cost[1])
        response = self.ask("POST", f"/result/{job}", {
            "rank": rank, "iter_time": [0.35] * iterations, "iter_energy": [60.0] * iterations,
            "time_breakdown": {name: [values] * iterations for name, values in time.items()},
            "energy_breakdown": {name: [values] * iterations for name, values in energy.items()}})
        self.assertEqual((response.status, response.body), (200, b"null"))

    def restart(self):
        self.kill()
        self.start()

    def profile_by_results(self, restart_after=None):
        job = self.register(json.dumps({"schedule": "1f1b", "micro_batches": 4, "blocking_power_w": 80,
                                        "profiling": {"iterations_per_clock": 2, "most_iterations_per_clock": 2,
                                                      "warm_up": 0, "slowdown_limit": 100}})).json()
        for rank in range(2):
            self.rank(job, rank)
        for batch in range(60):
            if batch == restart_after:
                self.assertEqual(self.good("GET", f"/v1/jobs/{job}")["phase"], "profiling")
                self.restart()
            told = [response.json() for response in self.schedules(job)]
            if self.good("GET", f"/v1/jobs/{job}")["phase"] == "running":
                break
            for rank, schedule in enumerate(told):
                self.result(job, rank, schedule)
        status = self.good("GET", f"/v1/jobs/{job}")
        self.assertEqual(status["phase"], "running", status)
        # The reported values became its profile.
        lines = self.ask("GET", f"/v1/jobs/{job}/profile").body.decode().splitlines()[1:]
        self.assertEqual(len(lines), len(COSTS))
        for line in lines:
            stage, name, clock, *cost = line.split(",")
            for measured, true in zip(map(float, cost), COSTS[int(stage), name, int(clock)]):
                self.assertAlmostEqual(measured / true, 1, places=5)

    def test_results_profile_the_job(self):
        self.start()
        self.profile_by_results()

    def test_profiling_goes_on_when_the_server_is_killed(self):
        self.start()
        self.profile_by_results(restart_after=2)

    def test_every_result_counts_however_short(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        job = self.register("gpt3").json()
        for rank in range(2):
            self.rank(job, rank)
        self.schedules(job)
        self.wait_for_phase("running", "gpt3")  # the assignments are the last ones
        for _ in range(4):
            for rank, response in enumerate(self.schedules(job)):
                self.result(job, rank, response.json(), iterations=1)
        status = self.good("GET", "/v1/jobs/gpt3")
        self.assertEqual((status["reports"], status["reports_unused"]), (8, 0))

    def test_a_training_outlives_its_server(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        for metadata in ("gpt3", json.dumps(specification())):
            job = self.register(metadata).json()
            native = metadata if metadata == "gpt3" else job
            if native == job:
                self.restart()  # a restart is possible before a rank registers
            for rank in range(2):
                self.assertEqual(self.rank(job, rank).status, 200)
            self.wait_for_phase("running", native)
            before = [response.json() for response in self.schedules(job)]
            self.result(job, 0, before[0], iterations=2)
            self.restart()
            # The other rank ends the same iterations, and both continue.
            self.result(job, 1, before[1], iterations=2)
            for _ in range(3):
                newest = self.good("GET", f"/v1/jobs/{native}")["newest_iteration"]
                after = [response.json() for response in self.schedules(job)]
                self.assertEqual(after, before)
                for rank in range(2):
                    self.result(job, rank, after[rank], iterations=2)
                self.assertGreaterEqual(self.good("GET", f"/v1/jobs/{native}")["newest_iteration"], newest + 2)
            status = self.good("GET", f"/v1/jobs/{native}")
            self.assertEqual((status["ranks_registered"], status["reports_unused"]), (2, 0))
            self.assertGreaterEqual(status["reports"], 2 + 3 * 4)
            self.assertEqual(self.rank(job, 0).status, 200)  # repeating it is harmless
            self.restart()
            # Only ranks that had registered are known.
            self.assertEqual(self.ask("GET", f"/schedule/{job}?rank=2").status, 400)

    def test_a_rank_that_was_not_there_registers_later(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", specification())
        job = self.register("gpt3").json()
        self.rank(job, 0)
        self.restart()
        told = self.ask("GET", f"/schedule/{job}?rank=1")
        self.assertEqual(told.status, 400)
        self.assertIn("register_rank", told.json()["detail"])
        self.rank(job, 1)
        self.assertEqual([response.status for response in self.schedules(job)], [200, 200])

    def test_trainings_that_were_not_there_are_404(self):
        self.start()
        self.begin("held")
        self.good("PUT", "/v1/jobs/gpt3", specification())
        job, held = self.register("gpt3").json(), self.register("held").json()
        for rank in range(2):
            self.rank(job, rank)
            self.rank(held, rank)
        self.wait_for_phase("running", "held")
        self.result(held, 0, self.schedules(held)[0].json())
        self.assertEqual(self.good("GET", "/v1/jobs/held")["reports"], 0)
        self.restart()
        before = self.good("GET", "/v1/jobs/gpt3")["version"]
        for other in ("2026-01-01-00-00-00+dp1+pp2+tp1+PointSolution+gpt3", job[:-4] + "held", job + "0", job[:-5],
                      job.replace("pp2", "pp3"), job.replace("dp1", "dp2"), held, "gpt3"):
            for response in (self.rank(other, 0), self.ask("GET", f"/schedule/{other}?rank=0"),
                           self.ask("POST", f"/result/{other}", {})):
                self.assertEqual(response.status, 404, other)
                self.assertIn("start the training again", response.json()["detail"])
        self.assertEqual(self.good("GET", "/v1/jobs/gpt3")["version"], before)
        self.assertEqual(len(self.good("GET", "/v1/jobs")["jobs"]), 2)
        # The next training takes the places of the previous one, but not those of Harpe's own ranks.
        for native, reports in (("gpt3", 1), ("held", 0)):
            job = self.register(native).json()
            for rank in range(2):
                self.rank(job, rank)
            self.result(job, 0, self.schedules(job)[0].json(), iterations=1)
            self.assertEqual(self.good("GET", f"/v1/jobs/{native}")["reports"], reports)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
