"""Results of demonstrations as their pages take them, invented: pages can be looked at without running one."""

import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

import carbon_demo_report  # noqa: E402
import demo_report  # noqa: E402

SOURCE = {"program": "harpe 0.0.0", "command": ["harpe", "demo", "--check", "<harpe>"],
          "inputs": [("simulation.toml", "fnv1a64:0000000000000000")], "documentation": "docs/jobs.md"}  # fmt: skip


def phase(time_s, energy_j):
    return {"time_s": time_s, "predicted_time_s": 1.001 * time_s, "energy_j": energy_j, "predicted_energy_j": 0.999 * energy_j,
            "saved_percent": 12.3, "saved_error_percent": 0.4, "slowdown_percent": 0.1, "slowdown_error_percent": 0.2,
            "as_predicted": True, "objective": None, "predicted_plan_time_s": time_s, "predicted_plan_energy_j": energy_j}  # fmt: skip


def run_page(objective=None):
    """Returns a page of `harpe demo`; objective: one that a user sets after the straggler has recovered."""
    result = {"all_max": {"time_s": 0.5, "energy_j": 700}, "planned": phase(0.5, 610), "straggling": phase(0.6, 500),
              "recovered": {**phase(0.5, 611), "objective": objective}}  # fmt: skip
    history = {pipeline: [{"at_s": i / 2, "time_s": 0.5 + 0.1 * (40 < i < 60), "energy_j": 650 - 90 * (40 < i < 60) * pipeline,
                           "power_w": 1300 - 180 * (40 < i < 60) * pipeline} for i in range(80)] for pipeline in (0, 1)}  # fmt: skip
    spans = {"planned": (12, 19), "straggling": (21, 29), "recovered": (31, 38)}
    plans = [{"time_s": 0.5 + 0.005 * i, "energy_j": 620 - 10 * i + 0.2 * i * i} for i in range(25)]
    frontier = {"plans": plans, "all_max": {"time_s": 0.5, "energy_j": 700}}
    events = [{"at_s": -0.2, "iteration": None, "by": "", "text": "all 8 ranks have registered"},
              {"at_s": 12.1, "iteration": 24, "by": "", "text": "plan of 0.5 s: 22 plans are ready"},
              {"at_s": 20.3, "iteration": 41, "by": "This demonstration:", "text": "<b>pipeline 1</b> straggles"},
              {"at_s": 30.5, "iteration": 60, "by": "This demonstration:", "text": "pipeline 1 is let run as before"}]  # fmt: skip
    if objective:
        events.append({"at_s": 31, "iteration": 61, "by": "A user has set the objective:",
                       "text": f"plan of 0.5 s: the objective is now: {objective}"})  # fmt: skip
    return demo_report.page(result, history, spans, frontier, events, SOURCE)


def carbon_page(joules=1.1e5):
    """Returns a page of `harpe demo carbon`; joules: energy used when following the grid, compared with 1e5 at the
    steady pace."""
    names = ("Harpe, by the counters", "best steady pace", "all-max")
    ways = [{"name": name, "grams": 10.0 + i, "joules": 1e5, "hours": 20} for i, name in enumerate(names)]
    ways[0]["joules"] = joules
    result = {"begin": 0, "end": 120, "deadline": 110, "hour_s": 5, "iterations": 200, "saved_percent": 9.1, "in_time": True,
              "ways": ways, "first_hour": -1, "hourly": {"harpe": [0.7, 0.6, 0.4] + [0.0] * 4 + [0.55] * 16, "steady": [0.55] * 20},
              "pauses": [(15, 35)], "grid": [(5 * i, 300 + 200 * math.sin(i / 4)) for i in range(-2, 26)],
              "power": [(2.5 * i, 1500 + 300 * math.cos(i)) for i in range(48)],
              "iteration_times": [(2.5 * i, 0.5 + 0.1 * math.sin(i)) for i in range(48)]}  # fmt: skip
    return carbon_demo_report.page(result, [{"at": -60, "text": "it trained before"}, {"at": 15, "text": "it pauses"}], SOURCE)


def ledger(simulated):
    """Returns the energy of three jobs over two days, in the format that `harpe carbon report` reads."""
    def rows(job):
        for hour in range(48):
            paused = 3600 if job == 0 and 17 <= hour % 24 < 21 else 0
            joules = 4e5 if paused else 3.6e6 * (8 + job) * (1 + 0.3 * math.sin(hour / 5 + job))
            yield [1795564800 + 3600 * hour, joules, 28800, 28800, paused]

    columns = ["start", "energy_j", "device_s", "measured_s", "paused_s"]
    runs = [{"id": f"x.{i}", "job": name, "start": 1, "user": "alice", "devices": 8, "simulated": simulated,
             "intervals": {"step_s": 3600, "columns": columns, "rows": list(rows(i))}}
            for i, name in enumerate(["gpt3-175b", "a-job-with-a-long-name-of-many-letters", "resnet"])]  # fmt: skip
    return json.dumps({"format": "harpe.energy/1", "runs": runs})
