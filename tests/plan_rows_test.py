#!/usr/bin/env python3
"""Each row of the summary of `harpe plan` is what its name says, for every objective and schedule.

    plan_rows_test.py build/quick/src/harpe/command/cli/harpe

all-max: every instruction at its highest clock. fastest: no row ends sooner. chosen: keeps the objective. least
energy: no row and no plan along the frontier takes less. With a straggler all rows wait for it, in time and energy.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

STAGES, MICRO_BATCHES, POWER = 4, 8, 80
RELATIVE = 1e-9
SEARCHED = 5e-4  # relative: each row is found by a separate search


def run(harpe, *arguments):
    done = subprocess.run([harpe, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"harpe {arguments}: {done.stderr}"
    return done.stdout


class Case:
    def __init__(self, harpe, directory, schedule, profile, *objective):
        self.label = f"{schedule}, {profile.name}, {' '.join(map(str, objective))}"
        out = directory / "out"
        said = json.loads(
            run(harpe, "plan", "--profile", profile, "--schedule", schedule, "--micro-batches", MICRO_BATCHES,
                "--blocking-power", POWER, "--points", 8, "--json", "--out", out, *objective)
        )  # fmt: skip
        self.rows = said["plans"]
        self.frontier = said["frontier"]
        self.along = json.loads((out / "frontier.json").read_text())["points"]
        self.plan = json.loads((out / "plan.json").read_text())

    def time(self, row):
        return self.rows[row]["iteration_time_s"]

    def energy(self, row):
        return self.rows[row]["iteration_energy_j"]

    def require(self, holds, what):
        assert holds, f"{self.label}: {what}: {json.dumps(self.rows, indent=1)}"

    def check(self):
        all_max = self.energy("all_max")
        for row in ("all_max", "fastest", "chosen", "least_energy"):
            figures = self.rows[row]
            saving = 100 * (1 - figures["iteration_energy_j"] / all_max)
            slowdown = 100 * (figures["iteration_time_s"] / self.frontier["min_time_s"] - 1)
            power = figures["iteration_energy_j"] / figures["iteration_time_s"]
            self.require(abs(figures["saving_percent"] - saving) < 1e-6, f"saving of {row}")
            self.require(abs(figures["slowdown_percent"] - slowdown) < 1e-6, f"slowdown of {row}")
            self.require(abs(figures["average_power_w"] / power - 1) < RELATIVE, f"power of {row}")
            self.require(figures["lower_bound_j"] <= figures["iteration_energy_j"], f"bound of {row}")
            self.require(self.time("fastest") <= self.time(row) * (1 + RELATIVE), f"fastest is no slower than {row}")
            least = self.energy("least_energy")
            self.require(least <= self.energy(row) * (1 + SEARCHED), f"least energy is no more than {row}")
        for point in self.along:
            self.require(least <= self.waiting(point) * (1 + SEARCHED), "least energy is no more than along the frontier")
        chosen = self.rows["chosen"]
        self.require(chosen["iteration_time_s"] == self.plan["iteration_time_s"], "the plan is the chosen one")
        self.require(chosen["iteration_energy_j"] == self.plan["iteration_energy_j"], "the plan is the chosen one")

    def waiting(self, point):
        """Returns the joules of a plan along the frontier that waits as long as the rows do."""
        more = max(0, self.waits_until - point["iteration_time_s"])
        return point["iteration_energy_j"] + STAGES * POWER * more

    waits_until = 0.0


def check(harpe, directory, schedule, profile):
    def case(*objective):
        made = Case(harpe, directory, schedule, profile, *objective)
        return made

    plain = case()
    plain.check()
    fastest, all_max = plain.time("fastest"), plain.time("all_max")
    plain.require(plain.time("chosen") <= fastest * (1 + RELATIVE), "chosen is not slowed down")
    slower = case("--slowdown", "8%")
    slower.check()
    slower.require(slower.time("chosen") <= 1.08 * fastest * (1 + RELATIVE), "the slowdown is kept")
    slower.require(slower.energy("chosen") <= plain.energy("chosen") * (1 + SEARCHED), "more time takes no more energy")
    deadline = case("--deadline", 1.05 * fastest)
    deadline.check()
    deadline.require(deadline.time("chosen") <= 1.05 * fastest * (1 + RELATIVE), "the deadline is kept")
    least = case("--least-energy")
    least.check()
    least.require(least.energy("chosen") == least.energy("least_energy"), "chosen is least energy")
    cap = 0.9 * plain.energy("all_max") / all_max
    capped = case("--power-cap", cap)
    capped.check()
    capped.require(capped.rows["chosen"]["average_power_w"] <= cap * (1 + RELATIVE), "the cap is kept")
    for factor in (1.1, 2.0):
        waits = case("--straggler", f"{factor}x")
        waits.waits_until = factor * all_max
        waits.check()
        for row in ("all_max", "fastest", "chosen", "least_energy"):
            waits.require(waits.time(row) >= factor * all_max * (1 - RELATIVE), f"{row} waits for the straggler")
        waits.require(abs(waits.time("chosen") / (factor * all_max) - 1) < RELATIVE, "chosen ends with the straggler")


def main():
    harpe = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        profiles = {}
        for kind, options in (("whole", ()), ("split", ("--split-backward",))):
            profiles[kind] = directory / f"{kind}.csv"
            profiles[kind].write_text(run(harpe, "synth", "--stages", STAGES, *options))
        listed = json.loads(run(harpe, "schedule", "show", "--list", "--json"))["schedules"]
        checked = 0
        for entry in listed:
            schedule = entry["name"]
            if "recompute" in schedule:
                continue  # synth has no rows for it
            splits = schedule.startswith("zb") or schedule == "dualpipev"
            for kind, profile in profiles.items():
                if splits and kind == "whole":
                    continue
                check(harpe, directory, schedule, profile)
                checked += 1
        assert checked >= 12, checked
        print(f"{checked} schedules and profiles, 7 objectives each")


if __name__ == "__main__":
    main()
