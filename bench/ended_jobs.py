#!/usr/bin/env python3
"""What a server with many ended jobs takes: memory, CPU while nothing happens, and how soon it responds after a restart.

    ended_jobs.py --harpe build/release/src/harpe/command/cli/harpe [--jobs 5000] [--most-start SECONDS]

The first --made jobs are registered, planned, trained for an iteration and ended over HTTP, as ranks do it, and are stored
in SQLite; the others are copies of their rows under ids of their own. Then the server is started again several times.
Exits with 1 where a response after a start took longer than --most-start, or a job is not as it was.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

STARTS, IDLE_SECONDS = 5, 20


class Server:
    """A `harpe serve` that keeps its port when it is restarted."""

    def __init__(self, harpe, folder):
        self.harpe, self.folder, self.port, self.process = harpe, folder, 0, None
        self.database = folder / "harpe.db"

    def start(self):
        began = time.monotonic()
        self.process = subprocess.Popen(
            [self.harpe, "serve", "--tcp", f"127.0.0.1:{self.port}", "--store", f"sqlite:{self.database}", "--log", self.folder / "log"],
            stderr=subprocess.PIPE, text=True)
        if not self.port:  # later starts use the same port, so their messages are not needed
            said = ""
            while "listening on" not in said:
                line = self.process.stderr.readline()
                if not line:
                    sys.exit("the server did not start: " + said)
                said += line
            self.port = int(re.search(r"listening on \S*:(\d+)", said)[1])
        return began

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
            self.process.stderr.close()

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def first_response(self, path):
        """Returns the first response of the server, over a new connection."""
        while True:
            connection = self.connection()
            try:
                return ask(connection, "GET", path)
            except (ConnectionError, http.client.HTTPException):
                if self.process.poll() is not None:
                    sys.exit("the server has ended")
                time.sleep(0.002)
            finally:
                connection.close()

    def status(self, key):
        return int(re.search(rf"{key}:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024  # MiB

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self):
        """Waits until the server is idle. Returns the CPU seconds that it has used since its start."""
        before = -1
        while self.cpu_seconds() > before + 0.02:
            before = self.cpu_seconds()
            time.sleep(3)
        return self.cpu_seconds()

    def stored_bytes(self):
        return sum(file.stat().st_size for file in self.folder.glob("harpe.db*"))


def ask(connection, method, path, body=None):
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    text = response.read()
    if response.status not in (200, 201):
        sys.exit(f"{method} {path}: {response.status} {text[:500]}")
    return json.loads(text)


def profile_of(harpe, stages):
    return subprocess.run([harpe, "synth", "--stages", str(stages)], capture_output=True, text=True, check=True).stdout


def make_jobs(server, arguments):
    spec = {"data": arguments.data, "stages": arguments.stages, "schedule": "1f1b", "micro_batches": arguments.micro_batches,
            "blocking_power_w": 80, "plans": arguments.plans, "profile": profile_of(arguments.harpe, arguments.stages)}
    places = [(data, stage) for data in range(arguments.data) for stage in range(arguments.stages)]
    clocks = list(range(1410, 840, -15))

    def begin(connection, job):
        ask(connection, "PUT", f"/v1/jobs/{job}", spec)
        for data, stage in places:
            ask(connection, "POST", f"/v1/jobs/{job}/ranks",
                {"data": data, "stage": stage, "session": f"{job} {data} {stage}", "gpu": "NVIDIA A100", "clocks_mhz": clocks})

    def end(connection, job):
        while ask(connection, "GET", f"/v1/jobs/{job}")["characterization"] is not None:
            time.sleep(0.05)
        for data, stage in places:
            session = f"{job} {data} {stage}"
            ask(connection, "POST", f"/v1/jobs/{job}/reports",
                {"data": data, "stage": stage, "session": session, "iteration": 0, "time_s": 1, "energy_j": 300})
        for data, stage in places:
            ask(connection, "POST", f"/v1/jobs/{job}/end", {"data": data, "stage": stage, "session": f"{job} {data} {stage}"})

    connection = server.connection()
    jobs = [f"job-{number}" for number in range(arguments.made)]
    for what in (begin, end):
        for job in jobs:
            what(connection, job)
    connection.close()


def copy_jobs(server, arguments):
    """Copies every row of the created jobs, with the old id replaced by the new id, also inside texts."""
    with sqlite3.connect(server.database) as database:
        tables = {"job": "id", "plans": "job", "part": "job", "summary": "job", "event": "job"}
        columns = {table: [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "sequence"]
                   for table in tables}
        for number in range(arguments.made, arguments.jobs):
            old, new = f"job-{number % arguments.made}", f"job-{number}"
            for table, key in tables.items():
                # Ids appear in quotes or before a space, so job-1 does not match within job-10.
                values = [":new" if column == key else
                          f"CASE typeof({column}) WHEN 'text' THEN replace(replace({column}, '\"' || :old || '\"', '\"' || :new || '\"'), "
                          f":old || ' ', :new || ' ') ELSE {column} END" for column in columns[table]]
                database.execute(f"INSERT INTO {table} ({', '.join(columns[table])}) SELECT {', '.join(values)} FROM {table} "
                                 f"WHERE {key} = :old", {"old": old, "new": new})
    database.close()


def listed(connection):
    jobs, after = [], ""
    while after is not None:
        page = ask(connection, "GET", "/v1/jobs?activity=active,idle,ended&limit=1000" + (f"&after={after}" if after else ""))
        jobs += page["jobs"]
        after = page.get("next")
    return jobs


def measure_starts(server, arguments):
    """Returns the seconds from the start of the process to each response: the maximum of several starts."""
    slowest = {}
    for number in range(STARTS):
        job = f"job-{number * (arguments.jobs - 1) // max(1, STARTS - 1)}"
        server.stop()
        began = server.start()
        server.first_response("/health")
        times = {"first /health": time.monotonic() - began}
        status = server.first_response(f"/v1/jobs/{job}")
        times["first GET of a job"] = time.monotonic() - began
        if status["activity"] != "ended" or status["phase"] != "running":
            sys.exit(f"{job} is {status['activity']}, {status['phase']}")
        for what, seconds in times.items():
            slowest[what] = max(slowest.get(what, 0), seconds)
    return slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harpe", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--made", type=int, default=20)
    parser.add_argument("--plans", type=int, default=200, help="most plans kept per job")
    parser.add_argument("--data", type=int, default=2, help="pipelines per job")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--most-start", type=float, default=1, help="most time of a start, s (default 1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.harpe, pathlib.Path(folder))
        try:
            server.start()
            begin = time.monotonic()
            make_jobs(server, arguments)
            print(f"{arguments.made} jobs made in {time.monotonic() - begin:.0f} s; most memory {server.status('VmHWM'):.0f} MiB")
            server.stop()
            copy_jobs(server, arguments)
            starts = measure_starts(server, arguments)
            print(f"stored: {server.stored_bytes() / 2**20:.1f} MiB")
            for what, seconds in starts.items():
                print(f"{what}: {seconds:.3f} s after a start, the slowest of {STARTS}")
            connection = server.connection()
            begin = time.monotonic()
            jobs = listed(connection)
            print(f"all jobs listed in pages of 1000: {time.monotonic() - begin:.3f} s")
            if {job["id"] for job in jobs} != {f"job-{number}" for number in range(arguments.jobs)}:
                sys.exit(f"{len(jobs)} of {arguments.jobs} jobs are listed")
            begin = time.monotonic()
            subprocess.run([arguments.harpe, "job", "list", "--all", "--server", f"http://127.0.0.1:{server.port}"],
                           check=True, capture_output=True)
            print(f"harpe job list --all: {time.monotonic() - begin:.3f} s")
            health = ask(connection, "GET", "/health")
            connection.close()
            print(f"checking the store after the start: {server.settle():.1f} s of CPU at low priority")
            used = server.cpu_seconds()
            time.sleep(IDLE_SECONDS)
            print(f"while nothing happens: {server.status('VmRSS'):.0f} MiB (most {server.status('VmHWM'):.0f} MiB), "
                  f"{1000 * (server.cpu_seconds() - used) / IDLE_SECONDS:.1f} ms of CPU a second, "
                  f"{health['jobs_in_memory']} jobs in memory")
        finally:
            server.stop()
    if max(starts.values()) > arguments.most_start:
        sys.exit(f"a response after a start took longer than {arguments.most_start:g} s")


if __name__ == "__main__":
    main()
