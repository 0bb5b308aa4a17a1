#!/usr/bin/env python3
"""Harpe at work on one machine without a GPU: an agent on simulated GPUs, a server, and a trainer of two pipelines with
four stages each, all real processes that talk over real sockets. The job profiles itself while it trains, gets its plan,
meets a straggler and recovers. Prints what the devices' own counters say next to what was predicted, and writes a page that
shows it (report.html).

    harpe demo [--out DIRECTORY] [--json] [--check]
    run_demo.py [--harpe build/release/src/harpe/command/cli/harpe --trainer build/release/examples/trainer] [as above]

With --check, exits with 1 where time is further from its prediction than --within, or energy than --energy-within, or
nothing was saved.
"""

import argparse
import collections
import csv
import json
import math
import os
import pathlib
import statistics
import sys
import time
import urllib.request

sys.dont_write_bytecode = True  # write no files next to an installed copy
if sys.version_info < (3, 9):
    sys.exit("the demonstration needs Python 3.9 or later, and this is %d.%d: put a later one first on PATH" % sys.version_info[:2])
import demo_report  # noqa: E402
from demo_cluster import (  # noqa: E402
    BLOCKING_W,
    JOB,
    PATIENCE_S,
    PIPELINES,
    STAGES,
    DemoCluster,
    add_program_options,
    busy,
    find_programs,
    temporary_folder,
    wrapped,
)

FACTOR = 1.2
SPANS = {"planned": 12, "straggling": 12, "recovered": 12}  # number of measured iterations
MOST_TRIES = 4  # to measure a phase under one assignment


class Demo(DemoCluster):
    def __init__(self, arguments, folder):
        super().__init__(arguments.harpe, arguments.trainer, folder, arguments.command)
        self.arguments = arguments
        self.done = []  # actions of the demonstration: (s since 1970, text)

    def say(self, text):
        if not self.arguments.json:
            print(wrapped(text), flush=True)

    def run(self):
        self.start_agent_and_server()
        trainer = self.start_trainer()
        self.say(self.how_to_look())

        self.say(f"1. A job of {PIPELINES} pipelines with {STAGES} stages each trains, and is profiled on its way.")
        planned = self.wait_for_plans()
        self.say(f"   planned after {planned['newest_iteration'] + 1} iterations, all of them training.")
        moments, self.predictions = {}, {}
        first = self.settle(planned)
        with urllib.request.urlopen(f"{self.url}/v1/jobs/{JOB}/profile", timeout=PATIENCE_S) as response:
            (self.folder / "profile.csv").write_bytes(response.read())
        moments["planned"] = self.steady("planned", first)

        self.say(f"2. Pipeline 1 becomes {FACTOR} times slower; that is declared to the server, and the other one need not hurry.")
        self.note(f"pipeline 1 is slowed down by {FACTOR}, and declared to straggle")
        self.control.write_text(f"slow 1 {FACTOR}\n")
        self.ask("PUT", f"/v1/jobs/{JOB}/stragglers/1", {"factor": FACTOR})
        moments["straggling"] = self.steady("straggling", self.settle(self.status(), 4))

        self.say("3. It recovers.")
        self.note("pipeline 1 is let run as before, and declared to be healthy")
        self.control.write_text("slow 1 1\n")
        self.ask("DELETE", f"/v1/jobs/{JOB}/stragglers/1")
        moments["recovered"] = self.steady("recovered", self.settle(self.status(), 4))
        frontier = self.ask("GET", f"/v1/jobs/{JOB}/frontier")
        events = self.events()
        self.control.write_text("stop\n")
        trainer.wait(20)
        result = self.evaluate(moments)
        result["synthetic"] = self.predictions["planned"]["synthetic"]
        history = {pipeline: self.history(pipeline) for pipeline in range(PIPELINES)}
        spans = {phase: (self.begin_of(moments[phase]), self.begin_of(moments[phase] + length))
                 for phase, length in SPANS.items()}
        page = demo_report.page(result, history, spans, frontier, self.dated(events), self.source())
        (self.folder / "report.html").write_text(page, encoding="utf-8")
        (self.folder / "energy.svg").write_text(demo_report.picture(result, history, spans))
        return result

    def settle(self, status, iterations=3):
        """Returns the first iteration by which all ranks have certainly switched."""
        first = status["newest_iteration"] + iterations
        self.wait("the next iterations", lambda now: now["newest_iteration"] >= first)
        return first + 1

    def steady(self, phase, first):
        """Waits until all iterations of a phase have run under one assignment. Returns the first of them. Starts again
        if the assignment changes: a job whose iterations take longer than predicted runs at all-max for some
        iterations, a better plan may be found, and a declared straggler is detected some iterations later."""
        for left in reversed(range(MOST_TRIES)):
            heard = max((event["sequence"] for event in self.events()), default=0)
            self.predictions[phase] = began = self.status()

            def is_whole(now):
                return now["newest_iteration"] >= first + SPANS[phase]

            now = self.wait("more iterations",
                            lambda now: is_whole(now) or (left > 0 and now["version"] != began["version"]))
            if is_whole(now):
                break
            self.say(changed(self.events(after=heard)))
            first = self.settle(now, 4)
        return first

    def events(self, after=0):
        return [one for one in self.ask("GET", f"/v1/jobs/{JOB}/log?after={after}")["events"] if one["kind"] != "phase"]

    def note(self, text):
        self.done.append((time.time(), text))

    def dated(self, events):
        """Returns events of the job and actions of the demonstration, for the page: in order, with iterations."""
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + self.begin[0, 0, 0]
        last = max(iteration for _, _, iteration in self.begin)
        found = []
        # The job dates an event by its last clock reading, which may be earlier than the cause. The cause is still
        # listed first.
        cause = [(at - JOB_CLOCK_S, at, BY_DEMO, text) for at, text in self.done]
        effect = [(one["at"], one["at"], by_whom(one["text"]), one["text"]) for one in events]
        for _, at, by, text in sorted(cause + effect):
            begun = [iteration for iteration in range(last + 1) if self.begin_of(iteration) <= at - boot]
            found.append({"at_s": at - boot, "iteration": begun[-1] if begun else None, "by": by, "text": text})
        return found

    def read_iterations(self):
        self.begin, self.counter = {}, {}
        with open(self.folder / "iterations.csv") as file:
            for row in csv.DictReader(file):
                key = int(row["pipeline"]), int(row["stage"]), int(row["iteration"])
                self.begin[key], self.counter[key] = float(row["begin_s"]), float(row["counter_j"])

    def measured(self, first, last, pipeline):
        """Returns the time of an iteration, and the joules of all GPUs of one pipeline by their counters, each with the
        half-width of its 95 % interval. All iterations are used together: a counter steps every 100 ms, so a single
        reading is off by up to the energy that a GPU uses in that time."""
        iterations = range(first, last + 1)
        times = [sum(self.begin[pipeline, stage, i] for stage in range(STAGES)) / STAGES for i in iterations]
        counters = [sum(self.counter[pipeline, stage, i] for stage in range(STAGES)) for i in iterations]
        time_s, energy = slope(times), slope(counters)
        time_error = mean_error([after - before for before, after in zip(times, times[1:])])
        # If other load on the machine delays an iteration, its GPUs draw at least blocking power in the meantime.
        energy_error = math.hypot(slope_error(counters), time_error * STAGES * BLOCKING_W)
        return Measured(time_s, energy, time_error, energy_error)

    def begin_of(self, iteration):
        return self.begin[0, 0, iteration] - self.begin[0, 0, 0]

    def history(self, pipeline, window=5):
        """Returns time and energy of an iteration as moving means, with their times."""
        last = max(iteration for _, _, iteration in self.begin)
        rows = []
        for first in range(last - window + 1):
            one = self.measured(first, first + window, pipeline)
            at = (self.begin_of(first) + self.begin_of(first + window)) / 2
            rows.append({"at_s": at, "time_s": one.time_s, "energy_j": one.energy_j, "power_w": one.energy_j / one.time_s})
        return rows

    def evaluate(self, moments):
        self.read_iterations()
        # The first two iterations, in which a trainer warms up, do not count; profiling begins with all ranks at
        # all-max.
        full = self.measured(2, 6, 0)
        result = {"all_max": {"time_s": full.time_s, "energy_j": full.energy_j}}
        for phase, length in SPANS.items():
            first = moments[phase]
            found = self.measured(first, first + length, 0)
            predicted = self.predictions[phase]
            # If one pipeline straggles, its plan is a faster one, or all-max; pipeline 0 has the slower one.
            plan = max((one for one in predicted["plans"] if one["plan"] is not None), key=lambda one: one["time_s"])
            entry = {"time_s": found.time_s, "energy_j": found.energy_j, "predicted_plan_time_s": plan["time_s"],
                     "predicted_plan_energy_j": plan["energy_j"],
                     "predicted_time_s": predicted["predicted_time_s"] or plan["time_s"]}
            # A pipeline that finishes before the slowest one waits for it at blocking power.
            waits = max(0.0, entry["predicted_time_s"] - plan["time_s"])
            entry["predicted_energy_j"] = plan["energy_j"] + waits * STAGES * BLOCKING_W
            # At all-max it would also have waited.
            baseline = full.energy_j + max(0.0, found.time_s - full.time_s) * STAGES * BLOCKING_W
            used = found.energy_j / baseline
            entry["saved_percent"] = 100 * (1 - used)
            entry["saved_error_percent"] = 100 * used * math.hypot(found.energy_error_j / found.energy_j,
                                                                   full.energy_error_j / baseline)
            entry["slowdown_percent"] = 100 * (found.time_s / full.time_s - 1)
            entry["slowdown_error_percent"] = 100 * math.hypot(found.time_error_s, full.time_error_s) / full.time_s
            entry["objective"] = demo_report.objective_text(predicted["objective"])
            entry["as_predicted"] = (abs(found.time_s / entry["predicted_time_s"] - 1) <= self.arguments.within and
                                     abs(found.energy_j / entry["predicted_energy_j"] - 1) <= self.arguments.energy_within)
            result[phase] = entry
        return result


BY_DEMO = "This demonstration:"
JOB_CLOCK_S = 1  # largest delay of the dates of the job's events


def by_whom(text):
    """Returns the cause of an event, if its text shows it: this demonstration sets no objective."""
    return "A user has set the objective:" if "the objective is now" in text else ""


def changed(events):
    """Returns why the plans have changed, and whether that is a problem, as text for the user."""
    why = events[-1] if events else {"kind": "info", "text": "better ones are ready"}
    if why["kind"] == "warning":
        remark = "That happens where this machine does much else, too"
    elif "times as long since iteration" in why["text"]:
        remark = "It now sees in the ranks' own times what was declared to it: as it should be"
    else:
        remark = "As it should be"
    return f"   The server has changed the plans ({why['text']}).\n   {remark}. This phase is measured anew."


Measured = collections.namedtuple("Measured", "time_s energy_j time_error_s energy_error_j")

# Student's t distribution, 97.5 %, by degrees of freedom from 1.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)


def student(freedom):
    return STUDENT[min(freedom, len(STUDENT)) - 1]


def slope(values):
    """Returns the slope of the line through equidistant values at distance one (least squares)."""
    middle = (len(values) - 1) / 2
    return sum((i - middle) * value for i, value in enumerate(values)) / sum((i - middle) ** 2 for i in range(len(values)))


def slope_error(values):
    """Returns the half-width of the slope's 95 % interval, for noisy readings of a constant slope."""
    middle, mean, rise = (len(values) - 1) / 2, sum(values) / len(values), slope(values)
    squares = sum((value - mean - rise * (i - middle)) ** 2 for i, value in enumerate(values))
    freedom = len(values) - 2
    return student(freedom) * math.sqrt(squares / freedom / sum((i - middle) ** 2 for i in range(len(values))))


def mean_error(values):
    return student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def table(result):
    full = result["all_max"]
    yield f"Pipeline 0, an iteration, by its GPUs' own counters (at all-max: {full['time_s']:.3f} s, {full['energy_j']:.0f} J)"
    yield f"{'':12}{'time, s':>9}{'predicted':>11}{'energy, J':>11}{'predicted':>11}{'saved':>14}{'slower':>8}"
    for phase in ("planned", "straggling", "recovered"):
        one = result[phase]
        yield (f"{one['objective'] or phase:12}{one['time_s']:9.3f}{one['predicted_time_s']:11.3f}{one['energy_j']:11.1f}"
               f"{one['predicted_energy_j']:11.1f}{one['saved_percent']:7.1f} ±{one['saved_error_percent']:4.1f}%"
               f"{one['slowdown_percent']:7.1f}%{demo_report.doubt(one, '  ')}")
    yield "Predicted: by the plan, and by what ranks were measured to take between its computations."
    yield "Saved: against all-max, where it would have waited for the straggler, too."
    if not all(result[phase]["as_predicted"] for phase in SPANS):
        yield wrapped(demo_report.UNQUIET + busy())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program_options(parser)
    parser.add_argument("--out", type=pathlib.Path, help="folder for report.html and logs (default: keep nothing)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--within", type=float, default=0.02, help="tolerance of the time for --check (default: %(default)s)")
    parser.add_argument("--energy-within", type=float, default=0.02, help="tolerance of the energy for --check (default: %(default)s)")
    arguments = parser.parse_args()
    find_programs(arguments)
    with temporary_folder() as temporary:
        demo = Demo(arguments, arguments.out or temporary)
        began = time.monotonic()
        try:
            result = demo.run()
        finally:
            demo.stop()
        result["took_s"] = time.monotonic() - began
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print()
        print(wrapped("\n".join(table(result))))
        print(wrapped(f"All of it took {result['took_s']:.0f} s. GPUs are simulated; processes, sockets and plans are real."))
        if arguments.out:
            print(f"Open the report in a browser: {demo.folder / 'report.html'}")
            print("The profile of this training in one command, without a server to set up:")
            simulation = demo.folder / "simulation.toml"
            print(f"  harpe profile measure --stop --simulate {simulation} --clocks 6 --lowest-clock 900 --max-slowdown 100% -- \\\n"
                  f"      {demo.trainer} --simulation {simulation} --data 1 --stages 4 --iterations 1000")
    if arguments.check:
        if not result["synthetic"]:
            sys.exit("the job does not say that its GPUs are simulated")
        for phase in ("planned", "straggling", "recovered"):
            one = result[phase]
            for what, within in (("time_s", arguments.within), ("energy_j", arguments.energy_within)):
                off = one[what] / one["predicted_" + what] - 1
                if abs(off) > within:
                    sys.exit(f"{phase}: {what} is {100 * off:+.1f} % off its prediction")
            if one["saved_percent"] <= 0:
                sys.exit(f"{phase}: nothing was saved")


if __name__ == "__main__":
    main()
