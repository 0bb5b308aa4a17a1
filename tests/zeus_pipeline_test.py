#!/usr/bin/env python3
"""Zeus's pipeline frequency client, as it is on PyPI, trains on simulated GPUs and gets our plan's clocks: from
`harpe serve`, and from Zeus's own server with the file that `harpe plan` writes.
Usage: zeus_pipeline_test.py HARPE FOLDER_OF_NVML_LIBRARY VENV"""

import ast
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import textwrap
import time

import server_process
from server_process import PROFILE, ServerTest

LIBRARY, VENV = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
PYTHON = VENV / "bin" / "python"
if not PYTHON.exists():
    print(f"{PYTHON} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)
STAND_IN = pathlib.Path(__file__).resolve().parent / "torch_stand_in"
RECIPE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "other-programs.md"

# One rank: a pipeline's list of instructions. Records the GPU's clock while each one runs.
RANK = textwrap.dedent("""
    import json, os, sys, time
    import pynvml
    from zeus.optimizer.pipeline_frequency.optimizer import PipelineFrequencyOptimizer

    def clock(handle):
        return pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)

    def late(ask):
        # Asks for the schedule once it may.
        def wait(self):
            while not os.path.exists(os.environ["HARPE_TEST_ASK"]):
                time.sleep(0.01)
            return ask(self)
        return wait

    def main():
        rank = int(os.environ["RANK"])
        data = int(os.environ.get("HARPE_TEST_DATA", "1"))
        if rank == 1 and os.environ.get("HARPE_TEST_ASK"):
            PipelineFrequencyOptimizer._get_frequency_schedule = late(
                PipelineFrequencyOptimizer._get_frequency_schedule)
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(rank)
        optimizer = PipelineFrequencyOptimizer(
            rank=rank, dp_rank=rank // 2, pp_rank=rank % 2, tp_rank=0, device_id=rank, dp_degree=data, pp_degree=2,
            tp_degree=1, world_size=2 * data, server_url=sys.argv[1], job_metadata=sys.argv[2] or None)
        plan = [tuple(item) for item in optimizer.freq_schedule]
        seen = []
        for step in range(2):
            optimizer.on_step_begin()
            for name, wanted in plan:
                optimizer.on_instruction_begin(name)
                end = time.monotonic() + 20
                while clock(handle) != wanted and time.monotonic() < end:
                    time.sleep(0.01)
                seen.append(clock(handle))
                optimizer.on_instruction_end(name)
            optimizer.on_step_end()
        optimizer.frequency_controller.end()
        print(json.dumps({"plan": plan, "seen": seen}))

    if __name__ == "__main__":
        main()
""")


class Training(ServerTest):
    def train(self, metadata):
        """Runs both ranks. Returns their assignments and the clocks of their GPUs."""
        return self.finish(self.launch(metadata))

    def launch(self, metadata, ranks=2, **variables):
        simulation = self.folder / "simulation.toml"
        simulation.write_text(f'state_file = "{self.folder}/state"\n[[gpu]]\nmodel = "a40"\ncount = {ranks}\n')
        script = self.folder / "rank.py"
        script.write_text(RANK)
        broadcast = self.folder / f"broadcast{self.trainings}"
        self.trainings += 1
        environment = {**os.environ, **variables, "LD_LIBRARY_PATH": str(LIBRARY), "HARPE_SIMULATION": str(simulation),
                       "PYTHONPATH": f"{STAND_IN}:{LIBRARY}", "HARPE_TEST_BROADCAST": str(broadcast)}
        return [subprocess.Popen([PYTHON, script, f"http://{self.address}", metadata], text=True,
                                 env={**environment, "RANK": str(rank)},
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(ranks)]

    def finish(self, ranks):
        told = []
        for rank in ranks:
            out, err = rank.communicate(timeout=240)
            told.append(json.loads(out) if rank.returncode == 0 else err)
        return told

    def setUp(self):
        super().setUp()
        self.trainings = 0

    def check(self, told):
        for rank in told:
            self.assertIsInstance(rank, dict, rank)
            self.assertEqual(rank["seen"], [clock for _, clock in rank["plan"]] * 2)
        names = [[name for name, _ in rank["plan"]] for rank in told]
        self.assertEqual(names, [["forward"] * 2 + ["backward", "forward"] * 2 + ["backward"] * 2,
                                 ["forward", "backward"] * 4] * (len(told) // 2))
        # There are savings: not all clocks are the highest.
        self.assertLess(min(clock for rank in told for _, clock in rank["plan"]), 1740)


class HarpesServer(Training):
    def test_a_job_of_this_server_is_named(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3-run7", server_process.specification(objective={"slowdown": 0.1}))
        self.check(self.train("gpt3-run7"))
        # It follows the first plan; a better one may exist by now.
        self.wait_for(lambda: self.good("GET", "/v1/jobs/gpt3-run7")["characterization"] is None)
        # Training starts again: the new ranks take the places of the old ones.
        told = self.train("gpt3-run7")
        self.check(told)
        for stage, rank in enumerate(told):
            assignments = self.good("GET", f"/v1/jobs/gpt3-run7/assignments?data=0&stage={stage}")["assignments"][-1]
            self.assertEqual(assignments["purpose"], "plan")
            self.assertEqual([clock for _, clock in rank["plan"]], assignments["clocks_mhz"])

    def test_a_job_comes_in_the_metadata(self):
        self.start()
        told = self.train(json.dumps({"schedule": "1f1b", "micro_batches": 4, "profile": PROFILE,
                                      "blocking_power_w": 80, "objective": {"slowdown": 0.1}}))
        self.assertIsInstance(told[0], dict, told[0])
        [job] = self.good("GET", "/v1/jobs")["jobs"]
        self.assertRegex(job["id"], r"^\d{4}(-\d\d){5}\+dp1\+pp2\+tp1\+PointSolution$")
        self.check(told)

    def unanswered(self):
        """Returns the number of requests without a response, excluding this one."""
        counts = [line.rsplit(" ", 1) for line in self.ask("GET", "/metrics").body.decode().splitlines()]
        asked = sum(float(count) for name, count in counts if name == "harpe_server_http_requests_total")
        return asked - sum(float(count) for name, count in counts if "http_responses_total{" in name) - 1

    def test_no_rank_hangs_where_the_server_is_killed_while_they_wait(self):
        self.start()
        self.good("PUT", "/v1/jobs/gpt3", server_process.specification())
        may_ask = self.folder / "may ask"
        ranks = self.launch("gpt3", HARPE_TEST_ASK=str(may_ask))
        self.wait_for(lambda: self.good("GET", "/v1/jobs/gpt3")["ranks_registered"] == 2)
        # The response to a registration is also pending for a moment; only rank 0's schedule stays unanswered.
        self.wait_for(lambda: all(self.unanswered() == 1 and time.sleep(0.1) is None for _ in range(10)))
        self.kill()
        # The rank that waited ends, and will never ask again.
        self.assertNotEqual(ranks[0].wait(60), 0)
        self.start("--test-schedule-patience", "1s", tcp=self.address)
        may_ask.touch()
        told = self.finish(ranks)
        # Closed, or reset if some data had not been read yet.
        self.assertRegex(told[0], "RemoteProtocolError|ReadError")
        self.assertIn("503", told[1])
        self.assertIn("other ranks have not requested their schedule for 1 s: 0.", told[1])
        # Started again, it trains, with the usual patience for ranks on busy machines.
        self.stop()
        self.start(tcp=self.address)
        self.check(self.train("gpt3"))

    def test_without_either_the_client_is_told_what_to_give(self):
        self.start()
        for error in self.train("just some words"):
            self.assertIn("400", error)
            self.assertIn("job_metadata must name the plan to use", error)


class ZeussServer(Training):
    """Follows the steps of the documentation."""

    def serve(self, scheduler):
        """Runs the command of the page on a free port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        [command] = re.findall(r"^```sh\n(ZEUS_PFO_SCHEDULER=.*?)^```", RECIPE.read_text(), re.M | re.S)
        for of_page, here in (("=PointSolution ", f"={scheduler} "), ("~/venv/zeus/bin/", f"exec {VENV}/bin/"),
                              ("0.0.0.0", "127.0.0.1"), ("7787", self.address.rpartition(":")[2])):
            self.assertIn(of_page, command)
            command = command.replace(of_page, here)
        self.server = subprocess.Popen(["bash", "-c", command], cwd=self.folder, text=True, stderr=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL,
                                       env={**os.environ, "PYTHONPATH": str(STAND_IN), "ZEUS_PFO_LOG_LEVEL": "INFO"})
        self.addCleanup(self.stop)
        said = ""
        while "Uvicorn running on" not in said:
            line = self.server.stderr.readline()
            self.assertTrue(line, "the server did not start: " + said)
            said += line

    def plan(self):
        """Returns what `harpe plan` writes for Zeus: a list of clocks for each stage."""
        (self.folder / "profile.csv").write_text(PROFILE)
        subprocess.run([self.harpe, "plan", "--profile", self.folder / "profile.csv", "--micro-batches", "4",
                        "--blocking-power", "80", "--slowdown", "10", "--points", "0", "--out", self.folder / "plan"],
                       check=True, stdout=subprocess.DEVNULL)
        return ast.literal_eval((self.folder / "plan" / "freqs_pipeline_00000.py").read_text())

    def check_clocks(self, told, plan):
        self.check(told)
        self.assertEqual([[tuple(item) for item in rank["plan"]] for rank in told], plan)

    def test_each_rank_runs_the_list_of_its_stage(self):
        plan = self.plan()
        self.serve("PointSolution")
        self.check_clocks(self.train(""), plan)

    def test_each_pipeline_runs_the_same_lists(self):
        plan = self.plan()
        self.serve("PointSolution3D")
        self.check_clocks(self.finish(self.launch("", ranks=4, HARPE_TEST_DATA="2")), plan * 2)

    def test_more_ranks_than_stages_need_the_other_scheduler(self):
        self.plan()
        self.serve("PointSolution")
        for error in self.finish(self.launch("", ranks=4, HARPE_TEST_DATA="2")):
            self.assertIn("Solution file assumes 2 ranks, but the job has 4 ranks", error)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
