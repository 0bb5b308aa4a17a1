#!/usr/bin/env python3
"""A day in two minutes: a training that follows the carbon intensity of its grid, on one machine without a GPU. An agent on
simulated GPUs, a server that knows an invented grid whose hours take five seconds, and a trainer of two pipelines with four
stages each, all real processes. The job measures itself first. Then it has a fixed number of iterations to do by a deadline:
it hurries while electricity is clean, slows down where it is not, and pauses where it is dirtiest. Says what it emitted, by
the devices' own counters, next to what one steady pace would have, and writes a page that shows it (report.html).

    harpe demo carbon [--out DIRECTORY] [--json] [--check]
    run_carbon_demo.py [--harpe build/release/src/harpe/command/cli/harpe --trainer build/release/examples/trainer] [as above]

With --check, exits with 1 where the job misses its deadline, never pauses, or emits no less than the best steady pace.
"""

import argparse
import collections
import csv
import datetime
import json
import pathlib
import sys
import time
import urllib.error

sys.dont_write_bytecode = True  # write no files next to an installed copy
if sys.version_info < (3, 9):
    sys.exit("the demonstration needs Python 3.9 or later, and this is %d.%d: put a later one first on PATH" % sys.version_info[:2])
import carbon_demo_report  # noqa: E402
from demo_cluster import (  # noqa: E402
    JOB,
    PIPELINES,
    STAGES,
    DemoCluster,
    add_program_options,
    find_programs,
    temporary_folder,
    wrapped,
)

HOUR_S = 5  # wall-clock seconds per hour of the invented grid; an integer, since times in files are whole seconds
DAYS = 4  # of the grid
# Hours of a day: the first hour, and the hour in which the training begins to follow the grid, after profiling.
START_H, FOLLOW_H = 8, 17
WORK_H, DEADLINE_H = 14, 22  # of the training: its shortest time, and the time until its deadline
FORWARD_S = 0.015
IDLE_W = 40  # of a GPU that waits or pauses
PAUSE_S, RESUME_S = 1, 1  # time to stop and to start
# An invented grid with much solar power: g/kWh of each hour of a day.
DAY = (330, 335, 335, 330, 325, 320, 290, 230, 160, 110, 85, 75, 70, 72, 80, 105, 170, 270, 350, 385, 390, 375, 355, 340)


def invented_series(begin):
    """Returns [(begin in s since 1970, g/kWh)], an hour every HOUR_S, starting at `begin`."""
    return [(begin + HOUR_S * hour, DAY[(START_H + hour) % 24]) for hour in range(24 * DAYS)]


def utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Grid:
    def __init__(self, series):
        self.series, self.begin = series, series[0][0]

    def at(self, when):
        hour = int((when - self.begin) // HOUR_S)
        return self.series[min(max(hour, 0), len(self.series) - 1)][1]

    def grams_by_hour(self, begin, end, joules):
        """Yields (hour of the grid, grams) for energy drawn at constant power."""
        at = begin
        while at < end:
            hour = int((at - self.begin) // HOUR_S)
            until = min(end, self.begin + HOUR_S * (hour + 1))
            yield hour, joules * (until - at) / (end - begin) / 3.6e6 * self.at(at)
            at = until

    def grams(self, begin, end, joules):
        return sum(grams for _, grams in self.grams_by_hour(begin, end, joules))


def grams_of_hours(grid, draws):
    """Returns [grams in each hour], starting with the hour of the first draw. draws: (begin, end, joules)."""
    hours = collections.Counter()
    for begin, end, joules in draws:
        for hour, grams in grid.grams_by_hour(begin, end, joules):
            hours[hour] += grams
    return [hours[hour] for hour in range(min(hours), max(hours) + 1)]


class CarbonDemo(DemoCluster):
    def __init__(self, arguments, folder):
        super().__init__(arguments.harpe, arguments.trainer, folder, arguments.command)
        self.quiet = arguments.json

    def say(self, text):
        if not self.quiet:
            print(wrapped(text), flush=True)

    def run(self):
        # Hours begin at whole multiples of their length, as in every grid.
        series = invented_series((int(time.time()) // HOUR_S + 1) * HOUR_S)
        grid = Grid(series)
        table = self.folder / "grid.csv"
        table.write_text("time,g_per_kwh\n" + "".join(f"{utc(at)},{grams}\n" for at, grams in series))
        self.start_agent_and_server("--carbon", f"file:{table}?time=time&value=g_per_kwh&unit=g/kWh&kind=life-cycle&zone=INVENTED",
                                    idle_w=IDLE_W)
        trainer = self.start_trainer(forward_s=FORWARD_S)
        self.say(self.how_to_look())
        self.say(f"1. A job of {PIPELINES} pipelines with {STAGES} stages each trains, and is profiled on its way.")
        planned = self.wait_for_plans()
        fastest = planned["predicted_time_s"]
        # Following begins in the evening, so that there is a reason to pause.
        first = self.next_hour(grid, FOLLOW_H)
        self.wait_until(first)
        before = self.status()["newest_iteration"]
        work = round(WORK_H * HOUR_S / fastest)
        deadline = first + DEADLINE_H * HOUR_S
        self.say(f"2. {work} more iterations are to be done in {DEADLINE_H} hours, which are {DEADLINE_H * HOUR_S} s here; "
                 f"at the fastest they take {WORK_H}.")
        self.ask("PUT", f"/v1/jobs/{JOB}/carbon",
                 {"zone": "INVENTED", "iterations": before + work, "iterations_done": before, "deadline": utc(deadline),
                  "pause": {"stop_s": PAUSE_S, "start_s": RESUME_S, "min_dwell_s": HOUR_S, "idle_power_w": IDLE_W}})
        end = self.follow(before + work, deadline)
        events = [one for one in self.ask("GET", f"/v1/jobs/{JOB}/log")["events"] if one["kind"] != "phase"]
        frontier = self.ask("GET", f"/v1/jobs/{JOB}/frontier")
        self.control.write_text("stop\n")
        trainer.wait(20)
        result = self.evaluate(grid, before, before + work, deadline, end, frontier)
        result["synthetic"] = planned["synthetic"]
        (self.folder / "report.html").write_text(carbon_demo_report.page(result, events, self.source()))
        (self.folder / "day.svg").write_text(carbon_demo_report.picture(result))
        return result

    def next_hour(self, grid, hour):
        """Returns the next time at which that hour of a day begins."""
        now = int((time.time() - grid.begin) // HOUR_S) + 1
        while (START_H + now) % 24 != hour:
            now += 1
        return grid.begin + HOUR_S * now

    def wait_until(self, when):
        while time.time() < when:
            self.status()
            time.sleep(0.1)

    def follow(self, last, deadline):
        """Waits until the iterations are done, and prints when the job pauses or resumes."""
        told = None
        while True:
            status = self.status()
            paused = status.get("pause") is not None
            if paused != told and told is not None:
                self.say("   it pauses." if paused else "   it goes on.")
            told = paused
            if status["newest_iteration"] >= last:
                return time.time()
            if time.time() > deadline + DEADLINE_H * HOUR_S:
                sys.exit(f"the training does not end: {json.dumps(status)}")
            time.sleep(0.1)

    def read_ranks(self):
        """Returns for each rank [(begin in s since 1970, counter in J)] by iteration."""
        offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        ranks = {}
        with open(self.folder / "iterations.csv") as file:
            for row in csv.DictReader(file):
                rank = ranks.setdefault((int(row["pipeline"]), int(row["stage"])), {})
                rank[int(row["iteration"])] = float(row["begin_s"]) + offset, float(row["counter_j"])
        return ranks

    def evaluate(self, grid, first, last, deadline, end, frontier):
        ranks = self.read_ranks()
        spans = {}  # per iteration: begin, end, joules of all GPUs
        draws = []  # per iteration and GPU: begin, end, joules
        for rank in ranks.values():
            for iteration in range(first, last):
                (begin, before), (until, after) = rank[iteration], rank[iteration + 1]
                draws.append((begin, until, after - before))
                span = spans.setdefault(iteration, [begin, until, 0.0])
                span[2] += after - before
        begin = spans[first][0]
        # Compares earlier iterations with the plan that they ran. The same ratio is assumed for the other plans.
        earlier = range(max(first - 12, 0), first)
        anyone = ranks[0, 0]
        plan = frontier["plans"][0]
        slower = (anyone[first][0] - anyone[earlier[0]][0]) / len(earlier) / plan["time_s"]
        joules = sum(rank[first][1] - rank[earlier[0]][1] for rank in ranks.values()) / len(earlier)
        heavier = joules / PIPELINES / plan["energy_j"]
        grams = sum(grid.grams(*draw) for draw in draws)
        followed = {"name": "Harpe, by the counters", "grams": grams, "joules": sum(span[2] for span in spans.values()),
                    "hours": (spans[last - 1][1] - begin) / HOUR_S}
        steady = []
        for one in [frontier["all_max"], *frontier["plans"]]:
            time_s, energy = one["time_s"] * slower, one["energy_j"] * heavier * PIPELINES
            done = begin + time_s * (last - first)
            steady.append({"name": "all-max" if one is frontier["all_max"] else "best steady pace", "hours": (done - begin) / HOUR_S,
                           "joules": energy * (last - first), "grams": grid.grams(begin, done, energy * (last - first)),
                           "in_time": done <= deadline})
        best = min((one for one in steady[1:] if one["in_time"]), key=lambda one: one["grams"])
        hourly = {"harpe": grams_of_hours(grid, draws),
                  "steady": grams_of_hours(grid, [(begin, begin + best["hours"] * HOUR_S, best["joules"])])}
        usual = sorted(span[1] - span[0] for span in spans.values())[len(spans) // 2]
        pauses = [(span[0], span[1]) for span in spans.values() if span[1] - span[0] > max(3 * usual, HOUR_S / 2)]
        power = []
        for span in spans.values():
            watts = span[2] / (span[1] - span[0])
            power += [(span[0], watts), (span[1], watts)]
        return {"begin": begin, "end": end, "deadline": deadline, "hour_s": HOUR_S, "iterations": last - first,
                "ways": [followed, best, steady[0]], "saved_percent": 100 * (1 - grams / best["grams"]),
                "in_time": spans[last - 1][1] <= deadline, "pauses": pauses, "hourly": hourly,
                "first_hour": grid.begin + HOUR_S * int((begin - grid.begin) // HOUR_S), "grid": grid.series, "power": power,
                "iteration_times": [(span[0], span[1] - span[0]) for span in spans.values() if span[1] - span[0] < 3 * usual]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program_options(parser)
    parser.add_argument("--out", type=pathlib.Path, help="folder for report.html and logs (default: keep nothing)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    find_programs(arguments)
    with temporary_folder() as temporary:
        demo = CarbonDemo(arguments, arguments.out or temporary)
        began = time.monotonic()
        try:
            result = demo.run()
        finally:
            demo.stop()
        took = time.monotonic() - began
    if arguments.json:
        print(json.dumps({**{key: value for key, value in result.items() if key not in ("grid", "power", "iteration_times", "hourly")},
                          "took_s": took}, indent=1))
    else:
        print(f"\n{'':24}{'gCO2eq':>9}{'kJ':>9}{'hours':>8}")
        for one in result["ways"]:
            print(f"{one['name']:24}{one['grams']:9.2f}{one['joules'] / 1000:9.1f}{one['hours']:8.1f}")
        saved = result["saved_percent"]
        print(f"{abs(saved):.1f} % {'less' if saved >= 0 else 'more'} CO2 than the best steady pace, "
              f"{len(result['pauses'])} pauses, {'in time' if result['in_time'] else 'TOO LATE'}.")
        print(f"All of it took {took:.0f} s. GPUs are simulated and the grid is invented; processes, sockets and plans are real.")
        if arguments.out:
            print(f"Open the report in a browser: {demo.folder / 'report.html'}")
    if arguments.check:
        if not result["synthetic"]:
            sys.exit("the job does not say that its GPUs are simulated")
        if not result["in_time"]:
            sys.exit("the deadline was missed")
        if not result["pauses"]:
            sys.exit("it never paused")
        if result["saved_percent"] <= 0:
            sys.exit("it emitted no less than a steady pace")


if __name__ == "__main__":
    main()
