"""One run of `harpe plan`: what it prints and writes, and what its clocks need by the profile and the schedule alone."""

import csv
import functools
import json
import re
import shlex
import subprocess

EXACT = 1e-9  # relative: largest difference between sums of doubles and picoseconds
BLOCKING_W = 80
TEXT_COLUMNS = 80


class Failure(AssertionError):
    pass


def run(arguments, folder=None):
    arguments = [str(argument) for argument in arguments]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(arguments)}: exit status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def require(page, holds, what):
    if not holds:
        raise Failure(f"{page.command}\n{what}\n{json.dumps(page.summary['plans'], indent=1)}")


class Profile:
    """Seconds and joules by stage, instruction and clock."""

    def __init__(self, path):
        with path.open() as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        self.points = {(int(r["stage"]), r["instruction"], int(r["frequency"])): (float(r["time"]), float(r["energy"]))
                       for r in rows}  # fmt: skip

    def highest(self, stage, name):
        return max(clock for s, n, clock in self.points if (s, n) == (stage, name))


class Page:
    """The files of one run.

    objective, clocks  options, and the name of the kind of clocks: one of `free`, `late`, `table`, `dwell`, `ahead`
    searched           relative: how much more than another page's plan this one's may need
    """

    def __init__(self, harpe, folder, profile, options, objective, clocks, searched):
        self.harpe, self.folder, self.profile, self.objective = harpe, folder, profile, objective
        self.searched = searched
        self.is_switching, self.is_late = clocks != "free", clocks not in ("free", "dwell")
        self.clocks = clocks
        self.is_straggler = objective.startswith("--straggler")
        self.arguments = [harpe, "plan", *options, "--certificate", "--out", "out"]
        self.command = shlex.join(str(argument) for argument in self.arguments)
        self.summary = json.loads(run([*self.arguments, "--json"], folder))
        self.plan = json.loads((folder / "out/plan.json").read_text())
        self.written = json.loads((folder / "out/frontier.json").read_text())
        self.html = (folder / "out/report.html").read_text()
        self.verified = json.loads(run([harpe, "verify", "out/plan.json", "--profile", options[1], "--certificate",
                                        "out/certificate.json", "--json"], folder))  # fmt: skip
        self.makespan = self.verified["makespan_s"]
        self.rows = {name: self.summary["plans"][name] for name in ("all_max", "fastest", "chosen", "least_energy")}
        self.frontier, self.points = self.summary["frontier"], self.written["points"]
        self.lists = [[i for i in stage if i["name"] != "switch"] for stage in self.plan["instructions"]]
        self.waits_until = self.rows["chosen"]["iteration_time_s"] if self.is_straggler else 0.0

    @functools.cached_property
    def text(self):
        """Returns the summary with one sentence per line; it is printed with lines up to column 80."""
        printed = run(self.arguments, self.folder)
        for line in printed.splitlines():
            is_of_table = line.startswith("   ") or "  " in line.strip()
            fits = len(line) <= TEXT_COLUMNS or is_of_table or "/" in line
            require(self, fits, f"a line of {len(line)} columns: {line}")
        return re.sub(r"\n  (?=\S)", " ", printed)

    def waiting(self, plan):
        """Returns the seconds and joules of a plan that waits for the straggler, if there is one."""
        time, energy = plan["iteration_time_s"], plan["iteration_energy_j"]
        more = max(0.0, self.waits_until - time)
        return time + more, energy + len(self.lists) * BLOCKING_W * more

    def known_plans(self):
        """Returns plans whose clocks are as late as this page's. All-max needs no dwell."""
        rows = [row for name, row in self.rows.items() if name != "all_max" or not self.is_switching]
        return rows + self.points + self.written["one_setting"]

    def bound_at(self, time):
        """Returns the bound of frontier.json, J: linear between its points, and rising with blocking power after
        them."""
        bound = self.written["bound"]
        if time >= bound[-1][0]:
            return bound[-1][1] + (time - bound[-1][0]) * BLOCKING_W * len(self.lists)
        for (t0, e0), (t1, e1) in zip(bound, bound[1:]):
            if time <= t1:
                return e0 + (e1 - e0) * (time - t0) / (t1 - t0)
        raise AssertionError("the times of a bound rise")

    def clocks_of(self, point):
        """Returns the clocks of a plan of frontier.json, MHz, one per instruction."""
        stages = []
        for runs in point["clock_runs_mhz"]:
            stages.append([clock for clock, count in zip(runs[::2], runs[1::2]) for _ in range(count)])
        return [[clock for clock in stage if clock] for stage in stages]  # 0: a clock change

    def replay(self, clocks, wait_until=0.0):
        """Returns the end of 1F1B at these clocks without latency, s, and the energy until then or until `wait_until`,
        J."""
        ends, busy, energy = {}, 0.0, 0.0
        places = [0] * len(self.lists)
        free_at = [0.0] * len(self.lists)
        while any(place < len(stage) for place, stage in zip(places, self.lists)):
            before = list(places)
            for stage, instructions in enumerate(self.lists):
                while places[stage] < len(instructions):
                    name, batch = instructions[places[stage]]["name"], instructions[places[stage]]["microbatch"]
                    neighbour = stage - 1 if name == "forward" else stage + 1
                    needed = (neighbour, name, batch)
                    if 0 <= neighbour < len(self.lists) and needed not in ends:
                        break
                    time, joules = self.profile.points[stage, name, clocks[stage][places[stage]]]
                    free_at[stage] = max(free_at[stage], ends.get(needed, 0.0)) + time
                    ends[stage, name, batch] = free_at[stage]
                    busy, energy = busy + time, energy + joules
                    places[stage] += 1
            assert places != before, "1F1B goes on"
        last = max(free_at)
        return last, energy + BLOCKING_W * (len(self.lists) * max(last, wait_until) - busy)

    def check_percentages(self, row, name):
        all_max = self.rows["all_max"]["iteration_energy_j"]
        saving = 100 * (1 - row["iteration_energy_j"] / all_max)
        slowdown = 100 * (row["iteration_time_s"] / self.frontier["min_time_s"] - 1)
        require(self, abs(row["saving_percent"] - saving) < 1e-6, f"saving of {name}")
        require(self, abs(row["slowdown_percent"] - slowdown) < 1e-6, f"slowdown of {name}")

    def check_plan(self):
        """Checks that the chosen row equals plan.json, whose instructions add up to it."""
        chosen, plan = self.rows["chosen"], self.plan
        for figure in ("iteration_time_s", "iteration_energy_j", "lower_bound_j"):
            require(self, chosen[figure] == plan[figure], f"{figure} of plan.json")
        entries = [i for stage in plan["instructions"] for i in stage]
        busy, energy = sum(i["time_s"] for i in entries), sum(i["energy_j"] for i in entries)
        energy += BLOCKING_W * (len(plan["instructions"]) * plan["iteration_time_s"] - busy)
        require(self, abs(energy / plan["iteration_energy_j"] - 1) < EXACT, f"the instructions need {energy} J")
        end = max(i["start_s"] + i["time_s"] for i in entries)
        require(self, abs(end / self.makespan - 1) < EXACT, f"the instructions end at {end} s")
        require(self, end <= plan["iteration_time_s"] * (1 + EXACT), f"the instructions end at {end} s")
        clocks = [[i["frequency_mhz"] for i in stage] for stage in self.lists]
        changes = sum(clock != stage[k - 1] for stage in clocks for k, clock in enumerate(stage))
        require(self, chosen["clock_changes"] == changes, f"the clocks change {changes} times")
        time, least = self.replay(clocks, plan["iteration_time_s"])
        require(self, time <= self.makespan * (1 + EXACT), f"the clocks end at {time} s if they come at once")
        require(self, least <= plan["iteration_energy_j"] * (1 + EXACT), f"the clocks need {least} J if they come at once")
        require(self, self.is_late or abs(least / plan["iteration_energy_j"] - 1) < EXACT, f"the clocks need {least} J")

    def check_dwell(self, dwell):
        for instructions in self.lists if self.clocks == "dwell" else ():
            starts = [i["start_s"] for i, before in zip(instructions[1:], instructions)
                      if i["frequency_mhz"] != before["frequency_mhz"]]  # fmt: skip
            for first, second in zip(starts, starts[1:]):
                require(self, second - first >= dwell * (1 - EXACT), f"the clock changes at {first} s and {second} s")

    def check_all_max(self):
        """Checks all-max and one clock for all, by the profile only. All-max of a synthetic profile never changes a
        clock."""
        clocks = [[self.profile.highest(stage, i["name"]) for i in instructions]
                  for stage, instructions in enumerate(self.lists)]  # fmt: skip
        time, energy = self.replay(clocks)
        row = self.rows["all_max"]
        row["makespan_s"] = time
        time, energy = self.waiting({"iteration_time_s": time, "iteration_energy_j": energy})
        require(self, abs(row["iteration_time_s"] / time - 1) < EXACT, f"all-max ends at {time} s")
        require(self, abs(row["iteration_energy_j"] / energy - 1) < EXACT, f"all-max needs {energy} J")
        for point in self.written["one_setting"]:
            at = [[point["frequency_mhz"]] * len(instructions) for instructions in self.lists]
            time, energy = self.replay(at)
            require(self, abs(point["iteration_time_s"] / time - 1) < EXACT, f"one clock ends at {time} s: {point}")
            require(self, abs(point["iteration_energy_j"] / energy - 1) < EXACT, f"one clock needs {energy} J: {point}")

    def check_counted_latency(self, longest):
        """The whole latency is counted for any client, and less for Harpe's, which requests ahead; without latency
        there is none."""
        counted = self.summary.get("counted_latency_s")
        require(self, (counted is not None) == self.is_late, "a latency is counted if there is one")
        if counted is not None:
            whole = counted < longest if self.clocks == "ahead" else counted == longest
            require(self, whole, f"{counted} s of {longest} s are counted")
