#!/usr/bin/env python3
"""The same objective for the same inputs is the same plan, byte for byte, whichever way it comes in: options of
`harpe plan`, a job file, `harpe job`, the server's HTTP interface, Python.
Usage: objective_entrances_test.py HARPE PYTHON_FOLDER"""

import json
import pathlib
import subprocess
import sys

import server_process
from server_process import ServerTest

PYTHON = None
STAGES, MICRO_BATCHES, BLOCKING_W, TENSOR = 3, 4, 83.64, 2
# Options of harpe, keys of a job file, members of the HTTP interface and of Python.
MODEL = {"load": 0.002, "reduce": 0.01, "optimizer": 0.004}
LATE = {"switch-latency": 0.005, "min-dwell": 0.01}


class Entrances(ServerTest):
    def setUp(self):
        super().setUp()
        self.asks_ahead = False  # if true, like ranks of Harpe's client
        self.profile = self.folder / "profile.csv"
        self.harpe_does("synth", "--gpu", "a100-sxm", "--stages", STAGES, "--imbalance", 1.3, "--out", self.profile)
        sys.path.insert(0, str(PYTHON))
        import harpe
        self.python = harpe

    def harpe_does(self, *arguments):
        done = subprocess.run([self.harpe, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, (arguments, done.stderr))
        return done.stdout

    def planned_by_options(self, name, model, objective, blocking=BLOCKING_W):
        out = self.folder / f"options-{name}"
        keys = [word for key, value in model.items() for word in (f"--{key}", value)]
        self.harpe_does("plan", "--profile", self.profile, "--micro-batches", MICRO_BATCHES, "--blocking-power", blocking,
                        "--gpus-per-stage", TENSOR, "--job", "entrances", *keys, *objective, "--certificate",
                        "--points", 0, "--out", out)
        return out

    def planned_by_file(self, name, model, objective):
        out = self.folder / f"file-{name}"
        key, value = objective[0][2:], f'"{objective[1]}"' if len(objective) > 1 else "true"
        lines = {"profile": '"profile.csv"', "microbatches": MICRO_BATCHES, "blocking-power": BLOCKING_W,
                 "gpus-per-stage": TENSOR, "job": '"entrances"', "points": 0, key: value,
                 **{name: json.dumps(value) for name, value in model.items()}}
        file = self.folder / f"{name}.toml"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.harpe_does("plan", file, "--out", out)
        return out

    def train(self, model, plans=10, blocking=BLOCKING_W, **more):
        members = {key.replace("-", "_") + "_s": value for key, value in model.items() if key != "client"}
        self.asks_ahead = model.get("client") == "harpe"
        self.begin("j", name="entrances", stages=STAGES, tensor=TENSOR, micro_batches=MICRO_BATCHES, plans=plans,
                   blocking_power_w=blocking, profile=self.profile.read_text(), **members, **more)
        self.wait_for_phase("running")

    def begin(self, job, **spec):
        """Registers a job and its ranks, with the clocks of the profile."""
        clocks = sorted({int(line.split(",")[2]) for line in self.profile.read_text().splitlines()
                         if line and line[0].isdigit()}, reverse=True)
        self.good("PUT", f"/v1/jobs/{job}", server_process.specification(**spec))
        for stage in range(STAGES):
            for tensor in range(TENSOR):
                self.good("POST", f"/v1/jobs/{job}/ranks", {"data": 0, "stage": stage, "tensor": tensor,
                                                            "session": f"s{stage}-{tensor}", "clocks_mhz": clocks,
                                                            "asks_ahead": self.asks_ahead})

    def wait_for(self, holds, seconds=240):
        """Plans are made with low priority, so other load on the machine delays them."""
        super().wait_for(holds, seconds)

    def wait_for_its_plan(self):
        self.wait_for(lambda: any(plan["for_objective"] for plan in self.good("GET", "/v1/jobs/j")["plans"]))

    def check(self, name, model, options, members):
        expected = self.planned_by_options(name, model, options)
        plan, proof = (expected / "plan.json").read_bytes(), (expected / "certificate.json").read_bytes()
        self.assertEqual((self.planned_by_file(name, model, options) / "plan.json").read_bytes(), plan)

        # Through the command, HTTP and Python.
        tell = {"command": lambda: self.harpe_does("job", "objective", "j", *options, "--server", f"http://{self.address}"),
                "http": lambda: self.good("PUT", "/v1/jobs/j/objective", members),
                "python": lambda: self.python.Server(f"http://{self.address}").job("j").set_objective(**members)}
        for who, say in tell.items():
            with self.subTest(objective=name, told=who):
                self.good("PUT", "/v1/jobs/j/objective", {"slowdown": 0.011})
                self.wait_for_its_plan()
                say()
                self.wait_for_its_plan()
                self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").body, plan)
                self.assertEqual(self.ask("GET", "/v1/jobs/j/certificate?pipeline=0").body, proof)
        out = self.folder / f"job-{name}"
        shown = self.harpe_does("job", "plan", "j", "--out", out, "--certificate", "--server", f"http://{self.address}")
        self.assertIn("against all-max", shown)
        self.assertEqual((out / "plan.json").read_bytes(), plan)
        self.harpe_does("verify", out / "plan.json", "--profile", out / "profile.csv", "--certificate",
                        out / "certificate.json")
        copy = self.folder / "copy.json"
        document = self.python.Server(f"http://{self.address}").job("j").plan(path=copy)
        self.assertEqual(copy.read_bytes(), plan)
        self.assertEqual(document, json.loads(plan))
        if "straggler" not in name:  # the power for one clock next to another is not known
            self.check_bill(model, options)
        return json.loads(plan)

    def check_bill(self, model, options):
        """Checks that plan, all-max and one clock cost the same in `harpe plan` and in the job."""
        keys = [word for key, value in model.items() for word in (f"--{key}", value)]
        terms = ("--price", "0.10 EUR/kWh", "--json")
        planned = json.loads(self.harpe_does("plan", "--profile", self.profile, "--micro-batches", MICRO_BATCHES,
                                             "--blocking-power", BLOCKING_W, "--gpus-per-stage", TENSOR, *keys,
                                             *options, *terms))["cluster"]
        job = json.loads(self.harpe_does("job", "show", "j", *terms, "--server", f"http://{self.address}"))["cluster"]
        def figures(bill):
            return bill, bill["saved"], bill["saved_against_one_clock"]

        for name, mine, other in zip(("plan", "all-max", "one clock"), figures(job), figures(planned)):
            with self.subTest(bill=name, objective=options):
                # No single clock is as fast as the fastest plan.
                self.assertEqual(mine is None, other is None)
                self.assertEqual(mine is None, (name, options[0], options[-1]) == ("one clock", "--slowdown", "0%"))
                if mine is not None:
                    self.assertAlmostEqual(mine["money"] / planned["money"], other["money"] / planned["money"], 6)
                    self.assertEqual(mine.get("frequency_mhz"), other.get("frequency_mhz"))

    def check_all(self, model, kinds=None):
        all_max = json.loads(self.harpe_does("plan", "--profile", self.profile, "--micro-batches", MICRO_BATCHES,
                                             "--blocking-power", BLOCKING_W, "--gpus-per-stage", TENSOR,
                                             *[word for key, value in model.items() for word in (f"--{key}", value)],
                                             "--json"))["plans"]["all_max"]
        time, watts = all_max["iteration_time_s"], all_max["average_power_w"]
        deadline, straggler, cap = round(time * 1.1, 3), round(time * 1.3, 3), round(watts * 0.85)
        plans = [self.check(name, model, options, members) for name, options, members in (
            ("fastest", ("--slowdown", "0%"), {"slowdown": 0}),
            ("slowdown", ("--slowdown", "5%"), {"slowdown": 0.05}),
            ("deadline", ("--deadline", f"{deadline}s"), {"deadline_s": deadline}),
            ("straggler-time", ("--straggler", f"{straggler}s"), {"straggler_s": straggler}),
            ("straggler-factor", ("--straggler", "1.2x"), {"straggler_factor": 1.2}),
            ("power-cap", ("--power-cap", f"{cap}W"), {"power_cap_w": cap}),
            ("least-energy", ("--least-energy",), {"least_energy": True})) if kinds is None or name in kinds]
        self.assertGreater(len({json.dumps(plan["instructions"]) for plan in plans}), len(plans) // 2, "objectives differ")

    def test_each_kind_of_objective(self):
        self.start()
        self.train({})
        self.check_all({})

    def test_with_loading_reducing_and_the_optimizer(self):
        self.start()
        self.train(MODEL)
        self.check_all(MODEL, ("slowdown", "straggler-factor", "power-cap"))

    def test_with_clocks_that_change_late(self):
        self.start()
        self.train(LATE, plans=1)  # each plan takes a search
        self.check("late", LATE, ("--slowdown", "5%"), {"slowdown": 0.05})

    def test_with_ranks_that_ask_for_clocks_ahead(self):
        self.start()
        model = {"switch-latency": 0.01, "client": "harpe"}
        self.train(model, plans=1)
        self.check("ahead", model, ("--slowdown", "5%"), {"slowdown": 0.05})
        proof = json.loads((self.folder / "options-ahead" / "certificate.json").read_text())
        self.assertEqual(proof["latency"], [[0, 0.003]])

    def test_with_a_blocking_power_for_each_stage(self):
        self.start()
        self.train({}, blocking=[83.64, 70, 90.5], objective={"slowdown": 0.05})
        self.wait_for_its_plan()
        expected = self.planned_by_options("blocking", {}, ("--slowdown", "5%"), "83.64,70,90.5")
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").body, (expected / "plan.json").read_bytes())

    def test_as_the_job_was_registered(self):
        self.start()
        self.train({}, objective={"slowdown": 0.05})
        self.wait_for_its_plan()
        expected = self.planned_by_options("registered", {}, ("--slowdown", "5%"))
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").body, (expected / "plan.json").read_bytes())

    def test_with_a_fitted_profile(self):
        self.start()
        self.train({}, fit=True, objective={"slowdown": 0.05})
        self.wait_for_its_plan()
        out = self.folder / "fitted"
        self.harpe_does("plan", "--profile", self.profile, "--micro-batches", MICRO_BATCHES, "--blocking-power", BLOCKING_W,
                        "--gpus-per-stage", TENSOR, "--job", "entrances", "--slowdown", "5%", "--fit", "--points", 0,
                        "--out", out)
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").body, (out / "plan.json").read_bytes())

    def test_nobody_waits_for_plans_of_a_job_that_has_ended(self):
        self.start()
        self.begin("j", name="entrances", stages=STAGES, tensor=TENSOR, micro_batches=64, blocking_power_w=BLOCKING_W,
                   profile=self.profile.read_text(), switch_latency_s=0.005)  # searches for long
        for stage in range(STAGES):
            for tensor in range(TENSOR):
                self.good("POST", "/v1/jobs/j/end", {"stage": stage, "tensor": tensor, "session": f"s{stage}-{tensor}"})
        ended = self.good("GET", "/v1/jobs/j")
        self.assertEqual((ended["activity"], ended["phase"]), ("ended", "characterizing"))
        shown = subprocess.run([self.harpe, "job", "plan", "j", "--server", f"http://{self.address}"], capture_output=True,
                               text=True, timeout=60)
        self.assertNotIn("waiting", shown.stderr)
        self.assertNotEqual(shown.returncode, 0)

    def test_there_is_no_plan_before_there_are_plans_nor_of_a_pipeline_that_is_none(self):
        self.start()
        self.good("PUT", "/v1/jobs/j", server_process.specification())
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").status, 404)
        ServerTest.begin(self)
        self.wait_for_phase("running")
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan").status, 200)
        self.assertEqual(self.ask("GET", "/v1/jobs/j/plan?pipeline=1").status, 404)
        self.assertEqual(self.ask("GET", "/v1/jobs/j/certificate?pipeline=x").status, 400)


if __name__ == "__main__":
    PYTHON = pathlib.Path(sys.argv[2])
    server_process.run(sys.argv[1])
