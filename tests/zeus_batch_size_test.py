#!/usr/bin/env python3
"""Zeus's batch size optimizer client, as it is on PyPI, trains against `harpe serve` on a simulated GPU, recurrence after
recurrence, and is led to the batch size that costs least. Usage: zeus_batch_size_test.py HARPE FOLDER_OF_NVML_LIBRARY
VENV"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import server_process
from server_process import ServerTest

LIBRARY, VENV = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
PYTHON = VENV / "bin" / "python"
if not PYTHON.exists():
    print(f"{PYTHON} is missing: run scripts/install-dependencies.sh")
    sys.exit(77)
STAND_IN = pathlib.Path(__file__).resolve().parent / "torch_stand_in"

# One training of a job: epochs of equal duration, whose number depends on the batch size.
TRAINING = textwrap.dedent("""
    import json, os, signal, sys, time
    from zeus.monitor import ZeusMonitor
    from zeus.optimizer.batch_size import BatchSizeOptimizer, JobSpec
    from zeus.optimizer.batch_size.exceptions import ZeusBSOTrainFailError

    EPOCHS = {8: 6, 16: 4, 32: 1}

    def main():
        monitor = ZeusMonitor(gpu_indices=[0], approx_instant_energy=True)
        job = JobSpec(job_id=sys.argv[2] or None, job_id_prefix="mnist", default_batch_size=16, batch_sizes=[8, 16, 32],
                      max_epochs=20, target_metric=0.9, num_pruning_rounds=1, mab_num_explorations=1, mab_seed=1)
        optimizer = BatchSizeOptimizer(monitor, sys.argv[1], job)
        size = optimizer.get_batch_size()
        if sys.argv[3] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.on_train_begin()
        result = "converged"
        epoch = 0
        try:
            while not optimizer.training_finished:
                epoch += 1
                time.sleep(0.15)
                optimizer.on_evaluate(0.95 if epoch >= EPOCHS[size] else 0.1)
        except ZeusBSOTrainFailError:
            result = "stopped"
        print(json.dumps({"job": optimizer.job.job_id, "size": size, "epochs": epoch, "result": result}))

    if __name__ == "__main__":
        main()
""")


class ZeusBatchSize(ServerTest):
    def setUp(self):
        super().setUp()
        simulation = self.folder / "simulation.toml"
        simulation.write_text(f'state_file = "{self.folder}/state"\n[[gpu]]\nmodel = "a40"\n')
        self.script = self.folder / "training.py"
        self.script.write_text(TRAINING)
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY), "PYTHONPATH": f"{STAND_IN}:{LIBRARY}",
                            "HARPE_SIMULATION": str(simulation)}

    def train(self, job="", how=""):
        done = subprocess.run([PYTHON, self.script, f"http://{self.address}", job, how], text=True, capture_output=True,
                              env=self.environment, timeout=120)
        if how == "killed":
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_a_recurring_job_is_led_to_the_cheapest_batch_size(self):
        self.start()
        first = self.train()
        self.assertRegex(first["job"], "^mnist-[0-9a-f]{8}$")
        self.assertEqual((first["size"], first["epochs"], first["result"]), (16, 4, "converged"))
        job = first["job"]
        trainings = [self.train(job) for _ in range(4)]
        self.assertEqual([one["size"] for one in trainings], [8, 32, 32, 32])
        self.assertEqual([one["epochs"] for one in trainings[1:]], [1, 1, 1])
        status = self.good("GET", f"/v1/recurring-jobs/{job}")
        self.assertEqual(status["cheapest"]["batch_size"], 32)
        self.assertEqual(status["job"]["gpu_model"], "NVIDIA A40")
        self.assertEqual(status["job"]["max_power"], 300)

    def test_a_training_that_is_killed_and_a_server_that_is_cost_no_more_than_a_retry(self):
        self.start()
        job = self.train()["job"]
        self.train(job, "killed")
        # Until its lease has expired, other trials get the cheapest size so far.
        self.assertEqual(self.train(job)["size"], 16)
        self.kill()
        self.start()
        status = self.good("GET", f"/v1/recurring-jobs/{job}")
        self.assertEqual([trial["status"] for trial in status["trials"]], ["succeeded", "dispatched", "succeeded"])
        retracted = subprocess.run([self.harpe, "batch-size", "retract", job, "2", "--server", f"http://{self.address}"],
                                   text=True, capture_output=True, timeout=60)
        self.assertEqual((retracted.returncode, retracted.stdout), (0, "trial 2 is retracted\n"), retracted.stderr)
        self.assertEqual(self.train(job)["size"], 8)


if __name__ == "__main__":
    server_process.run(sys.argv[1])
