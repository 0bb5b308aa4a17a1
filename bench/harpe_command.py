"""harpe as a command, for comparisons: plans, what given clocks take, and CPU time."""

import json
import pathlib
import resource
import subprocess


def cpu_seconds(run):
    """Returns the result of `run`, and the CPU time of the processes that it started and waited for."""

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    return run(), spent() - before


class Harpe:
    """Plans of one pipeline with the schedule 1F1B."""

    def __init__(self, harpe, profile, stages, micro_batches, blocking_power, directory):
        self.harpe, self.profile = str(harpe), str(profile)
        self.out = pathlib.Path(directory) / "out"
        self.options = ["--stages", str(stages), "--micro-batches", str(micro_batches), "--points", "0",
                        "--blocking-power", str(blocking_power)]  # fmt: skip
        self.summary("--quick", "--out", str(self.out))
        self.written = json.loads((self.out / "plan.json").read_text())

    def json(self, *arguments):
        command = [self.harpe, *arguments, "--profile", self.profile, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def summary(self, *options):
        """Returns the summary of plans that `harpe plan` prints."""
        return self.json("plan", *self.options, *options)

    def energy_by(self, seconds, *options):
        """Returns the joules of the plan that ends by a deadline."""
        chosen = self.summary("--deadline", repr(seconds), *options)["plans"]["chosen"]
        return chosen["iteration_energy_j"]

    def price(self, clocks):
        """Returns seconds and joules of an iteration at these clocks (MHz), given per stage in list order."""
        for stage, of_stage in zip(self.written["instructions"], clocks, strict=True):
            for instruction, mhz in zip(stage, of_stage, strict=True):
                instruction["frequency_mhz"] = mhz
        plan = self.out / "priced.json"
        plan.write_text(json.dumps(self.written))
        found = self.json("predict", str(plan))
        return found["iteration_time_s"], found["iteration_energy_j"]
