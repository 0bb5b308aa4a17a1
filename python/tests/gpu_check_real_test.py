"""The pipeline of scripts/gpu_check.sh, on a CPU and with the energies of a simulated GPU: two
processes with PyTorch's pipelining, whose tensors travel by the host. Needs torch 2.5 or later
(docs/python.md says how to run it); skipped without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch.distributed.pipelining", reason="torch has no pipelining")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("HARPE_COMMAND", str(ROOT / "build/release/src/harpe/command/cli/harpe"))
SIMULATION = '[[gpu]]\nmodel = "h100-sxm"\n'


@pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")
def test_times_energy_and_overhead_of_a_pipeline(tmp_path: Path) -> None:
    simulation, context = tmp_path / "gpu.toml", tmp_path / "context.json"
    simulation.write_text(f'state_file = "{tmp_path}/gpus"\n{SIMULATION}')
    context.write_text(json.dumps({"harpe": COMMAND, "scale": 0.3, "folder": str(tmp_path)}))
    path = f"{ROOT / 'scripts'}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "gpu_check.section", "hooks", context, tmp_path / "result.json"],
        env={
            **os.environ,
            "PYTHONPATH": path,
            "HARPE_SIMULATION": str(simulation),
            "GPU_CHECK_PIPELINE_DEVICE": "cpu",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["error"] is None
    assert len(result["stages"]) == 2
    for stage in result["stages"]:
        assert stage["registered"]
        assert stage["counts"]["unexpected"] == stage["counts"]["unknown"] == 0
        for kind in ("forward", "backward"):
            times = stage["times"][kind]
            # On a CPU both times are taken around the same calls, the hook's outside.
            assert 0 <= times["harpe_minus_events_s"] < 1e-3
            assert stage["energy"]["instructions"][kind]["mean_j"] > 0
        energy = stage["energy"]
        watts = energy["iterations_j"] / energy["iterations_s"]
        assert watts == pytest.approx(energy["window_j"] / energy["window_s"], rel=0.2)
        assert stage["overhead"]["calls"]["begin"]["median_s"] < 1e-3
    # No clock is set: each instruction is measured at the current one.
    measured = result["profile_measure"]
    assert measured["status"] == 0, measured
    assert "No clock was set" in measured["text"]
    header, *rows = (line.split(",") for line in measured["profile"])
    assert header == ["stage", "instruction", "frequency", "time", "energy"]
    assert [row[:2] for row in rows] == [[s, k] for s in "01" for k in ("forward", "backward")]
    assert len({row[2] for row in rows}) == 1
