#!/usr/bin/env python3
"""Jobs of a `harpe serve` that move along their frontiers with the carbon intensity of their grids, from a file of
intervals of 2 s: a day passes in less than a minute. Usage: server_carbon_test.py HARPE"""

import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time

import server_process
from server_process import CLOCKS, ServerTest, specification

STEP_S = 2


def at_text(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Training(threading.Thread):
    """One pipeline of two stages in simulated lock-step. An iteration takes the time that the server predicts, requests
    included, and a delay is made up for by the next iterations. On a busy machine it therefore trains as fast as on an
    idle one, without losses that the control would have to learn. It pauses when requested, with the costs of a real
    pause."""

    def __init__(self, test, job, iterations, start_s=0.2):
        super().__init__(daemon=True)
        self.test, self.job, self.iterations, self.start_s = test, job, iterations, start_s
        self.rows, self.errors, self.paused_s, self.pauses = [], [], 0.0, 0
        self.over = threading.Event()

    def stages(self):
        return [{"stage": stage, "session": f"s{stage}", "run": "r"} for stage in range(2)]

    def register(self, pausing=0):
        for rank in self.stages():
            body = {**rank, "clocks_mhz": CLOCKS, **({"pausing": pausing} if pausing else {})}
            self.test.good("POST", f"/v1/jobs/{self.job}/ranks", body)

    def status(self):
        return self.test.good("GET", f"/v1/jobs/{self.job}")

    def wait_out(self, number):
        begun = time.time()
        self.pauses += 1
        self.register(pausing=number)
        while not self.over.is_set():
            status = self.status()
            if not status["pause"]:
                break
            time.sleep(0.05)
        ready = time.time() + self.start_s
        self.register()
        time.sleep(max(0.0, ready - time.time()))
        self.paused_s += time.time() - begun

    def asked_to_pause(self, iteration):
        assignments = self.test.good("GET", f"/v1/jobs/{self.job}/assignments?data=0&stage=0")["assignments"]
        held = [one for one in assignments if one["from_iteration"] <= iteration]
        pause = held[-1].get("pause") if held else None
        return pause["number"] if pause else 0

    def run(self):
        try:
            self.register()
            seen, due = 0, time.time()
            for iteration in range(self.iterations):
                number = self.asked_to_pause(iteration)
                if number > seen:
                    seen = number
                    self.wait_out(number)
                    due = time.time()
                if self.over.is_set():
                    return
                status = self.status()
                took = status["predicted_time_s"] or 0.2
                begun, due = due, due + took
                plan = status["plans"][0] if status["plans"] else None
                time.sleep(max(0.0, due - time.time()))
                version = status["version"]
                for rank in self.stages():
                    self.test.good("POST", f"/v1/jobs/{self.job}/reports", {
                        "stage": rank["stage"], "session": rank["session"], "iteration": iteration,
                        "version": version, "known": version, "time_s": took, "energy_j": 10})
                self.rows.append((begun, due, plan["energy_j"] if plan else None, took))
        except AssertionError as error:
            self.errors.append(error)
        except OSError as error:
            if not self.over.is_set():
                self.errors.append(error)


class EndingTraining(Training):
    """Releases its machines while it pauses: its ranks end, and a script starts it again after `harpe job wait`."""

    starts = 1
    said = ""

    def stages(self):
        return [{"stage": stage, "session": f"s{stage}-{self.starts}", "run": f"r{self.starts}"} for stage in range(2)]

    def wait_out(self, number):
        begun = time.time()
        self.pauses += 1
        for rank in self.stages():
            body = {"stage": rank["stage"], "session": rank["session"]}
            self.test.good("POST", f"/v1/jobs/{self.job}/end", body)
        waited = subprocess.run([self.test.harpe, "job", "wait", self.job, "--every", "100ms", "--server",
                                 f"http://{self.test.address}"], capture_output=True, text=True, timeout=60)
        self.said += waited.stdout + waited.stderr
        if waited.returncode != 0:
            raise AssertionError(self.said)
        self.starts += 1
        self.register()
        self.paused_s += time.time() - begun


class Carbon(ServerTest):
    """Tests with a grid whose intensity varies by a factor of five, dirty first."""

    def write_grid(self, steps=90, before=10, flat=False):
        self.begins = int(time.time()) // STEP_S * STEP_S
        start = self.begins - before * STEP_S
        self.grid = [300.0 if flat else 300 + 200 * math.sin((i - before) / 12 * 2 * math.pi + 0.3) for i in range(steps)]
        self.first = start
        path = self.folder / "grid.csv"
        path.write_text("time,grams\n" + "".join(
            f"{at_text(start + STEP_S * i)},{value:.1f}\n" for i, value in enumerate(self.grid)))
        return f"file:{path}?time=time&value=grams&unit=g/kWh&kind=direct"

    def grams_per_kwh(self, at):
        return self.grid[min(len(self.grid) - 1, max(0, int((at - self.first) // STEP_S)))]

    def grams(self, begin, end, joules):
        """Returns the grams of an iteration, by the recorded series."""
        parts = max(1, int((end - begin) / 0.05))
        return sum(joules / parts / 3.6e6 * self.grams_per_kwh(begin + (end - begin) * (k + 0.5) / parts)
                   for k in range(parts))

    def register(self, job="gpt3", **changes):
        self.good("PUT", f"/v1/jobs/{job}", specification(**changes), expected=(200, 201))

    def good(self, method, path, body=None, expected=(200,)):
        response = self.ask(method, path, body)
        if response.status not in expected:
            raise AssertionError(f"{method} {path}: {response.status} {response.body[:300]}")
        return response.json()

    def until(self, holds, patience_s=30):
        end = time.time() + patience_s
        while time.time() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.1)
        self.fail("it did not come about")

    def command(self, *options):
        ran = subprocess.run([self.harpe, "job", "carbon", "gpt3", "--server", f"http://{self.address}", *options],
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def logged(self, job="gpt3"):
        return [event["text"] for event in self.good("GET", f"/v1/jobs/{job}/log")["events"]]


class Offered(Carbon):
    def test_clients_choose_among_what_the_operator_offers(self):
        self.start("--carbon", self.write_grid(), "--carbon", "302.5")
        self.until(lambda: all(one["now"] for one in self.good("GET", "/v1/carbon")["sources"]))
        sources = self.good("GET", "/v1/carbon")["sources"]
        self.assertEqual(sources[0]["source"], "file")
        self.assertEqual(sources[0]["forecast"]["ladder"], "provider")
        terms = {"iterations": 100, "deadline_factor": 1.5}
        for wrong in ({"zone": "DE"}, {"source": "file:/etc/passwd"}, {"source": "uk:13"}, {}):
            for method, path, body in (("PUT", "/v1/jobs/other", specification(carbon={**terms, **wrong})),):
                response = self.ask(method, path, body)
                self.assertEqual(response.status, 400, response.body)
                self.assertIn("this server offers file, constant", response.json()["error"]["message"])
        self.register()
        response = self.ask("PUT", "/v1/jobs/gpt3/carbon", {**terms, "zone": "DE"})
        self.assertEqual(response.status, 422)
        self.assertIn("this server offers file, constant", response.json()["error"]["message"])
        self.assertEqual(self.ask("PUT", "/v1/jobs/gpt3/carbon", {"zone": "DE"}).status, 400)
        shown = self.good("PUT", "/v1/jobs/gpt3/carbon", {**terms, "source": "file"})
        self.assertEqual(shown["source"], "file")
        self.assertEqual(self.good("GET", "/v1/jobs/gpt3/carbon")["terms"], shown["terms"])
        self.assertIsNone(self.good("DELETE", "/v1/jobs/gpt3/carbon"))
        self.assertIsNone(self.good("GET", "/v1/jobs/gpt3")["carbon"])

    def test_a_provider_that_hangs_delays_nothing(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        port = silent.getsockname()[1]
        self.start("--carbon", f"uk?url=http://127.0.0.1:{port}", "--carbon", self.write_grid(),
                   env={**os.environ, "HARPE_CARBON_CACHE": "off"})
        sources = self.until(lambda: (lambda all: all[1]["now"] and all)(self.good("GET", "/v1/carbon")["sources"]))
        self.assertEqual([one["source"] for one in sources], ["uk", "file"])
        self.assertIsNone(sources[0]["now"])
        self.register(carbon={"source": "uk", "iterations": 1000, "deadline_factor": 2})
        training = Training(self, "gpt3", 3)
        training.start()
        decision = self.until(lambda: self.good("GET", "/v1/jobs/gpt3/carbon")["decision"])
        self.assertEqual(decision["mode"], "static")
        self.assertIn("has not responded yet", decision["why"])
        training.join(30)
        self.assertEqual(training.errors, [])
        begun = time.monotonic()
        self.assertEqual(self.stop(), 0)
        self.assertLess(time.monotonic() - begun, 8)  # a call may take 10 s, and there are four

    def metric(self, name):
        found = re.search(rf'(?m)^{name}\{{source="file"[^}}]*\}} (\S+)', self.ask("GET", "/metrics").body.decode())
        return float(found[1]) if found else None

    def test_a_pipe_in_place_of_a_file_stops_nothing_and_is_told(self):
        source = self.write_grid()
        path = self.folder / "grid.csv"
        text = path.read_text()
        self.start("--carbon", source)
        self.until(lambda: self.metric("harpe_carbon_ladder_step") == 0)
        self.assertEqual(self.metric("harpe_carbon_trouble"), 0)
        path.unlink()
        os.mkfifo(path)
        shown = self.until(lambda: (lambda one: one["trouble"] and one)(self.good("GET", "/v1/carbon")["sources"][0]))
        self.assertIn("is not a regular file", shown["trouble"])
        # The plan continues with the known hours of the forecast; the other figures report its age.
        read = self.metric("harpe_carbon_read_timestamp_seconds")
        self.until(lambda: self.metric("harpe_carbon_intensity_age_seconds") > 3 * STEP_S)
        self.assertEqual(self.metric("harpe_carbon_read_timestamp_seconds"), read)
        self.assertEqual((self.metric("harpe_carbon_ladder_step"), self.metric("harpe_carbon_may_control"),
                          self.metric("harpe_carbon_trouble")), (2, 1, 1))
        shown = self.good("GET", "/v1/carbon")["sources"][0]
        self.assertEqual((shown["now"]["ladder"], shown["acts_on"]["basis"]), ("last good", "forecast"))
        path.unlink()
        path.write_text(text)
        self.until(lambda: self.metric("harpe_carbon_trouble") == 0)
        self.assertGreater(self.metric("harpe_carbon_read_timestamp_seconds"), read)

    def test_without_sources_none_is_offered(self):
        self.start()
        self.assertEqual(self.good("GET", "/v1/carbon"), {"sources": []})
        response = self.ask("PUT", "/v1/jobs/gpt3", specification(carbon={"iterations": 9, "deadline_factor": 2}))
        self.assertEqual(response.status, 400)
        self.assertIn("--carbon", response.json()["error"]["message"])


class Control(Carbon):
    def frontier(self):
        points = self.good("GET", "/v1/jobs/gpt3/frontier")
        return points["points"] if isinstance(points, dict) and "points" in points else points["plans"]

    def test_a_job_follows_its_grid_and_is_in_time(self):
        """Tests a day of 48 s: the job pauses while the grid is dirty, ends by its deadline, and emits less than at any
        constant pace that would have met it."""
        iterations, factor = 110, 2.0
        self.start("--carbon", self.write_grid())
        self.register()
        training = Training(self, "gpt3", iterations)
        training.start()
        self.addCleanup(training.over.set)
        self.until(lambda: self.good("GET", "/v1/jobs/gpt3")["phase"] == "running" and training.rows)
        done = len(training.rows)
        begun = time.time()
        self.command("--source", "file", "--iterations", str(iterations), "--deadline-factor", str(factor), "--pause",
                     "--stop-time", "0s", "--start-time", "200ms", "--min-dwell", "2s", "--idle-power", "0W")
        decision = self.until(lambda: self.good("GET", "/v1/jobs/gpt3/carbon")["decision"])
        # While it trains: the decision after its last iteration needs no intensity.
        self.assertRegex(self.ask("GET", "/metrics").body.decode(),
                         r'(?m)^harpe_job_carbon_intensity_grams_per_kwh\{job_id="gpt3",source="file",'
                         r'kind="direct",basis="(measured|forecast)"\} \d')
        modes, times = set(), set()
        while training.is_alive():
            status = self.good("GET", "/v1/jobs/gpt3")
            if status["carbon"]["decision"]:
                modes.add(status["carbon"]["decision"]["mode"])
            if status["pace"] and status["pace"]["iteration_time_s"]:
                times.add(round(status["pace"]["iteration_time_s"], 3))
            time.sleep(0.2)
        ended = time.time()
        self.assertEqual(training.errors, [])
        self.assertEqual(len(training.rows), iterations)
        self.assertIn("paused", modes)
        self.assertIn("paced", modes)
        self.assertGreater(training.pauses, 0)
        plans = self.frontier()
        fastest = min(plan["time_s"] if "time_s" in plan else plan["iteration_time_s"] for plan in plans)
        # Test machines are late from time to time; the limit uses the times that the server plans with.
        limit = begun + factor * (iterations - done) * fastest
        self.assertLessEqual(ended, limit + 2)
        rows = training.rows[done:]
        grams = sum(self.grams(begin, end, joules) for begin, end, joules, _ in rows)
        # At any constant pace that meets the deadline.
        best = min(self.static_grams(begun, iterations - done, plan, limit) for plan in plans)
        print(f"{grams * 1000:.2f} mg, best static {best * 1000:.2f} mg, {training.pauses} pauses, "
              f"{training.paused_s:.1f} s; {len(times)} paces; ended {limit - ended:.1f} s before the deadline; "
              f"decisions {sorted(modes)}; first {json.dumps(decision)}")
        self.assertLess(grams, 0.95 * best)
        self.assertTrue(any("paus" in text for text in self.logged()), self.logged())
        metrics = self.ask("GET", "/metrics").body.decode()
        self.assertRegex(metrics, r'(?m)^harpe_carbon_intensity_grams_per_kwh\{source="file",zone="",kind="direct"\} \d')
        self.assertIn('harpe_job_pause_asked{job_id="gpt3"}', metrics)
        self.assertIn('harpe_job_paused{job_id="gpt3"}', metrics)
        energy = [run["intervals"] for run in self.good("GET", "/v1/jobs/gpt3/energy")["runs"]]
        paused = sum(row[one["columns"].index("paused_s")] for one in energy for row in one["rows"])
        # The server measures a pause from the first waiting rank until the last one continues.
        self.assertGreater(paused, 0.5 * training.paused_s)
        self.assertLess(paused, 2 * training.paused_s + 2)
        self.assertIn("file, direct", self.command())
        self.assertIn("does not adapt", self.command("--off"))

    def test_training_that_ends_to_pause_is_woken(self):
        iterations = 40
        self.start("--carbon", self.write_grid())
        self.register(carbon={"source": "file", "iterations": iterations, "deadline_factor": 3,
                              "pause": {"stop_s": 0, "start_s": 0.2, "min_dwell_s": 2, "idle_power_w": 0}})
        training = EndingTraining(self, "gpt3", iterations)
        training.start()
        self.addCleanup(training.over.set)
        ended = self.until(lambda: (lambda pause: pause and pause["ended"] and pause)(
            self.good("GET", "/v1/jobs/gpt3")["pause"]), 60)
        self.assertEqual(ended["state"], "paused")
        training.join(90)
        self.assertEqual(training.errors, [])
        self.assertEqual((len(training.rows), training.starts), (iterations, training.pauses + 1))
        self.assertGreater(training.pauses, 0)
        self.assertIn("can continue", training.said)
        status = self.good("GET", "/v1/jobs/gpt3")
        self.assertEqual(status["carbon"]["iterations_done"], iterations)
        self.assertTrue(status["carbon"]["decision"]["in_time"], status["carbon"])

    def static_grams(self, begin, iterations, plan, limit):
        time_s = plan["time_s"] if "time_s" in plan else plan["iteration_time_s"]
        joules = plan["energy_j"] if "energy_j" in plan else plan["iteration_energy_j"]
        if begin + iterations * time_s > limit:
            return math.inf
        return sum(self.grams(begin + i * time_s, begin + (i + 1) * time_s, joules) for i in range(iterations))

    def test_a_job_of_unknown_length_stays_within_its_slack(self):
        slack = 4
        self.start("--carbon", self.write_grid())
        self.register()
        self.command("--unknown-length", "--slack", f"{slack}s", "--deadline-factor", "1.5", "--pause", "--stop-time", "0s",
                     "--start-time", "200ms", "--min-dwell", "2s", "--idle-power", "0W")
        # Many more than it trains until the dirtiest interval and the lead of a pause are over.
        iterations = 45
        training = Training(self, "gpt3", iterations)
        training.start()
        self.addCleanup(training.over.set)
        behind = []
        while training.is_alive():
            decision = self.good("GET", "/v1/jobs/gpt3/carbon")["decision"]
            if decision:
                behind.append(decision["behind_s"])
                self.assertTrue(decision["in_time"], decision)
                self.assertIsNone(decision["deadline"])
            time.sleep(0.2)
        self.assertEqual(training.errors, [])
        self.assertEqual(len(training.rows), iterations)
        self.assertGreater(max(behind), 1)  # it delayed work, since the grid is dirty
        self.assertLessEqual(max(behind), slack + 1)
        self.assertIn(" behind a pace 1.5 times slower", self.command())
        before = self.good("GET", "/v1/jobs/gpt3/carbon")
        self.stop()
        self.start("--carbon", f"file:{self.folder}/grid.csv?time=time&value=grams&unit=g/kWh&kind=direct")
        after = self.good("GET", "/v1/jobs/gpt3/carbon")
        self.assertEqual((after["terms"], after["since"]), (before["terms"], before["since"]))

    def test_control_outlives_the_server(self):
        grid = self.write_grid(steps=200)
        self.start("--carbon", grid)
        # Far away, so that delays of a busy machine do not bring the deadline near.
        terms = {"iterations": 5000, "deadline_factor": 50, "tokens_per_iteration": 1000}
        self.register(carbon=terms)
        training = Training(self, "gpt3", 4)
        training.start()
        training.join(30)
        self.assertEqual(training.errors, [])
        self.assertEqual(self.good("GET", "/v1/jobs/gpt3/energy")["runs"][0]["tokens_per_iteration"], 1000)
        before = self.until(lambda: (lambda shown: shown["decision"] and shown)(self.good("GET", "/v1/jobs/gpt3/carbon")))
        self.stop()
        self.start("--carbon", grid)
        after = self.good("GET", "/v1/jobs/gpt3/carbon")
        self.assertEqual(after["terms"], before["terms"])
        self.assertEqual(after["since"], before["since"])
        self.assertEqual(after["iterations_done"], 4)
        self.stop()
        # Without its source it runs at a static pace, and reports why.
        self.start()
        self.register(carbon=terms)
        again = Training(self, "gpt3", 3)
        again.start()
        decision = self.until(lambda: self.good("GET", "/v1/jobs/gpt3/carbon")["decision"])
        again.join(30)
        self.assertEqual(decision["mode"], "static")
        self.assertIn("--carbon", decision["why"])
        self.assertTrue(any("static" in text for text in self.logged()), self.logged())


if __name__ == "__main__":
    server_process.run(sys.argv[1])
