#!/usr/bin/env python3
"""Jobs of a `harpe serve` from their registration to their end: what is deleted stays deleted, jobs whose ranks are
gone cost nothing and come back with all that they knew, and no job's size or fault is another's trouble.
Usage: server_lifecycle_test.py HARPE"""

import http.client
import json
import re
import sqlite3
import subprocess
import sys
import threading
import time

import server_process
from server_process import CLOCKS, ServerTest, specification


class Lifecycle(ServerTest):
    def path(self):
        return self.store.split(":", 1)[1]

    def report(self, job, iteration, stages=2, status=200):
        for stage in range(stages):
            response = self.ask("POST", f"/v1/jobs/{job}/reports", {
                "stage": stage, "session": f"s0{stage}", "iteration": iteration, "time_s": 0.3, "energy_j": 50})
            self.assertEqual(response.status, status, response.body)

    def listed(self, query="?activity=active,idle,ended"):
        return {job["id"]: job for job in self.good("GET", "/v1/jobs" + query)["jobs"]}

    def listen(self, job):
        """Opens an event stream until the end of the test: the job stays active, however long a step takes."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/jobs/{job}/events?data=0&stage=0")
        self.addCleanup(connection.getresponse().close)

    def in_memory(self):
        return self.good("GET", "/health")["jobs_in_memory"]

    def refused(self, spec, names):
        response = self.ask("PUT", "/v1/jobs/refused", spec)
        self.assertEqual(response.status, 400, response.body[:500])
        self.assertIn(names, response.json()["error"]["message"])


class Deleting(Lifecycle):
    CLIENTS, ROUNDS = 4, 12

    def change(self, job, number, deleted, faults):
        """Sends changes that each have to be stored, one after the other, until the job is gone."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        count = 0
        while not deleted.is_set():
            count += 1
            path, body = (f"/stragglers/{number // 2}", {"factor": 1.1 + 0.01 * (count % 20)}) if number % 2 else \
                ("/objective", {"slowdown": 0.001 * (count % 50)})
            connection.request("PUT", f"/v1/jobs/{job}{path}", json.dumps(body))
            response = connection.getresponse()
            response.read()
            if response.status not in (200, 404):
                faults.append((path, response.status))
        connection.close()

    def test_what_is_deleted_while_it_is_changed_stays_deleted(self):
        self.start()
        for number in range(self.ROUNDS):
            job = f"j{number}"
            self.begin(job, data=2)
            deleted, faults = threading.Event(), []
            threads = [threading.Thread(target=self.change, args=(job, client, deleted, faults))
                       for client in range(self.CLIENTS)]
            for thread in threads:
                thread.start()
            self.wait_for(lambda: self.good("GET", f"/v1/jobs/{job}")["stragglers"])
            self.assertEqual(self.ask("DELETE", f"/v1/jobs/{job}").status, 200)
            self.assertEqual(self.ask("GET", f"/v1/jobs/{job}").status, 404)
            if number % 2:  # its id is free at once, so later changes reach the new job
                self.assertEqual(self.ask("PUT", f"/v1/jobs/{job}", specification(micro_batches=5)).status, 201)
            deleted.set()
            for thread in threads:
                thread.join()
            self.assertEqual(faults, [])
        self.kill()
        self.start()
        for number in range(self.ROUNDS):
            response = self.ask("GET", f"/v1/jobs/j{number}")
            self.assertEqual(response.status, 200 if number % 2 else 404, number)
            if number % 2:
                self.assertEqual((response.json()["micro_batches"], response.json()["ranks_registered"]), (5, 0))
            else:
                self.assertEqual(self.ask("PUT", f"/v1/jobs/j{number}", specification()).status, 201)

    def test_two_who_delete_one_job_are_both_told_that_it_is_gone(self):
        self.start()
        self.begin()
        responses = []
        threads = [threading.Thread(target=lambda: responses.append(self.ask("DELETE", "/v1/jobs/j").status))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(responses), {200, 404})
        self.assertIn(200, responses)

    def test_a_job_that_cannot_be_read_is_named_and_can_be_deleted(self):
        self.start()
        self.begin()
        self.stop()
        with sqlite3.connect(self.path()) as database:
            database.execute("UPDATE job SET state = '{' WHERE id = 'j'")
        self.start()
        for method, path, body in (("GET", "", None), ("PUT", "", specification()),
                                   ("POST", "/reports", {"session": "s00", "iteration": 1, "time_s": 1})):
            response = self.ask(method, "/v1/jobs/j" + path, body)
            self.assertEqual(response.status, 503, response.body)
            self.assertIn("cannot be read", response.json()["error"]["message"])
        self.assertEqual(self.ask("DELETE", "/v1/jobs/j").status, 200)
        self.assertEqual(self.ask("PUT", "/v1/jobs/j", specification()).status, 201)


class Ending(Lifecycle):
    def end(self, job, stage):
        return self.good("POST", f"/v1/jobs/{job}/end", {"stage": stage, "session": f"s0{stage}"})["ended"]

    def test_a_job_ends_when_all_its_ranks_have_and_begins_anew_with_what_it_knows(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        plans = self.good("GET", "/v1/jobs/j/plans")
        self.report("j", 7)
        self.assertEqual(self.ask("POST", "/v1/jobs/j/end", {"stage": 0, "session": "other"}).status, 409)
        self.assertFalse(self.end("j", 0))
        self.assertEqual(self.good("GET", "/v1/jobs/j")["activity"], "active")
        self.assertTrue(self.end("j", 1))
        self.assertTrue(self.end("j", 1))  # the same request again
        ended = self.good("GET", "/v1/jobs/j")
        self.assertEqual(ended["activity"], "ended")
        self.assertAlmostEqual(ended["ended_at"], time.time(), delta=30)
        self.assertEqual(self.listed("?activity=active,idle"), {})
        self.assertEqual(self.listed()["j"]["newest_iteration"], 7)
        command = [self.harpe, "job", "list", "--server", f"http://{self.address}"]
        for more, shows in (((), False), (("--all",), True)):
            told = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
            self.assertEqual("\nj    ended" in told.stdout, shows, told.stdout)
            self.assertNotIn("running", told.stdout)
        self.assertNotIn('job_id="j"', self.ask("GET", "/metrics").body.decode())
        self.kill()
        self.start()
        self.assertEqual(self.good("GET", "/v1/jobs/j")["activity"], "ended")
        self.assertEqual(self.good("GET", "/v1/jobs/j/plans"), plans)
        # Other processes take the places at once, and training continues with the existing plans.
        for stage in range(2):
            self.good("POST", "/v1/jobs/j/ranks", {"stage": stage, "session": f"t{stage}", "clocks_mhz": CLOCKS})
        status = self.good("GET", "/v1/jobs/j")
        self.assertEqual((status["activity"], status["phase"], status["ended_at"]), ("active", "running", None))
        self.assertEqual(self.good("GET", "/v1/jobs/j/assignments?data=0&stage=0")["assignments"][-1]["purpose"], "plan")

    def test_a_silent_job_leaves_memory_and_comes_back_when_it_is_asked_for(self):
        self.start("--idle-after", "1s")
        self.begin("silent")
        self.wait_for_phase("running", "silent")
        self.report("silent", 3)
        before = self.good("GET", "/v1/jobs/silent")
        self.wait_for(lambda: self.in_memory() == 0)
        self.assertEqual(self.listed()["silent"]["activity"], "idle")
        self.stop()

        self.start("--idle-after", "1s", "--end-after", "1s", "--keep-ended", "0")
        self.begin("heard")
        self.listen("heard")
        self.wait_for(lambda: self.listed()["silent"]["activity"] == "ended")
        self.wait_for(lambda: self.in_memory() == 1)
        self.assertEqual(self.listed()["heard"]["activity"], "active")  # a rank has an event stream
        self.assertEqual(self.listed()["silent"]["newest_iteration"], 3)
        # Reading shows the last state, and changes nothing.
        log = self.good("GET", "/v1/jobs/silent/log")
        seen = self.good("GET", "/v1/jobs/silent")
        for same in ("phase", "newest_iteration", "energy_j", "objective", "ranks_registered"):
            self.assertEqual(seen[same], before[same], same)
        # The server reads the boot clock and the wall clock one after the other to show a time, and another process may
        # run in between.
        self.assertAlmostEqual(seen["heard_at"], before["heard_at"], delta=0.1)
        self.assertEqual(self.good("GET", "/v1/jobs/silent/log"), log)
        self.assertEqual(self.listed()["silent"]["activity"], "ended")
        # Its ranks continue where they were.
        self.report("silent", 4)
        self.listen("silent")
        after = self.good("GET", "/v1/jobs/silent")
        self.assertEqual((after["activity"], after["phase"], after["newest_iteration"]), ("active", "running", 4))
        self.assertGreater(after["version"], before["version"])
        self.assertEqual(after["energy_j"], before["energy_j"] + 100)
        # A place that its rank holds cannot be taken by another.
        other = self.ask("POST", "/v1/jobs/silent/ranks", {"stage": 0, "session": "other", "clocks_mhz": CLOCKS})
        self.assertEqual(other.status, 409)

    def test_jobs_that_ended_go_after_their_time(self):
        self.start("--idle-after", "1s", "--end-after", "1s")
        self.begin()
        self.wait_for(lambda: self.listed()["j"]["activity"] == "ended")
        self.stop()
        self.start("--idle-after", "1s", "--end-after", "1s", "--keep-ended", "1s")
        self.wait_for(lambda: not self.listed())
        self.assertEqual(self.ask("GET", "/v1/jobs/j").status, 404)
        self.kill()
        self.start()
        self.assertEqual(self.listed(), {})

    def test_where_there_is_no_room_the_job_that_ended_first_goes(self):
        self.start("--most-jobs", "3")
        for job in ("a", "b", "c"):
            self.begin(job)
        full = self.ask("PUT", "/v1/jobs/d", specification())
        self.assertEqual(full.status, 503)
        self.assertIn("--most-jobs", full.json()["error"]["message"])
        for job in ("b", "a"):
            self.end(job, 0), self.end(job, 1)
        self.assertEqual(self.ask("PUT", "/v1/jobs/d", specification()).status, 201)
        self.wait_for(lambda: set(self.listed()) == {"a", "c", "d"})

    def test_any_number_of_stored_jobs_is_there_at_once(self):
        self.start()
        self.begin("job")
        self.wait_for_phase("running", "job")
        self.stop()
        copies = 3000
        with sqlite3.connect(self.path()) as database:
            for table, key in (("job", "id"), ("plans", "job"), ("part", "job"), ("summary", "job")):
                names = [column[1] for column in database.execute(f"PRAGMA table_info({table})") if column[1] != key]
                others = ", ".join(names)
                database.execute(f"""INSERT INTO {table} ({key}, {others})
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {copies})
                    SELECT 'copy' || i, {others} FROM {table}, n WHERE {key} = 'job'""")
        begin = time.monotonic()
        self.start()
        self.assertEqual(self.good("GET", "/health")["jobs"], copies + 1)
        self.assertLess(time.monotonic() - begin, 5)  # even on a busy machine
        self.assertEqual(self.in_memory(), 0)
        self.assertEqual(self.good("GET", "/v1/jobs/copy1234")["phase"], "running")
        self.report("copy2345", 1)
        # A list is divided into pages.
        seen, after = [], ""
        while after is not None:
            page = self.good("GET", f"/v1/jobs?limit=1000&after={after}")
            seen += [job["id"] for job in page["jobs"]]
            after = page.get("next")
        self.assertEqual(len(seen), copies + 1)
        self.assertEqual(seen, sorted(set(seen)))


class Sizes(Lifecycle):
    """Tests that the size of a request is checked before any of it is allocated."""

    def test_what_is_too_much_is_refused_by_its_words(self):
        self.start()
        words = {"schedule": "1f1b", "data": 1}
        begin = time.monotonic()
        for more, names in (({"stages": 512, "micro_batches": 1024}, "131072"),
                            ({"stages": 8, "micro_batches": 60000}, "131072"),
                            ({"schedule": "interleaved-1f1b", "stages": 1, "micro_batches": 1000, "chunks": 65}, "64 "),
                            ({"stages": 4000, "micro_batches": 1, "data": 66, "tensor": 1}, "262144 ranks"),
                            ({"schedule": "looped-bfs", "stages": 1, "micro_batches": 1, "chunks": 64, "data": 262144}, "4000000"),
                            ({"stages": 5000, "micro_batches": 1}, "4096")):
            self.refused({**words, **more}, names)
        self.assertLess(time.monotonic() - begin, 5)
        self.refused({**specification(), "profile": "x" * (8 * 1024 * 1024 + 1)}, "8388608")

    def test_ranks_that_never_come_take_no_memory_and_one_client_leaves_room_for_others(self):
        self.start("--job-memory", "64")

        def memory():
            text = self.ask("GET", "/metrics").body.decode()
            return int(re.search(r"^harpe_server_jobs_memory_bytes (\d+)$", text, re.MULTILINE)[1]) / 1024 / 1024

        for number in range(54):
            spec = '{"stages":1,"tensor":262144,"schedule":"1f1b","micro_batches":1}'
            self.assertEqual(self.ask("PUT", f"/v1/jobs/declared{number}", spec).status, 201)
        self.assertLess(memory(), 16)
        # One client may use half of the memory; 256 ranks share one of its allotments.
        refused = None
        for shard in range(0, 262144, 256):
            rank = {"data": 0, "stage": 0, "tensor": shard, "session": f"s{shard}", "clocks_mhz": CLOCKS}
            response = self.ask("POST", "/v1/jobs/declared0/ranks", rank)
            if response.status != 200:
                refused = response
                break
        self.assertEqual(refused.status, 503, refused.body)
        self.assertIn("jobs of address 127.0.0.1 that train now", refused.json()["error"]["message"])
        self.assertGreater(memory(), 31)
        self.assertLessEqual(memory(), 32)
        self.assertEqual(self.ask("PUT", "/v1/jobs/another", specification()).status, 503)
        zeus = {"job_id": "", "dp_degree": 1, "pp_degree": 2, "tp_degree": 1, "world_size": 2,
                "job_metadata": json.dumps(specification())}
        self.assertEqual(self.ask("POST", "/register_job", zeus).status, 503)
        self.source = ("127.0.0.2", 0)
        self.begin("trains")
        self.wait_for_phase("running", "trains")

    def test_a_large_job_delays_no_other(self):
        self.start()
        large = {"schedule": "1f1b", "stages": 8, "micro_batches": 8000}
        self.assertEqual(self.ask("PUT", "/v1/jobs/large", large).status, 201)
        slowest = {}

        def measure(name, ask):
            begin = time.monotonic()
            response = ask()
            slowest[name] = max(slowest.get(name, 0), time.monotonic() - begin)
            return response

        going = threading.Event()

        def look():
            while not going.is_set():
                self.ask("GET", "/v1/jobs/large")
                self.ask("GET", "/v1/jobs/large/specification")

        def register(number):
            self.assertEqual(self.ask("PUT", f"/v1/jobs/large{number}", {**large, "micro_batches": 7000 + number}).status, 201)

        threads = [threading.Thread(target=look) for _ in range(4)]
        threads += [threading.Thread(target=register, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for number in range(20):
            measure("PUT", lambda: self.assertEqual(self.ask("PUT", f"/v1/jobs/small{number}", specification()).status, 201))
            measure("health", lambda: self.good("GET", "/health"))
        going.set()
        for thread in threads:
            thread.join()
        self.assertLess(max(slowest.values()), 2, slowest)  # never seconds, even on a busy machine
        # Stored once, as the text that generates it.
        self.stop()
        with sqlite3.connect(self.path()) as database:
            self.assertLess(max(size for size, in database.execute("SELECT length(state) FROM job")), 20_000)
            text, = database.execute("SELECT text FROM part WHERE job = 'large' AND name = 'specification'").fetchone()
        self.assertEqual(json.loads(text)["schedule"], "1f1b")
        self.assertLess(len(text), 1000)

    def test_the_same_job_in_full_or_by_name_is_the_same(self):
        self.start()
        self.good("PUT", "/v1/jobs/j", specification())
        orders = ("F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")
        full = specification(schedule={"name": "1f1b", "ranks": [
            [{"op": "forward" if one[0] == "F" else "backward", "stage": stage, "mb": int(one[1])} for one in order.split()]
            for stage, order in enumerate(orders)]})
        del full["micro_batches"]
        self.assertEqual(self.ask("PUT", "/v1/jobs/j", full).status, 200)
        self.assertEqual(self.good("GET", "/v1/jobs/j/specification")["schedule"], "1f1b")


class Refusing(Lifecycle):
    """A store that accepts all jobs except one."""

    def refuse(self, job):
        with sqlite3.connect(self.path(), timeout=30) as database:
            for event in ("INSERT ON job", "UPDATE ON job"):
                database.execute(f"""CREATE TRIGGER refuse_{event.split()[0]} BEFORE {event} WHEN NEW.id = '{job}'
                                     BEGIN SELECT RAISE(ABORT, 'not this one'); END""")

    def accept(self):
        with sqlite3.connect(self.path(), timeout=30) as database:
            for name in ("INSERT", "UPDATE"):
                database.execute(f"DROP TRIGGER refuse_{name}")

    def test_one_that_is_refused_keeps_no_other_from_being_stored(self):
        self.start()
        for job in ("bad", "good", "fine"):
            self.begin(job)
            self.wait_for_phase("running", job)
        self.refuse("bad")
        response = self.ask("PUT", "/v1/jobs/bad/objective", {"slowdown": 0.5})
        self.assertEqual(response.status, 503)
        for number in range(5):
            for job in ("good", "fine"):
                self.good("PUT", f"/v1/jobs/{job}/objective", {"slowdown": 0.01 * (number + 1)})
        self.wait_for(lambda: self.good("GET", "/health")["refused"] == ["bad"])
        self.assertEqual(self.good("GET", "/health")["status"], "degraded")
        self.assertEqual(self.good("GET", "/health")["store"], "ok")
        self.assertEqual((self.folder / "log").read_text().count("the store refuses job bad"), 1)
        self.assertRegex(self.ask("GET", "/metrics").body.decode(), "(?m)^harpe_server_jobs_refused 1$")
        self.good("PUT", "/v1/jobs/good/objective", {"slowdown": 0.2})
        self.accept()
        self.assertEqual(self.stop(), 0)  # the rest is stored at the end
        self.start()
        for job, slowdown in (("good", 0.2), ("fine", 0.05), ("bad", 0.5)):
            self.assertEqual(self.good("GET", f"/v1/jobs/{job}")["objective"], {"slowdown": slowdown}, job)


class Clocks(Lifecycle):
    def test_a_straggler_ends_when_its_time_is_over_also_while_no_server_runs(self):
        self.start()
        self.begin(data=2)
        self.wait_for_phase("running")
        asked = time.time()
        told = self.good("PUT", "/v1/jobs/j/stragglers/1", {"factor": 1.3, "for_s": 2})
        self.assertGreater(told["until"], asked + 1.9)
        self.assertLess(told["until"], time.time() + 2.1)
        self.good("PUT", "/v1/jobs/j/stragglers/0", {"factor": 1.2, "until": time.time() + 600})
        self.kill()
        time.sleep(max(0.0, told["until"] - time.time()))  # the time that the test waits for
        self.start()
        self.report("j", 1)
        self.wait_for(lambda: [one["pipeline"] for one in self.good("GET", "/v1/jobs/j")["stragglers"]] == [0])
        self.assertAlmostEqual(self.good("GET", "/v1/jobs/j")["stragglers"][0]["until"], time.time() + 600, delta=30)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
