"""A week of a training under torchrun: launched, restarted after a failure, launched again under
the same rendezvous id, and with other nodes. PyTorch's launcher, Harpe's client and server are the
real ones; what is trained is nothing, on simulated GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from end_to_end_test import COMMAND, INTERPRETER, SIMULATED_NVML, SIMULATION, House, profile, server

import harpe

__all__ = ["house", "server"]

pytestmark = pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")

RANK = textwrap.dedent("""
    import json, os, pathlib, sys, time
    import harpe

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    client = harpe.start(schedule="1f1b", stages=2, micro_batches=2, data=world // 2, gpu=rank,
                         profile=pathlib.Path("profile.csv").read_text(), blocking_power_w=80.0)
    end = time.monotonic() + 60
    while time.monotonic() < end and (not client.registered or client.counts().version == 0):
        with client.iteration():
            for micro_batch in range(2):
                with client.forward(micro_batch=micro_batch):
                    time.sleep(0.002)
                with client.backward(micro_batch=micro_batch):
                    time.sleep(0.002)
    with open(f"told.{rank}", "a") as told:
        governed = client.registered and client.counts().version > 0
        print(json.dumps({"attempt": attempt, "governed": governed, "world": world}), file=told)
    # All ranks wait for each other, and the first launch fails once.
    while len(list(pathlib.Path(".").glob("told.*"))) < world:
        time.sleep(0.05)
    os._exit(3 if attempt == 0 and pathlib.Path("fail").exists() and rank == 0 else 0)
""")


@pytest.fixture
def house(tmp_path: Path) -> Any:
    house = House(tmp_path)
    yield house
    house.close()


class Week:
    """Starts torchrun with one rendezvous id."""

    def __init__(self, folder: Path, url: str, package: Path) -> None:
        self.folder = folder
        (folder / "simulation.toml").write_text(SIMULATION.format(folder=folder))
        (folder / "profile.csv").write_text(profile())
        (folder / "rank.py").write_text(RANK)
        self.variables = {
            **os.environ,
            "HARPE_SERVER": url,
            "HARPE_CLOCK_SOCKET": "",
            "HARPE_SIMULATION": str(folder / "simulation.toml"),
            "LD_LIBRARY_PATH": SIMULATED_NVML,
            "PYTHONPATH": f"{package.parent}:{SIMULATED_NVML}",
        }

    def launch(self, processes: int, *, fails: bool = False) -> list[dict[str, Any]]:
        """Returns the reports of its ranks, of all attempts."""
        for old in self.folder.glob("told.*"):
            old.unlink()
        (self.folder / "fail").touch() if fails else (self.folder / "fail").unlink(missing_ok=True)
        command = [INTERPRETER, "-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
        command += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", "--rdzv_id", "week"]
        command += ["--max_restarts", "1", "--monitor_interval", "0.1"]
        # Other values fail with Python 3.11 in PyTorch 1.13.
        command += ["--redirects", "1", "--tee", "1", "--log_dir", "logs", "rank.py"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return [
            json.loads(line)
            for file in sorted(self.folder.glob("told.*"))
            for line in file.read_text().splitlines()
        ]


def test_whatever_torchrun_does_all_ranks_are_governed(
    house: House, server: harpe.Server, package: Path
) -> None:
    if subprocess.run([INTERPRETER, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{INTERPRETER} has no torch")
    week = Week(house.folder, server.url, package)
    job = server.job("week")
    # Launched, failed and restarted by torchrun.
    said = week.launch(2, fails=True)
    assert [one["governed"] for one in said] == [True] * 4, said
    assert {one["attempt"] for one in said} == {0, 1}
    life = job.status()["incarnation"]
    # Launched again: the first attempt has the same name as that of the previous launch.
    said = week.launch(2)
    assert [one["governed"] for one in said] == [True] * 2, said
    assert job.status()["incarnation"] == life
    house.wait("plans", lambda: job.status()["characterization"] is None)
    plans = server.ask("GET", "/v1/jobs/week/plans")
    # More ranks, and back.
    for processes in (4, 2):
        said = week.launch(processes)
        assert [one["governed"] for one in said] == [True] * processes, said
        status = job.status()
        assert (status["data"], status["ranks_registered"]) == (processes // 2, processes)
        assert server.ask("GET", "/v1/jobs/week/plans") == plans
        assert status["refused"] == []
