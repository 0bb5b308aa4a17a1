"""What ``harpe run --optimize`` is told of a training's steps."""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

import pytest

import harpe


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "steps"
    file.touch()
    monkeypatch.setenv("HARPE_STEPS", str(file))
    return file


def train(steps: harpe.StepFile, epochs: int = 2, of: int = 3) -> None:
    for _ in range(epochs):
        steps.on_epoch_begin()
        for _ in range(of):
            steps.on_step_begin()
            steps.on_step_end()
        steps.on_epoch_end()


def test_each_step_and_each_end_of_an_epoch_is_a_line(file: Path) -> None:
    train(harpe.StepFile())
    assert file.read_text() == "\n\n\nepoch\n" * 2


def test_a_line_is_there_at_once(file: Path) -> None:
    steps = harpe.StepFile()
    steps.on_step_begin()
    assert file.read_text() == "\n"


@pytest.mark.parametrize("name", ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"])
def test_one_rank_of_a_node_writes(file: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    train(harpe.StepFile())
    assert file.read_text() == ""
    monkeypatch.setenv(name, "0")
    train(harpe.StepFile())
    assert file.read_text() != ""


def test_without_harpe_run_nothing_is_written(tmp_path: Path) -> None:
    os.chdir(tmp_path)
    train(harpe.StepFile())
    assert list(tmp_path.iterdir()) == []


def test_training_goes_on_where_the_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARPE_STEPS", str(tmp_path / "none"))
    with pytest.warns(RuntimeWarning, match="training continues"):
        steps = harpe.StepFile()
    train(steps)
    assert not (tmp_path / "none").exists()


def test_training_goes_on_where_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARPE_STEPS", "/dev/full")
    steps = harpe.StepFile()
    with pytest.warns(RuntimeWarning, match="No space left") as warned:
        train(steps)
    assert len(warned) == 1


def test_the_callback_of_hugging_faces_trainer_tells_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The order of calls is that of transformers: huggingface_real_test.py tests its trainer.
    stand_in = types.ModuleType("transformers")
    stand_in.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.delitem(sys.modules, "harpe.huggingface", raising=False)
    callback = importlib.import_module("harpe.huggingface").StepFileCallback()
    monkeypatch.delitem(sys.modules, "harpe.huggingface")
    for _ in range(2):
        callback.on_step_begin(None, None, None, model=None)
    callback.on_evaluate(None, None, None)
    callback.on_step_begin(None, None, None)
    callback.on_epoch_end(None, None, None)
    assert file.read_text() == "\n\nepoch\n\nepoch\n"
