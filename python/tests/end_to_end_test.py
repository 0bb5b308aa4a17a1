"""Training with PyTorch, from its first iteration to a straggler and back: examples/train_torch.py
with ``harpe serve`` and an agent on simulated GPUs, all of them real processes that talk over real
sockets. Only the GPUs are simulated. And the client of the server, against the server itself."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harpe

ROOT = Path(__file__).resolve().parents[2]
# PyTorch from Debian's package, for Debian's interpreter.
INTERPRETER = os.environ.get("HARPE_TORCH_PYTHON", "/usr/bin/python3")
COMMAND = os.environ.get("HARPE_COMMAND", "")
SIMULATED_NVML = os.environ.get("HARPE_SIMULATED_NVML", "")
DATA, STAGES, MICRO_BATCHES, ITERATIONS = 2, 2, 2, 150
SIMULATION = """state_file = "{folder}/gpus"
[[gpu]]
model = "a100-sxm"
count = 4
call_ms = 1
switch_ms = 5
"""
POLICY = """[[allow]]
users = ["*"]
gpus = ["*"]
read = true
clocks_mhz = [210, 1410]
"""
# MHz, slowdown and relative energy of the first stage; the second has 0.6 of its work.
OPERATING_POINTS = [(1410, 1.0, 1.0), (1110, 1.1, 0.8), (810, 1.35, 0.75)]

pytestmark = pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")


@pytest.fixture(scope="module")
def torch() -> None:
    if subprocess.run([INTERPRETER, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{INTERPRETER} has no torch")


def profile() -> str:
    lines = ["stage,instruction,frequency,time,energy"]
    for stage in range(STAGES):
        for instruction, seconds in (("forward", 0.02), ("backward", 0.04)):
            share = seconds * (1 - 0.4 * stage)
            for clock, slower, cheaper in OPERATING_POINTS:
                time_s, energy_j = share * slower, 300 * share * cheaper
                lines.append(f"{stage},{instruction},{clock},{time_s},{energy_j}")
    return "\n".join(lines) + "\n"


SPEC = {
    "data": DATA,
    "stages": STAGES,
    "schedule": "1f1b",
    "micro_batches": MICRO_BATCHES,
    "blocking_power_w": 80.0,
}


class House:
    """The server, the agent, and other processes; ended with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *command: Any, **variables: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
            )
        self.processes.append((name, process))
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")

    def wait(self, what: str, holds: Callable[[], Any], seconds: float = 120) -> Any:
        end = time.monotonic() + seconds
        while not (found := holds()):
            for name, process in self.processes:
                assert process.poll() in (None, 0), f"{name} ended: {self.said(name)[-3000:]}"
            assert time.monotonic() < end, f"{what} did not come true"
            time.sleep(0.05)
        return found

    def close(self) -> None:
        for _, process in reversed(self.processes):
            process.terminate()
        for _, process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


@pytest.fixture
def server(house: House) -> harpe.Server:
    house.start("server", COMMAND, "serve", "--tcp", "127.0.0.1:0", "--store", "none")
    found = house.wait(
        "listening",
        lambda: re.search(r"listening on http://([\d.]+:\d+)", house.said("server")),
        30,
    )
    return harpe.Server(found.group(1))


def next_plan(events: harpe.server.Events, holds: Callable[[list[int]], bool]) -> list[int]:
    """Returns the clocks of the first plan for which `holds` is true. On a busy machine stages take
    longer for a while, and all run at all-max until new plans are made."""
    for event in events:
        if event.kind != "assignments":
            continue
        newest = event.data["assignments"][-1]
        if newest["purpose"] == "plan" and holds(newest["clocks_mhz"]):
            return list(newest["clocks_mhz"])
    raise AssertionError("the events have ended")


def has_best_plan(job: harpe.Job) -> bool:
    """Returns whether the best plan runs. Quick plans run first, and better ones change
    assignments."""
    status = job.status()
    return status["phase"] == "running" and status["characterization"] is None


def iterations_of(job: harpe.Job) -> int:
    """Returns the number of iterations that the server has received."""
    try:
        return int(job.status()["newest_iteration"] or 0)
    except harpe.NotFoundError:
        return 0


def test_the_server_responds_to_its_client(server: harpe.Server) -> None:
    assert server.health()
    assert "harpe_" in server.metrics()
    assert server.jobs() == []
    job = server.job("gpt3")
    with pytest.raises(harpe.NotFoundError):
        job.status()
    assert job.register({**SPEC, "profile": profile()})["ranks"] == DATA * STAGES
    assert job.register({**SPEC, "profile": profile()})["ranks"] == DATA * STAGES
    # No rank has registered yet: the latest specification of the job applies.
    assert job.register({**SPEC, "data": 3})["ranks"] == 3 * STAGES
    assert job.register({**SPEC, "profile": profile()})["ranks"] == DATA * STAGES
    with pytest.raises(harpe.InvalidInputError, match="schedule"):
        server.job("other").register({"schedule": "2f2b", "micro_batches": 2})
    assert [one["id"] for one in server.jobs()] == ["gpt3"]
    assert job.status()["phase"] == "registering"
    job.set_objective(slowdown=0.05)
    assert job.status()["objective"]["slowdown"] == 0.05
    with pytest.raises(harpe.InvalidInputError):
        job.straggler(0, 0.5)
    with pytest.raises(harpe.Error):
        job.straggler(7, 1.2)
    with job.events(data=0, stage=0) as events:
        assert next(iter(events)).kind in ("assignments", "phase")
    assert isinstance(job.log(), list)
    job.remove()
    with pytest.raises(harpe.NotFoundError):
        job.status()


def test_a_job_that_recurs_finds_its_batch_size(server: harpe.Server) -> None:
    job = server.recurring_job("nightly run/1")
    spec = {"batch_sizes": [16, 32, 64], "default_batch_size": 32, "target_metric": 0.9}
    job.register(spec, eta_knob=1, max_power=300, number_of_gpus=1, gpu_model="A40", mab_seed=1)
    with pytest.raises(harpe.ConflictError, match="other parameters"):
        job.register(spec, eta_knob=0, max_power=300, number_of_gpus=1, gpu_model="A40")
    joules = {16: 60.0, 32: 100.0, 64: 130.0}
    with pytest.raises(KeyboardInterrupt), job.next() as trial:
        raise KeyboardInterrupt  # explores its batch size again, at once
    assert server.ask("GET", "/v1/recurring-jobs")["jobs"][0]["running"] == 0
    sizes = []
    for _ in range(12):
        with job.next() as trial:
            sizes.append(trial.batch_size)
            assert not trial.report(1, 1, 1, math.nan).stop
            verdict = trial.report(2, 2, joules[trial.batch_size], 0.95)
            assert verdict.stop
            assert verdict.cost == joules[trial.batch_size]
    assert sizes[0] == 32
    assert sizes[-3:] == [16, 16, 16]
    assert job.status()["cheapest"]["batch_size"] == 16
    assert job.trial(trial.number).stopped
    assert trial.report(3, 3, 200, 0.95).reason == "reported"
    assert "abandoned" in " ".join(event["text"] for event in job.log())
    job.remove()
    with pytest.raises(harpe.NotFoundError):
        job.next()


def with_an_agent(house: House, server: harpe.Server, package: Path) -> dict[str, str]:
    """Returns variables of ranks on simulated GPUs whose clocks an agent sets."""
    folder = house.folder
    (folder / "simulation.toml").write_text(SIMULATION.format(folder=folder))
    policy = folder / "policy.toml"
    policy.write_text(POLICY)
    policy.chmod(0o600)
    agent = ["--policy", policy, "--simulate", folder / "simulation.toml", "--minimum-dwell", "1ms"]
    sockets = ["--socket", folder / "agent.sock", "--clock-socket", folder / "clock.sock"]
    house.start("agent", COMMAND, "agent", *agent, *sockets, "--log", folder / "agent-log")
    house.wait("the agent", (folder / "clock.sock").exists)
    return {
        "HARPE_SERVER": server.url,
        "HARPE_JOB": "train",
        "HARPE_CLOCK_SOCKET": str(folder / "clock.sock"),
        "HARPE_SIMULATION": str(folder / "simulation.toml"),
        "PYTHONPATH": f"{package.parent}:{SIMULATED_NVML}",
    }


@pytest.mark.usefixtures("torch")
def test_training_follows_plans_and_stragglers_and_stays_the_same(
    house: House, server: harpe.Server, package: Path
) -> None:
    folder = house.folder
    variables = with_an_agent(house, server, package)
    job = server.job("train")
    (folder / "job.json").write_text(
        json.dumps(
            {
                "profile": profile(),
                "blocking_power_w": SPEC["blocking_power_w"],
                "plans": 20,
                "switch_latency_s": 0,
            }
        )
    )
    example = [INTERPRETER, ROOT / "examples" / "train_torch.py", "--check"]
    sizes = ["--data", DATA, "--stages", STAGES, "--micro-batches", MICRO_BATCHES]
    more = ["--job", folder / "job.json", "--iterations", ITERATIONS, "--seconds", 0.02]
    training = house.start("training", *example, *sizes, *more, **variables)

    house.wait("iterations by a plan", lambda: iterations_of(job) > 10)
    house.wait("the best plan in force", lambda: has_best_plan(job))
    assert job.status()["ranks_registered"] == DATA * STAGES
    with job.events(data=0, stage=STAGES - 1) as events:
        # The last stage has less work: it is slowed down even without a straggler, and more with
        # one.
        normal = next_plan(events, lambda clocks: min(clocks) < 1410)
        job.straggler(1, 1.5)
        next_plan(events, lambda clocks: sum(clocks) < sum(normal))
        assert house.wait("straggling", lambda: job.status()["phase"] == "straggling")
        job.healed(1)
        assert house.wait("recovery", lambda: job.status()["phase"] == "running")

    assert training.wait(240) == 0, house.said("training")
    said = house.said("training")
    instructions = ITERATIONS * 2 * MICRO_BATCHES
    assert f"reported {instructions} instructions, 0 out of order" in said
    assert "the losses differ by at most" in said
    assert "goes on" not in said


@pytest.mark.usefixtures("torch")
def test_the_example_as_it_stands_is_profiled_and_reaches_its_plan(
    house: House, server: harpe.Server, package: Path
) -> None:
    """Uses the example's defaults, and finds the simulated GPUs next to the package."""
    variables = with_an_agent(house, server, package)
    job = server.job("train")
    variables["PYTHONPATH"] = str(package.parent)
    training = house.start(
        "training", INTERPRETER, ROOT / "examples" / "train_torch.py", **variables
    )
    house.wait("iterations", lambda: iterations_of(job) > 0)
    house.wait("a plan", lambda: any("plans are ready" in event["text"] for event in job.log()))
    # Well before the last of its 150 iterations, so that some run by the plan.
    assert iterations_of(job) < 130
    assert training.poll() is None


def counted_by(socket: Path, counter: str) -> float:
    """Returns a counter of the agent's metrics."""
    command = ["curl", "--silent", "--unix-socket", str(socket), "http://agent/metrics"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^harpe_agent_{counter} (\S+)$", page, re.M)
    assert found, page
    return float(found.group(1))


@pytest.mark.usefixtures("torch")
def test_training_that_is_only_observed_is_measured_and_nothing_is_set(
    house: House, server: harpe.Server, package: Path
) -> None:
    """An agent is available that would set clocks."""
    folder = house.folder
    variables = with_an_agent(house, server, package)
    variables["HARPE_OBSERVE"] = "1"
    (folder / "job.json").write_text(json.dumps({"switch_latency_s": 0}))
    example = [INTERPRETER, ROOT / "examples" / "train_torch.py", "--iterations", 60]
    sizes = ["--data", DATA, "--stages", STAGES, "--micro-batches", MICRO_BATCHES]
    more = ["--job", folder / "job.json", "--seconds", 0.02]
    training = house.start("training", *example, *sizes, *more, **variables)
    job = server.job("train")

    def observed() -> dict[str, Any]:
        try:
            status = job.status()
        except harpe.NotFoundError:
            return {}
        return status["observed"] if status["phase"] == "observing" else {}

    house.wait("an estimate", lambda: observed().get("estimated_saving_percent"))
    least, most = observed()["estimated_saving_percent"]
    assert 0 <= least < most < 40
    assert observed()["estimated_by"] == "model of a100-sxm"
    with pytest.raises(harpe.InvalidInputError, match="only observed"):
        job.straggler(1, 1.5)
    assert training.wait(240) == 0, house.said("training")

    status = job.status()
    assert (status["version"], status["plans"], status["saved_j"]) == (0, [], 0)
    last = status["observed"]
    assert last["iterations"] > 40
    assert last["longest_stage"] == 0  # the last stage has less work
    for stage in last["stages"]:
        whole = stage["work_s"] + stage["waiting_s"]
        assert whole == pytest.approx(last["iteration_time_s"])
        assert 0 < stage["work_s"] < whole
        assert 20 < stage["waiting_power_w"] < 200
        # On a busy machine a computation may begin before its simulated GPU is busy.
        assert 210 <= stage["clock_mhz"] <= 1410
    shown = subprocess.run(
        [COMMAND, "job", "show", "train", "--server", server.url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "no clock is set" in shown
    assert re.search(r"stage 0 +works .* waits .* the longest", shown), shown
    assert re.search(r"would save +\d+ to \d+ % .* an estimate \(model of a100-sxm\)", shown), shown
    for counter in ("leases_taken_total", "settings_applied_total", "clock_commands_total"):
        assert counted_by(folder / "agent.sock", counter) == 0
    assert "clocks cannot be set" not in house.said("training")


def without_an_agent(house: House, server: harpe.Server, package: Path) -> dict[str, str]:
    """Returns variables of ranks on simulated GPUs."""
    simulation = house.folder / "simulation.toml"
    simulation.write_text(SIMULATION.format(folder=house.folder))
    return {
        "HARPE_SERVER": server.url,
        "HARPE_JOB": "train",
        "HARPE_CLOCK_SOCKET": "",
        "HARPE_SIMULATION": str(simulation),
        "PYTHONPATH": f"{package.parent}:{SIMULATED_NVML}",
    }


@pytest.mark.usefixtures("torch")
def test_training_goes_on_when_the_server_is_killed(
    house: House, server: harpe.Server, package: Path
) -> None:
    variables = without_an_agent(house, server, package)
    example = [INTERPRETER, ROOT / "examples" / "train_torch.py", "--check", "--seconds", 0.002]
    training = house.start("training", *example, "--iterations", 400, **variables)
    job = server.job("train")

    house.wait("training", lambda: iterations_of(job) > 5)
    name, process = house.processes.pop(0)
    assert name == "server"
    process.kill()
    process.wait()
    assert training.wait(240) == 0, house.said("training")
    said = house.said("training")
    assert "reported 3200 instructions, 0 out of order" in said
    # Each of the two ranks prints it once.
    assert 1 <= said.count("training continues") <= 2


@pytest.mark.usefixtures("torch")
def test_training_pauses_when_it_is_asked_to_and_stays_the_same(
    house: House, server: harpe.Server, package: Path
) -> None:
    variables = without_an_agent(house, server, package)
    saved = house.folder / "saved"
    saved.mkdir()
    example = [INTERPRETER, ROOT / "examples" / "train_torch.py", "--check", "--seconds", 0.002]
    training = house.start(
        "training", *example, "--iterations", 600, "--checkpoint", saved, **variables
    )
    job = server.job("train")
    house.wait("training", lambda: iterations_of(job) > 5)
    assert job.pause() is None
    job.set_pace(pause=True, resumes=time.time() + 3600, why="412 g/kWh")

    def waiting() -> int:
        return int((job.pause() or {"ranks_waiting": 0})["ranks_waiting"])

    house.wait("all ranks waiting", lambda: waiting() == 2)
    pause = job.pause()
    assert pause is not None
    assert pause["state"] == "paused"
    assert (pause["why"], pause["ended"]) == ("412 g/kWh", False)
    assert sorted(file.name for file in saved.iterdir()) == ["0-0.pt", "0-1.pt"]
    assert iterations_of(job) == pause["from_iteration"] - 1
    asking = house.start(
        "wait", COMMAND, "job", "wait", "train", "--server", server.url, "--every", "50ms"
    )
    house.wait("the command", lambda: "train: 2 ranks wait, since " in house.said("wait"))
    assert asking.poll() is None
    job.set_pace()
    assert asking.wait(30) == 0
    assert "train can continue" in house.said("wait")
    assert training.wait(240) == 0, house.said("training")
    assert "reported 4800 instructions, 0 out of order" in house.said("training")
    assert job.pause() is None
    assert job.status()["stragglers"] == []


def children(parent: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended in the meantime
            if int(file.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(file.parent.name))
    return found


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_what_started_the_ranks_ends_them_too(
    house: House, package: Path, torch: None, ends: signal.Signals
) -> None:
    path = f"{package.parent}:{SIMULATED_NVML}"
    example = [INTERPRETER, ROOT / "examples" / "train_torch.py", "--iterations", 1_000_000]
    training = house.start("training", *example, PYTHONPATH=path, HARPE_SERVER="")
    ranks = house.wait("ranks", lambda: len(found := children(training.pid)) == STAGES and found)
    training.send_signal(ends)
    assert training.wait(60) == 128 + ends, house.said("training")
    assert [rank for rank in ranks if Path(f"/proc/{rank}").exists()] == []
