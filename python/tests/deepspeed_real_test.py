"""The hook on DeepSpeed's own pipeline engine: two processes that exchange activations over gloo.
Needs deepspeed and torch (docs/python.md says how to run it); skipped without."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")
import torch.multiprocessing as processes  # noqa: E402

MICRO_BATCHES, ITERATIONS, WIDTH, STAGES = 4, 3, 8, 2


def train(rank: int, port: int, folder: str) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(STAGES),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        DS_ACCELERATOR="cpu",
    )
    import deepspeed
    from deepspeed.pipe import PipelineModule
    from torch import nn

    import harpe.deepspeed

    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    model = PipelineModule(
        [nn.Linear(WIDTH, WIDTH) for _ in range(4)], num_stages=STAGES, loss_fn=nn.MSELoss()
    )
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=[p for p in model.parameters() if p.requires_grad],
        config={
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": MICRO_BATCHES,
            "optimizer": {"type": "SGD", "params": {"lr": 0.01}, "torch_impl": True},
            "steps_per_print": 1000,
        },
    )
    attached = harpe.deepspeed.attach(
        engine, server="http://127.0.0.1:9", job="test", clock_socket=""
    )
    batches = iter([(torch.randn(2, WIDTH), torch.randn(2, WIDTH))] * 100)
    for _ in range(ITERATIONS):
        engine.train_batch(batches)
    counts = attached.client.counts()
    engine.eval_batch(batches)
    after_evaluation = attached.client.counts().instructions
    attached.detach()
    engine.train_batch(batches)
    Path(folder, f"{rank}.json").write_text(
        json.dumps(
            {
                "counts": counts._asdict(),
                "after_evaluation": after_evaluation,
                "after_detaching": attached.client.counts().instructions,
            }
        )
    )


def test_every_computation_of_training_is_told() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(train, (port, folder), nprocs=STAGES)
        results = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(STAGES)]
    for result in results:
        counts = result["counts"]
        assert counts["iterations"] == ITERATIONS
        assert counts["instructions"] == 2 * MICRO_BATCHES * ITERATIONS
        assert counts["unexpected"] == counts["unknown"] == 0
        assert result["after_evaluation"] == counts["instructions"]
        assert result["after_detaching"] == counts["instructions"]


def test_the_schedule_with_two_parts_a_stage_is_read_off_the_engine() -> None:
    """Tests DualPipeV by its schedule only: its engine needs communication between GPUs."""
    from deepspeed.runtime.pipe import schedule as schedules

    kind: Any = getattr(schedules, "DualPipeVSchedule", None)
    if kind is None:
        pytest.skip("this DeepSpeed has no DualPipeV")
    import harpe
    import harpe.deepspeed

    class Grid:
        data_parallel_size = model_parallel_size = 1

        def get_data_parallel_id(self) -> int:
            return 0

    class Engine:
        num_stages, stage_id, micro_batches, grid = 2, 1, 6, Grid()

        def _train_schedule(self) -> Any:
            return kind(micro_batches=6, stages=2, stage_id=1)

    fields = harpe.deepspeed.job_fields(Engine())
    client = harpe.start(server="http://127.0.0.1:9", job="test", clock_socket="", **fields)
    for instruction in fields["schedule"]["ranks"][1]:
        chunk = sorted({1, 2}).index(instruction["stage"])
        client.on_instruction_begin(instruction["op"], chunk)
        client.on_instruction_end()
    counts = client.counts()
    client.close()
    assert counts.instructions == 4 * 6
    assert counts.unexpected == counts.unknown == 0
