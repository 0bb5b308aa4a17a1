"""The hook on PyTorch's own pipeline schedules: processes that really exchange activations over
gloo. Needs torch 2.5 or later (docs/python.md says how to run it); skipped without."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pipelining = pytest.importorskip("torch.distributed.pipelining", reason="torch has no pipelining")
import torch.multiprocessing as processes  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.pipelining import schedules as torch_schedules  # noqa: E402

MICRO_BATCHES = 8
ITERATIONS = 3
WIDTH = 16


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x)) + x


def parts_of(name: str, rank: int, ranks: int) -> list[int]:
    """Returns the model parts of a rank."""
    if name in ("Schedule1F1B", "ScheduleGPipe"):
        return [rank]
    if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        return [rank, 2 * ranks - 1 - rank]
    return [rank, rank + ranks]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def train(rank: int, ranks: int, name: str, port: int, folder: str, custom: bool) -> None:
    """Runs one rank."""
    import torch.distributed as dist

    import harpe.torch_pipelining

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    parts = parts_of(name, rank, ranks)
    total = ranks * len(parts)
    model = [Layer() for _ in range(total)]
    stages = [
        pipelining.PipelineStage(model[part], part, total, torch.device("cpu")) for part in parts
    ]
    loss = nn.MSELoss()
    kind = getattr(pipelining, name, None) or getattr(torch_schedules, name)
    single = issubclass(kind, torch_schedules.PipelineScheduleSingle)
    schedule = kind(stages[0] if single else stages, MICRO_BATCHES, loss_fn=loss)
    overlapped = 0
    if custom:

        def both(action: Any, context: Any) -> None:
            """Runs a block like the runtime, but as one custom function."""
            nonlocal overlapped
            overlapped += 1
            runtime_action(action, context)

        runtime_action = overlapped_action(schedule)
        schedule.register_custom_function(torch_schedules.OVERLAP_F_B, both)
    fields = harpe.torch_pipelining.job_fields(schedule, overlapped=custom)
    planned = None
    if isinstance(fields["schedule"], dict):
        planned = len(fields["schedule"]["ranks"][rank])
    attached = harpe.torch_pipelining.attach(
        schedule, server="http://127.0.0.1:9", job="test", clock_socket=""
    )
    data, target = torch.randn(MICRO_BATCHES * 2, WIDTH), torch.randn(MICRO_BATCHES * 2, WIDTH)
    has_input, has_loss = 0 in parts, total - 1 in parts
    losses: list[Any] = []

    def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ((data,) if has_input else ()), ({"target": target} if has_loss else {})

    for _ in range(ITERATIONS):
        positional, keywords = arguments()
        losses.clear()
        schedule.step(*positional, **keywords, **({"losses": losses} if has_loss else {}))
    counts = attached.client.counts()
    # PyTorch 2.15 cannot evaluate with two neighbouring parts on one rank.
    if hasattr(schedule, "eval") and name not in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
        positional, keywords = arguments()
        schedule.eval(*positional, **keywords)
    after_evaluation = attached.client.counts()
    attached.detach()
    positional, keywords = arguments()
    schedule.step(*positional, **keywords)
    result = {
        "counts": counts._asdict(),
        "after_evaluation": after_evaluation.instructions,
        "after_detaching": attached.client.counts().instructions,
        "loss": float(sum(losses)) if losses else None,
        "overlapped": overlapped,
        "planned": planned,
        "wrapped": [name for name in vars(schedule) if name == "step"],
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def overlapped_action(schedule: Any) -> Any:
    """Returns a function that runs an overlapped block as the runtime does without a custom
    function: as a schedule of the block's two actions."""

    def run(action: Any, context: Any) -> None:
        kinds = schedule._comp_type_to_function_map
        order = schedule.pipeline_order_with_comms
        counter = schedule.backward_counter.copy()
        schedule._comp_type_to_function_map = {}
        schedule.pipeline_order_with_comms = {schedule.rank: list(action.sub_actions)}
        initialize, schedule._initialize_stages = schedule._initialize_stages, lambda *_: None
        finished, schedule._update_losses = schedule._update_losses, lambda *_: None
        clear, schedule.backward_counter.clear = schedule.backward_counter.clear, lambda: None
        try:
            schedule._step_microbatches(
                context.arg_mbs, context.kwarg_mbs, context.target_mbs, context.losses
            )
        finally:
            schedule._comp_type_to_function_map = kinds
            schedule.pipeline_order_with_comms = order
            schedule._initialize_stages = initialize
            schedule._update_losses = finished
            schedule.backward_counter.clear = clear
            del counter

    return run


def run(name: str, ranks: int, custom: bool = False) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        try:
            os.environ["OMP_NUM_THREADS"] = "1"
            processes.spawn(train, (ranks, name, free_port(), folder, custom), nprocs=ranks)
        finally:
            os.environ.clear()
            os.environ.update(environment)
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(ranks)]


def available(name: str) -> bool:
    return hasattr(pipelining, name) or hasattr(torch_schedules, name)


# Number of computations per rank and micro-batch: forward and backward per part, and weight if it
# is separate.
SCHEDULES = {
    "Schedule1F1B": 2,
    "ScheduleGPipe": 2,
    "ScheduleInterleaved1F1B": 4,
    "ScheduleLoopedBFS": 4,
    "ScheduleInterleavedZeroBubble": 6,
    "ScheduleZBVZeroBubble": 6,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_is_followed_instruction_by_instruction(name: str) -> None:
    if not available(name):
        pytest.skip(f"this torch has no {name}")
    for rank, result in enumerate(run(name, 2)):
        counts = result["counts"]
        # The client itself compares each instruction with its schedule.
        assert counts["unexpected"] == 0, (name, rank)
        assert counts["unknown"] == 0, (name, rank)
        assert counts["iterations"] == ITERATIONS
        assert counts["instructions"] == SCHEDULES[name] * MICRO_BATCHES * ITERATIONS
        assert counts["events_lost"] == 0
        assert result["after_evaluation"] == counts["instructions"]
        assert result["after_detaching"] == counts["instructions"]
        assert result["wrapped"] == []


@pytest.mark.parametrize("custom", [False, True])
def test_overlapped_blocks_are_one_instruction_where_they_run_as_one(custom: bool) -> None:
    if not available("ScheduleDualPipeV"):
        pytest.skip("this torch has no ScheduleDualPipeV")
    for result in run("ScheduleDualPipeV", 2, custom):
        counts = result["counts"]
        assert counts["unexpected"] == 0
        assert counts["unknown"] == 0
        assert counts["instructions"] == result["planned"] * ITERATIONS
        # One more iteration runs without Harpe, and blocks of evaluation do not count.
        assert (result["overlapped"] > 0) == custom


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
