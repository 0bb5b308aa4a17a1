#!/usr/bin/env python3
"""A small training with PyTorch whose clock or power limit is found while it runs, in three ways:

    examples/train_power_limit.py --optimizer harpe             # harpe.PowerOptimizer, a callback
    harpe run --optimize energy --max-slowdown 3% -- examples/train_power_limit.py --optimizer steps
    examples/train_power_limit.py --optimizer zeus              # Zeus's own, through Harpe's agent
    torchrun --nproc_per_node 2 examples/train_power_limit.py --optimizer harpe

The computation is the same in all of them, and the loss to the last digit. Without a GPU it is on the
CPU; with HARPE_SIMULATION each step also keeps a simulated GPU busy for as long as a real one would be
at its clock (docs/simulated-gpus.md): nothing of that is a measurement. The line of JSON at the end
has the time and, of a simulated GPU, the joules that it really used.
"""

import argparse
import contextlib
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

FEATURES, CLASSES, BATCH = 64, 10, 256


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--optimizer", choices=["none", "harpe", "steps", "zeus"], default="none")
    parser.add_argument("--optimize", default="energy", help="energy, time or cost (default: %(default)s)")
    parser.add_argument("--max-slowdown", type=float, default=0.03)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.08,
        help="time of a step on a simulated GPU at its highest clock (default: %(default)s)",
    )
    return parser.parse_args()


def optimizer_of(arguments):
    """Returns the object that is notified of steps and epochs."""
    if arguments.optimizer == "harpe":
        import harpe

        return harpe.PowerOptimizer(arguments.optimize, max_slowdown=arguments.max_slowdown)
    if arguments.optimizer == "steps":
        import harpe

        return harpe.StepFile()
    if arguments.optimizer == "zeus":
        import zeus.monitor.energy
        from zeus.monitor import ZeusMonitor
        from zeus.optimizer.power_limit import GlobalPowerLimitOptimizer, MaxSlowdownConstraint

        if not torch.cuda.is_available():
            # Zeus waits for the GPU through a torch with CUDA; a CPU has no pending work.
            zeus.monitor.energy.sync_execution_fn = lambda *_, **__: None
        return GlobalPowerLimitOptimizer(
            ZeusMonitor(gpu_indices=[0]),
            MaxSlowdownConstraint(1 + arguments.max_slowdown),
            warmup_steps=5,
            profile_steps=15,
        )
    return None


class Work:
    """Keeps this rank's simulated GPU busy, if there is one."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.gpu = int(os.environ.get("LOCAL_RANK", "0"))
        self.simulation = None
        if os.environ.get("HARPE_SIMULATION"):
            import harpe_sim

            self.simulation = harpe_sim
            self.begin = harpe_sim.truth(self.gpu)

    def step(self):
        if self.simulation:
            self.simulation.run(self.gpu, seconds=self.seconds, memory_bound=0.6)

    def joules(self):
        return self.simulation.truth(self.gpu).energy - self.begin.energy if self.simulation else None


def batches(device, rank, epoch, steps, teacher):
    """Yields points labelled by a linear teacher: generated from the seed, and the same at every start."""
    for step in range(steps):
        generator = torch.Generator().manual_seed((epoch * 100_003 + step) * 1009 + rank)
        points = torch.randn(BATCH, FEATURES, generator=generator)
        yield points.to(device), (points @ teacher).argmax(dim=1).to(device)


def main():
    arguments = options()
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    device = torch.device("cuda" if on_gpu else "cpu")
    if not on_gpu:
        torch.set_num_threads(1)
    if processes > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(0)
    teacher = torch.randn(FEATURES, CLASSES)
    model = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, CLASSES)).to(device)
    if processes > 1:
        model = nn.parallel.DistributedDataParallel(model)
    learning = torch.optim.SGD(model.parameters(), lr=0.5)
    work = Work(arguments.seconds)
    start = time.monotonic()

    optimizer = optimizer_of(arguments)
    loss = torch.zeros(())
    for epoch in range(arguments.epochs):
        if optimizer:
            optimizer.on_epoch_begin()
        for points, names in batches(device, rank, epoch, arguments.steps_per_epoch, teacher):
            if optimizer:
                optimizer.on_step_begin()
            loss = nn.functional.cross_entropy(model(points), names)
            learning.zero_grad()
            loss.backward()
            learning.step()
            work.step()
            if optimizer:
                optimizer.on_step_end()
        if optimizer:
            optimizer.on_epoch_end()

    said = {
        "loss": loss.item(),
        "seconds": time.monotonic() - start,
        "joules": work.joules(),
        "rank": rank,
    }
    with contextlib.suppress(AttributeError):
        report = optimizer.close()
        if report is not None:
            print(f"harpe: {report}")
            said["report"] = report
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
