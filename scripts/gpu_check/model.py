"""Section 5: power and time of the recorded loads at the clock that the GPU chose, beside gpu_model of that card."""

import csv
import io
import json
import subprocess

# Parts of driver names, and the model for that card; the first match counts.
MODELS = (("GB200", "gb200"), ("B200", "b200-sxm"), ("H200", "h200-sxm"), ("H100 PCIe", None), ("H100 NVL", None),
          ("H100", "h100-sxm"), ("A100-SXM", "a100-sxm"), ("A100-PCIE", "a100-pcie"), ("A100 80GB PCIe", "a100-pcie"),
          ("A40", "a40"), ("L40S", "l40s"), ("RTX 4090", "rtx-4090"))
# Loads that the model covers: computations of training.
BUSY = ("matmul", "training", "forward", "backward")


def model_of(name):
    return next((model for part, model in MODELS if part in name), None)


def harpe(context, *arguments):
    said = subprocess.run([context["harpe"], *arguments], capture_output=True, text=True, timeout=10)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())
    return said.stdout


def power_by_clock(context, model):
    """Returns {MHz: W} of a computation, from the profile that harpe synth makes of the model."""
    text = harpe(context, "synth", "--gpu", model, "--stages", "1", "--noise", "0")
    rows = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if not line.startswith("#"))))
    return {int(row["frequency"]): float(row["energy"]) / float(row["time"]) for row in rows if row["instruction"] == "forward"}


def at_clock(powers, mhz):
    """Returns W at that clock, interpolated between the model's clocks; None outside of them."""
    clocks = sorted(powers)
    if not clocks or not clocks[0] <= mhz <= clocks[-1]:
        return None
    high = next(clock for clock in clocks if clock >= mhz)
    low = max(clock for clock in clocks if clock <= mhz)
    share = 0 if high == low else (mhz - low) / (high - low)
    return powers[low] + share * (powers[high] - powers[low])


def run(context, emit):
    name = context["gpu_name"] or ""
    result = {"model": model_of(name), "loads": [], "note": None}
    joules = context.get("joules") or {}
    powers, constants = {}, {}
    if result["model"]:
        powers = power_by_clock(context, result["model"])
        listed = json.loads(harpe(context, "synth", "--list", "--json"))["gpus"]
        constants = next(one for one in listed if one["name"] == result["model"])
        result["constants"] = constants
    else:
        result["note"] = f"Harpe has no model of {name or 'this GPU'}"
    for load in joules.get("loads") or []:
        if load.get("hertz"):
            continue
        entry = {key: load.get(key) for key in ("name", "error", "counter_w", "instant_w", "clock_mhz", "operation_s", "operation_j",
                                                "reasons")}
        entry["model_w"] = None
        if load["name"] == "spin":
            entry["model_w"] = constants.get("blocking_power_w")
        elif load["name"] in BUSY and load.get("clock_mhz"):
            entry["model_w"] = at_clock(powers, load["clock_mhz"])
        measured = entry["counter_w"] or entry["instant_w"]
        entry["model_off"] = entry["model_w"] / measured - 1 if entry["model_w"] and measured else None
        result["loads"].append(entry)
    if not result["loads"]:
        result["note"] = "section 3 recorded no load"
    emit(result)
