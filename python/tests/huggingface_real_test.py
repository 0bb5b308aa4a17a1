"""The hook on Hugging Face's own Trainer, on the CPU. Needs transformers, accelerate and torch
(docs/python.md says how to run it); skipped without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from torch import nn  # noqa: E402

import harpe.huggingface  # noqa: E402

SAMPLES, BATCH, ACCUMULATE = 24, 2, 3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        y = self.linear(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


def samples() -> list[dict[str, Any]]:
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(SAMPLES)]


def trainer_in(folder: Path, **arguments: Any) -> Any:
    return transformers.Trainer(
        model=Model(),
        args=transformers.TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=ACCUMULATE,
            num_train_epochs=2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            **arguments,
        ),
        train_dataset=samples(),
        eval_dataset=samples(),
    )


def attach(trainer: Any) -> Any:
    return harpe.huggingface.attach(
        trainer, server="http://127.0.0.1:9", job="test", clock_socket=""
    )


def test_every_micro_batch_of_training_is_told_and_none_of_evaluation(tmp_path: Path) -> None:
    trainer = trainer_in(tmp_path, eval_strategy="epoch")
    attached = attach(trainer)
    trainer.train()
    counts = attached.client.counts()
    micro_batches = 2 * SAMPLES // BATCH
    assert counts.iterations == micro_batches // ACCUMULATE
    assert counts.instructions == 2 * micro_batches
    assert counts.unexpected == counts.unknown == 0
    attached.detach()
    assert "compute_loss" not in vars(trainer)
    assert "training_step" not in vars(trainer)
    trainer.train()
    assert attached.client.counts() == counts


def test_training_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    trainer = trainer_in(tmp_path)
    attached = attach(trainer)

    class RefusalError(Exception):
        pass

    def refuse(*_: Any) -> None:
        raise RefusalError

    handle = trainer.model.register_forward_hook(refuse)
    with pytest.raises(RefusalError):
        trainer.train()
    handle.remove()
    trainer.train()
    attached.detach()
    assert attached.client.counts().unknown == 0


def test_what_is_no_trainer_is_refused() -> None:
    with pytest.raises(harpe.InvalidInputError, match="no Trainer"):
        harpe.huggingface.attach(object())


def test_the_file_of_steps_has_a_line_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "steps"
    file.touch()
    monkeypatch.setenv("HARPE_STEPS", str(file))
    trainer = trainer_in(tmp_path, eval_strategy="epoch")
    trainer.add_callback(harpe.huggingface.StepFileCallback())
    trainer.train()
    lines = file.read_text().split("\n")[:-1]
    assert lines.count("") == 2 * SAMPLES // (BATCH * ACCUMULATE)
    assert lines[SAMPLES // (BATCH * ACCUMULATE)] == "epoch"
