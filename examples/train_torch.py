#!/usr/bin/env python3
"""A pipeline written by hand over torch.distributed, with Harpe: 1F1B over gloo, on CPUs.

    examples/train_torch.py --data 2 --stages 2              # starts all ranks on this machine
    torchrun --nproc_per_node 4 examples/train_torch.py --data 2 --stages 2

What a training script adds for Harpe is marked "Harpe:"; server and job come from HARPE_SERVER and
HARPE_JOB, and without them training is what it was. Processes really exchange activations and
gradients, and the numbers are those of training without a pipeline (--check).

With HARPE_SIMULATION each computation also keeps a simulated GPU busy for as long as a real one
would be at its clock (docs/simulated-gpus.md): nothing of that is a measurement. On a machine
without a GPU, the profile of this training, in a minute:

    harpe profile measure --stop --clocks 6 --lowest-clock 800 --max-slowdown 100% \\
        --simulate examples/simulations/a100x4.toml -- \\
        python3 examples/train_torch.py --iterations 1000
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import harpe  # Harpe: the first line of three

# Harpe: how to measure the costs of computations at each clock. Training for days has time for the
# usual 24 clocks and 10 % of slowdown (docs/server.md); this example should have its plan in a
# minute.
PROFILING = {"slowdown_limit": 1.0, "most_clocks": 6, "lowest_clock_mhz": 800}

# Harpe: how long a GPU takes to change to a clock, as measured by `harpe switch-latency --table` on
# examples/simulations/a100x4.toml, where one GPU takes long to change to 1170 MHz. Without it, if
# computations are not much longer than that, plans promise times that no GPU achieves. A single
# number would apply to all clocks.
SWITCH_LATENCY_S = """frequency,latency
810,0.024
930,0.031
1050,0.023
1170,0.144
1290,0.024
1410,0.023
"""

WIDTH = 32
SAMPLES = 8  # per micro-batch


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=int, default=1, help="number of pipelines")
    parser.add_argument("--stages", type=int, default=2, help="stages, one process each")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.04,
        help="a forward of stage 0 on a simulated GPU at its highest clock (default: %(default)s)",
    )
    parser.add_argument("--job", help="JSON file with more members of the job, such as a profile")
    parser.add_argument("--checkpoint", help="folder to save checkpoints in and to continue from")
    parser.add_argument("--check", action="store_true", help="compare with training in one process")
    return parser.parse_args()


# --- The model -----------------------------------------------------------------------------------


def stage_module(stage):
    torch.manual_seed(1000 + stage)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())


def micro_batch(iteration, pipeline, number):
    generator = torch.Generator().manual_seed(iteration * 10007 + pipeline * 101 + number)
    return [torch.randn(SAMPLES, WIDTH, generator=generator) for _ in ("input", "target")]


def reference_losses(arguments):
    """Trains the same model in one process."""
    model = nn.Sequential(*[stage_module(stage) for stage in range(arguments.stages)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    count = arguments.data * arguments.micro_batches
    losses = []
    for iteration in range(arguments.iterations):
        total = 0.0
        for pipeline in range(arguments.data):
            for number in range(arguments.micro_batches):
                x, target = micro_batch(iteration, pipeline, number)
                loss = nn.functional.mse_loss(model(x), target) / count
                loss.backward()
                total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


# --- A simulated GPU ------------------------------------------------------------------------------


def simulation_module():
    """Loads the module next to the simulated libnvidia-ml.so.1: in a wheel, a build, or on
    PYTHONPATH."""
    package = pathlib.Path(harpe.__file__).parent
    beside = [package / "simulated_nvml", package.parents[1] / "sim" / "nvml"]
    sys.path += [str(folder) for folder in beside if (folder / "harpe_sim.py").exists()]
    import harpe_sim

    return harpe_sim


class SimulatedGpu:
    """Is busy for as long as a real GPU; does nothing without a simulation."""

    def __init__(self, gpu, seconds):
        self.gpu, self.seconds, self.run = gpu, seconds, None
        if os.environ.get("HARPE_SIMULATION"):
            self.run = simulation_module().run

    def compute(self, share):
        if self.run is not None:
            self.run(self.gpu, self.seconds * share, 0.2)


# --- The pipeline ---------------------------------------------------------------------------------


class Pipeline:
    """One stage of one pipeline."""

    def __init__(self, arguments, rank, client):
        self.client, self.micro_batches = client, arguments.micro_batches
        self.stages, self.stage = arguments.stages, rank % arguments.stages
        self.pipeline, self.pipelines = rank // arguments.stages, arguments.data
        self.previous = rank - 1 if self.stage > 0 else None
        self.next = rank + 1 if self.stage < self.stages - 1 else None
        self.module = stage_module(self.stage)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.05)
        # Later stages have less work: the plan uses this slack.
        share = 1.0 - 0.4 * self.stage / max(1, self.stages - 1)
        local = os.environ.get("HARPE_GPU") or os.environ.get("LOCAL_RANK", rank)
        self.gpu = SimulatedGpu(int(local), arguments.seconds * share)
        self.groups = [
            dist.new_group([p * self.stages + s for p in range(self.pipelines)])
            for s in range(self.stages)
        ]

    def forward(self, iteration, number):
        x, target = micro_batch(iteration, self.pipeline, number)
        if self.previous is not None:
            dist.recv(x, self.previous)
            x.requires_grad_()
        with self.client.forward(micro_batch=number):  # Harpe: the third line
            # self.client.label: how to run it, if the plan's profile has labels
            y = self.module(x)
            if self.next is None:
                y = nn.functional.mse_loss(y, target) / (self.micro_batches * self.pipelines)
                self.loss += y.item()
            self.gpu.compute(1.0)
        if self.next is not None:
            self.sent.append((dist.isend(y.detach(), self.next), y))
        self.held[number] = (x, y)

    def backward(self, number):
        x, y = self.held.pop(number)
        gradient = None
        if self.next is not None:
            gradient = torch.empty_like(y)
            dist.recv(gradient, self.next)
        with self.client.backward(micro_batch=number):  # Harpe: and again
            y.backward(gradient)
            self.gpu.compute(2.0)
        if self.previous is not None:
            self.sent.append((dist.isend(x.grad, self.previous), x))

    def iterate(self, iteration):
        """Runs 1F1B, then adds the gradients of all pipelines, then runs the optimizer. Returns the
        loss."""
        self.loss, self.held, self.sent = 0.0, {}, []
        with self.client.iteration(iteration):
            ahead = min(self.stages - 1 - self.stage, self.micro_batches)
            for k in range(self.micro_batches + ahead):
                if k < self.micro_batches:
                    self.forward(iteration, k)
                if k >= ahead:
                    self.backward(k - ahead)
            for work, _ in self.sent:
                work.wait()
            for parameter in self.module.parameters():
                dist.all_reduce(parameter.grad, group=self.groups[self.stage])
            self.optimizer.step()
            self.optimizer.zero_grad()
        loss = torch.tensor([self.loss])
        dist.all_reduce(loss)
        return loss.item()

    # --- Checkpoints, for training that is requested to pause ---

    def checkpoint(self, folder):
        return pathlib.Path(folder) / f"{self.pipeline}-{self.stage}.pt"

    def save(self, folder, iteration):
        """Saves a checkpoint. Collective: the files of all ranks belong together."""
        file = self.checkpoint(folder)
        state = {"iteration": iteration, "module": self.module.state_dict()}
        torch.save(state, file.with_suffix(".new"))
        dist.barrier()
        file.with_suffix(".new").replace(file)
        dist.barrier()

    def restore(self, folder):
        """Returns the iteration to continue with."""
        if not self.checkpoint(folder).exists():
            return 0
        state = torch.load(self.checkpoint(folder))
        self.module.load_state_dict(state["module"])
        return state["iteration"]


def train_from(pipeline, client, first, arguments):
    losses = []
    folder = arguments.checkpoint
    for iteration in range(first, arguments.iterations):
        # Harpe: all ranks are requested to pause before the same iteration; pausing is voluntary.
        if folder is not None and client.pause_requested(iteration):
            pipeline.save(folder, iteration)
            client.wait_for_resume()
        losses.append(pipeline.iterate(iteration))
    return losses


def train(arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if dist.get_world_size() != arguments.data * arguments.stages:
        sys.exit(f"{arguments.data} x {arguments.stages} needs as many processes")
    more = json.loads(pathlib.Path(arguments.job).read_text()) if arguments.job else {}
    # Harpe: the second line. RANK counts stages, then pipelines.
    client = harpe.start(
        schedule="1f1b",
        data=arguments.data,
        stages=arguments.stages,
        micro_batches=arguments.micro_batches,
        **{"profiling": PROFILING, "switch_latency_s": SWITCH_LATENCY_S, **more},
    )
    pipeline = Pipeline(arguments, rank, client)
    if rank == 0:
        print(f"training for {arguments.iterations} iterations", flush=True)
    begun = time.monotonic()
    first = pipeline.restore(arguments.checkpoint) if arguments.checkpoint else 0
    losses = train_from(pipeline, client, first, arguments)
    seconds = (time.monotonic() - begun) / max(1, len(losses))
    counts = client.counts()
    client.close()
    if rank == 0 and losses:
        print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}, {seconds:.3f} s an iteration in the mean")
        print(f"reported {counts.instructions} instructions, {counts.unexpected} out of order")
        if counts.version > 0:
            print("what plans have saved: harpe job list --all")
        if arguments.check:
            expected = reference_losses(arguments)[first:]
            worst = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
            print(f"without a pipeline the losses differ by at most {worst:.1e}")
            if worst > 1e-5 or counts.unexpected or counts.unknown:
                sys.exit("this is not the same training")
    dist.barrier()


def start_all(arguments):
    """Starts every rank as a process of this machine; the first failure, or a signal, ends them
    all."""
    # Not an exception, which could arrive after the start of a rank and before its process is in
    # the list.
    asked = []
    for end in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(end) is not signal.SIG_IGN:
            signal.signal(end, lambda number, _: asked.append(number))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = arguments.data * arguments.stages
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:]],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    while any(process.poll() is None for process in processes):
        if asked or any(process.poll() for process in processes):
            break
        time.sleep(0.05)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    for process in processes:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
    failed = max(process.wait() != 0 for process in processes)
    return 128 + asked[0] if asked else failed


def main():
    arguments = options()
    if "RANK" not in os.environ:
        sys.exit(start_all(arguments))
    train(arguments)


if __name__ == "__main__":
    main()
