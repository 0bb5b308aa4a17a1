"""``harpe.measure`` on simulated GPUs, whose true energy is known."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import multiprocessing
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import harpe

NVML = os.environ.get("HARPE_SIMULATED_NVML", "")
COMMAND = os.environ.get("HARPE_COMMAND", "")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Returns the module for two simulated GPUs of this test, which runs work and reads the
    truth."""
    if not Path(NVML, "libnvidia-ml.so.1").exists():
        pytest.skip("HARPE_SIMULATED_NVML is not built")
    file = tmp_path / "gpus.toml"
    # Sensors with a gain of 1, so that truth and reading are comparable.
    file.write_text(
        f'state_file = "{tmp_path}/state"\n[[gpu]]\nmodel = "a100-sxm"\ncount = 2\ngain = 1\n'
    )
    monkeypatch.setenv("HARPE_SIMULATION", str(file))
    monkeypatch.setenv("HARPE_POWERCAP_ROOT", str(tmp_path))
    monkeypatch.syspath_prepend(NVML)
    sys.modules.pop("harpe_sim", None)
    return importlib.import_module("harpe_sim")


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARPE_NVML_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setenv("HARPE_POWERCAP_ROOT", str(tmp_path))


def test_the_error_bar_holds_the_true_energy(gpus: Any) -> None:
    for settle in (False, True):
        with harpe.measure(gpus="0", settle=settle) as m:
            before = gpus.truth(0).energy
            gpus.run(0, seconds=0.6)
            true = gpus.truth(0).energy - before
        assert m.joules is not None
        assert m.joules_error is not None
        # A correct 95 % interval misses one time in twenty, but never by twice its width.
        assert abs(m.joules - true) < 2 * m.joules_error + 1, (settle, m.joules, true)
        assert m.seconds == pytest.approx(0.6, abs=0.4)
        assert m.simulated
        assert [device.device for device in m.devices] == ["GPU 0"]
        assert m.watts == pytest.approx(m.joules / m.seconds)


def test_reading_on_both_sides_narrows_the_error_bar(gpus: Any) -> None:
    errors = []
    for settle in (False, True):
        with harpe.measure(gpus="0", settle=settle) as m:
            gpus.run(0, seconds=0.2)
        assert m.joules_error is not None
        errors.append(m.joules_error)
    assert errors[1] < errors[0]


def test_blocks_nest_and_run_side_by_side(gpus: Any) -> None:
    inner: list[harpe.Measurement] = []

    def work(gpu: int) -> None:
        with harpe.measure(f"GPU {gpu}", gpus=str(gpu), settle=True) as m:
            gpus.run(gpu, seconds=0.4)
        inner.append(m)

    with harpe.measure("both", settle=True) as outer:
        threads = [threading.Thread(target=work, args=(gpu,)) for gpu in (0, 1)]
        for thread in threads:
            thread.start()
        running = outer.so_far()
        for thread in threads:
            thread.join()
    assert outer.joules is not None
    assert running.seconds < outer.seconds
    assert running.joules is not None
    assert running.joules < outer.joules
    assert {m.name for m in inner} == {"GPU 0", "GPU 1"}
    parts = sum(m.joules or 0 for m in inner)
    assert 0 < parts < outer.joules + 2 * (outer.joules_error or 0)
    assert all(not m.running and m.seconds < outer.seconds for m in inner)


def test_a_block_that_raises_leaves_what_it_cost(gpus: Any) -> None:
    with contextlib.suppress(KeyError), harpe.measure() as m:
        gpus.run(0, seconds=0.1)
        raise KeyError("wrong")
    assert m.failed
    assert not m.running
    assert m.joules is not None
    assert str(m).endswith("simulated GPUs; it failed)")


def test_each_call_of_a_function_is_measured(gpus: Any) -> None:
    @harpe.measure(gpus="0")
    def step(seconds: float) -> float:
        """Trains."""
        gpus.run(0, seconds=seconds)
        return seconds

    assert step.last is None
    assert step(0.05) == 0.05
    first = step.last
    assert first is not None
    assert (step(0.05), len(step.measurements)) == (0.05, 2)
    assert step.last is not first
    assert step.__name__ == "step"
    assert step.__doc__ == "Trains."
    assert first.name.endswith("step")
    with pytest.raises(ctypes.ArgumentError):
        step("long")  # type: ignore[arg-type]
    assert [m.failed for m in step.measurements] == [False, False, True]


def test_methods_and_coroutines_are_measured_too(no_devices: None) -> None:
    class Trainer:
        @harpe.measure("step")
        def step(self, more: int) -> int:
            return more + 1

    @harpe.measure()
    async def fetch() -> str:
        await asyncio.sleep(0)
        return "data"

    assert Trainer().step(1) == 2
    assert Trainer.step.last.name == "step"
    assert asyncio.run(fetch()) == "data"  # type: ignore[arg-type]
    assert len(fetch.measurements) == 1


def test_without_devices_there_is_the_time_and_why(no_devices: None) -> None:
    with harpe.measure("block", carbon=300) as m:
        assert str(m) == "block: being measured"
    assert m.joules is None
    assert m.watts is None
    assert m.grams_co2 is None
    assert m.seconds >= 0
    assert any(note.startswith("nvml: ") for note in m.notes)
    assert re.fullmatch(r"block: [\d.e-]+ ms, no device gave its energy \(.+\)", str(m))


def test_grams_come_from_joules_and_the_grid(gpus: Any) -> None:
    with harpe.measure(carbon="DE") as m:
        gpus.run(0, seconds=0.05)
    assert m.carbon is not None
    assert (m.carbon.zone, m.carbon.grams_per_kwh) == ("DE", 381)
    assert m.grams_co2 == pytest.approx((m.joules or 0) / 3.6e6 * 381)
    assert " g CO2eq" in str(m)
    with harpe.measure(carbon=302.5) as m:
        pass
    assert m.carbon is not None
    assert m.carbon.grams_per_kwh == 302.5


@pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")
def test_a_source_of_intensities_is_asked_at_the_end(
    gpus: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARPE_COMMAND", COMMAND)
    with harpe.measure(carbon=f"file:{tmp_path}/none.csv") as m:
        gpus.run(0, seconds=0.05)
    assert m.joules is not None
    assert m.grams_co2 is None
    assert any("There are no grams of CO2: " in note and "none.csv" in note for note in m.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"carbon": "XX"}, "XX"), ({"carbon": -3.0}, "-3"), ({"gpus": "7"}, "no GPU '7'")],
)
def test_what_is_wrong_is_said_before_the_block(
    gpus: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(harpe.Error, match=message):
        with harpe.measure(**options):
            pytest.fail("the block ran")


@pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")
def test_an_unknown_source_is_refused_with_all_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARPE_COMMAND", COMMAND)
    said = r"carbon: unknown source 'Germany': a source is a number in g/kWh .* such as DE .*, uk"
    with pytest.raises(harpe.InvalidInputError, match=said):
        harpe.measure(carbon="Germany")
    with pytest.raises(harpe.InvalidInputError, match=r"carbon: entsoe needs a zone, as in"):
        harpe.measure(carbon="entsoe")
    monkeypatch.setenv("HARPE_COMMAND", "/nowhere/harpe")
    with pytest.raises(harpe.InvalidInputError, match=r"no yearly mean is known for .*'Germany'"):
        harpe.measure(carbon="Germany")


def test_a_measurement_is_used_once(no_devices: None) -> None:
    once = harpe.measure()
    with once:
        pass
    with pytest.raises(RuntimeError, match="each with takes its own"):
        with once:
            pytest.fail("the block ran")


def _in_child(gpus: Any, found: Any) -> None:
    with harpe.measure(gpus="1") as m:
        gpus.run(1, seconds=0.1)
    found.send(m.joules)


def test_a_child_of_fork_measures_for_itself(gpus: Any) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with harpe.measure() as m:
        child = context.Process(target=_in_child, args=(gpus, there))
        child.start()
        assert here.poll(30)
        assert here.recv() > 0
        child.join()
    assert child.exitcode == 0
    assert m.joules is not None


def test_a_child_of_fork_that_leaves_its_parents_block_hangs_nowhere(gpus: Any) -> None:
    read, write = os.pipe()
    with harpe.measure() as m:
        child = os.fork()
    if child == 0:
        os.write(write, str(m.notes).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"Only the time was measured" in os.read(read, 1000)
    assert m.joules is not None


def test_in_a_notebook_it_is_a_table(gpus: Any) -> None:
    with harpe.measure("<epoch>") as m:
        gpus.run(0, seconds=0.05)
    page = m._repr_html_()
    assert "&lt;epoch&gt;" in page
    assert page.count("<tr>") == 1 + 2 + 1, "a heading, two GPUs, and their total"


def test_a_block_costs_little_processor_time(gpus: Any) -> None:
    with harpe.measure("outer"):
        before, begun = time.process_time(), 20
        for _ in range(begun):
            with harpe.measure():
                pass
        each = (time.process_time() - before) / begun
    # A few tenths of a millisecond on a quiet machine, including the sampling of the GPUs.
    assert each < 0.02
