"""``harpe.PowerOptimizer`` where there is neither GPU nor agent, and what it refuses. With both,
tests/power_optimizer_test.py has it, in a real training."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import harpe


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARPE_NVML_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setenv("HARPE_POWERCAP_ROOT", str(tmp_path))
    monkeypatch.setenv("HARPE_AGENT_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def train(optimizer: Any, epochs: int = 2, of: int = 3) -> None:
    for _ in range(epochs):
        optimizer.on_epoch_begin()
        for _ in range(of):
            optimizer.on_step_begin()
            optimizer.on_step_end()
        optimizer.on_epoch_end()


def test_without_a_gpu_training_goes_on_and_the_report_says_so() -> None:
    with harpe.PowerOptimizer("energy", max_slowdown=0.03) as optimizer:
        train(optimizer)
    report = optimizer.close()
    assert report["why_nothing_was_set"] == "there is no GPU here"
    assert str(report) == "nothing was set: there is no GPU here"
    assert optimizer.close() is report
    train(optimizer)  # after the end: harmless


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimize": "speed"}, 'optimize is "energy", "time" or "cost"'),
        ({"max_slowdown": -0.1}, "max_slowdown is a fraction of 0 or more"),
        ({"max_slowdown": float("nan")}, "max_slowdown is a fraction"),
        ({"optimize": "cost", "eta": 2}, "eta is a fraction from 0 to 1"),
        ({"host_power": "much"}, "host_power is a number of watts or 'measured'"),
        ({"host_power": -5.0}, "power"),
        ({"gpus": "x,y"}, "x"),
        ({"all_reduce": "mine"}, "all_reduce is a function"),
        ({"synchronize": "mine"}, "synchronize is a function"),
    ],
)
def test_options_that_are_wrong_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(harpe.InvalidInputError, match=message):
        harpe.PowerOptimizer(**options)


def test_a_profile_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text("{")
    with pytest.raises(harpe.InvalidInputError, match=r"profile\.json:1"):
        harpe.PowerOptimizer(profile=profile)


def test_a_job_of_processes_that_have_no_way_to_agree_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(harpe.InvalidInputError, match=r"initialise torch\.distributed first"):
        harpe.PowerOptimizer()
    harpe.PowerOptimizer(all_reduce=None).close()


def test_a_reduction_of_ones_own_is_asked_for_sums_and_maxima() -> None:
    asked: list[tuple[str, int]] = []

    def all_reduce(how: str, values: list[float]) -> list[float]:
        asked.append((how, len(values)))
        return values

    optimizer = harpe.PowerOptimizer(all_reduce=all_reduce)
    train(optimizer)
    # The first reduction reports that this process has no GPU.
    assert asked[0][0] == "sum"
    assert {how for how, _ in asked} == {"sum", "max"}
    assert optimizer.close()["choice"] is None


@pytest.mark.parametrize("wrong", ["raises", "shorter", "no numbers"])
def test_a_reduction_that_fails_stops_no_training(wrong: str) -> None:
    def all_reduce(how: str, values: list[float]) -> Any:
        if wrong == "raises":
            raise RuntimeError("the network is gone")
        return values[1:] if wrong == "shorter" else ["a"] * len(values)

    optimizer = harpe.PowerOptimizer(all_reduce=all_reduce)
    train(optimizer)
    assert optimizer.close()["choice"] is None


def test_an_interrupt_within_a_reduction_is_an_interrupt() -> None:
    def all_reduce(how: str, values: list[float]) -> list[float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harpe.PowerOptimizer(all_reduce=all_reduce)


def test_the_gpu_is_waited_for_while_settings_are_tried_alone() -> None:
    waited = []
    optimizer = harpe.PowerOptimizer(synchronize=lambda: waited.append(1))
    train(optimizer, epochs=1)
    # Without a GPU no settings are tried, which is known after the first step.
    assert len(waited) == 1


def test_the_callback_of_hugging_faces_trainer_reports_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The order of calls is that of transformers: huggingface_real_test.py tests its trainer.
    stand_in = types.ModuleType("transformers")
    stand_in.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.delitem(sys.modules, "harpe.huggingface", raising=False)
    callback = importlib.import_module("harpe.huggingface").PowerOptimizerCallback("energy")
    monkeypatch.delitem(sys.modules, "harpe.huggingface")
    callback.on_step_begin(None, None, None)
    callback.on_train_begin(None, None, None)
    callback.on_step_begin(None, None, None)
    callback.on_evaluate(None, None, None)
    callback.on_epoch_end(None, None, None)
    callback.on_train_end(None, None, None)
    assert "harpe: nothing was set: there is no GPU here" in capsys.readouterr().err
    assert callback.report["steps"] == 0
