"""Runs the sections one after the other, each with a time limit, and writes gpu_check.json, the page and the pictures.

    python3 -m gpu_check OUT        called by scripts/gpu_check.sh, which unpacks what is needed
"""

import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import render
from .driver import RUN, chosen_gpu, used_by_others
from .section import SECTIONS

TOTAL = 232.0  # s, of the 240 s allowed for the check
RENDERING = 8.0  # s reserved for the end
LIMITS = {"driver": 25.0, "counter": 25.0, "joules": 135.0, "hooks": 75.0, "model": 15.0}
LONGEST_LOG = 4000  # characters of a section's messages


def end_process(process):
    """Ends a section and its child processes. A process that hangs in the driver cannot be ended, and is left."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, which)
            process.wait(2)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def said_within(command, limit):
    """Returns (standard output, standard error) of a command. Raises OSError or TimeoutError if it fails, even if it
    hangs in the driver."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it did not end within {limit:.0f} s") from None
        finally:
            end_process(process)
        out.seek(0)
        err.seek(0)
        said = out.read(), err.read()
    if status != 0:
        raise OSError((said[1].strip().splitlines() or [f"status {status}"])[-1][:300])
    return said


def run_section(name, context_file, folder, limit):
    """Returns {"status": "ok", "skipped", "failed" or "timed out", "seconds", "log", ...}, with the partial result of a
    failed section."""
    result_file, begin = os.path.join(folder, f"{name}.json"), time.monotonic()
    with open(os.path.join(folder, f"{name}.log"), "w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen([sys.executable, "-m", "gpu_check.section", name, context_file, result_file], stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = "ok" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            status = "timed out"
        finally:  # also if the check is interrupted, so that no load stays on the GPU
            end_process(process)
        log.seek(0)
        said = log.read()
    section = {"status": status, "seconds": round(time.monotonic() - begin, 1), "error": None, "log": said[-LONGEST_LOG:]}
    if status == "timed out":
        section["error"] = f"it did not end within {limit:.0f} s"
    elif status == "failed":
        section["error"] = said.strip().splitlines()[-1][:500] if said.strip() else f"it ended with status {process.returncode}"
        if section["error"].startswith("skipped: "):
            section["status"] = "skipped"
    try:
        with open(result_file, encoding="utf-8") as file:
            section["result"] = json.load(file)
    except (OSError, ValueError):
        section["result"] = None
    return section


def software():
    """Returns the software versions. PyTorch runs in a separate process, since its import may fail in many ways."""
    code = ("import json, torch; print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda, "
            "'available': torch.cuda.is_available(), "
            "'device': torch.cuda.get_device_name(0) if torch.cuda.is_available() else None}))")
    try:
        torch = json.loads(said_within([sys.executable, "-c", code], 60)[0])
    except (OSError, ValueError) as error:
        torch = {"error": str(error)}
    try:
        version = said_within([os.environ["GPU_CHECK_HARPE"], "--version"], 20)[0].strip()
    except OSError as error:
        version = f"unknown: {error}"
    return {"harpe": version, "python": platform.python_version(), "torch": torch, "kernel": platform.release(),
            "cpus": os.cpu_count()}


def found_gpu(driver):
    """Returns the GPU to check by section 1: Harpe's choice, else NVML's first."""
    if gpu := chosen_gpu(driver.get("harpe_devices")):
        return gpu
    if not isinstance(driver.get("uuid"), str):
        return None
    mig = (driver.get("settings") or {}).get("nvmlDeviceGetMigMode")
    return {"uuid": driver["uuid"], "name": str(driver.get("name")), "pci": None, "backend": "nvml", "power_limit": {},
            "mig": isinstance(mig, list) and mig[0] == 1}


def context_of(gpu, scale, folder):
    limit = (gpu or {}).get("power_limit") or {}
    return {"uuid": gpu["uuid"] if gpu else None, "gpu_name": gpu["name"] if gpu else None, "highest_w": limit.get("highest_w"),
            "harpe": os.environ["GPU_CHECK_HARPE"], "scale": scale, "folder": folder}


def check(folder, scale, save):
    """Runs the sections in order. Calls `save` with the document after each of them."""
    begin = time.monotonic()
    document = {"format": "harpe.gpu_check/1", "made_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "scale": scale, "simulated": bool(os.environ.get("HARPE_SIMULATION")), "software": software(), "gpu": None,
                "used_by_others": None, "sections": {}}
    context_file = os.path.join(folder, "context.json")

    def write_context(context):
        with open(context_file, "w", encoding="utf-8") as file:
            json.dump(context, file)

    gpu = None
    for name in SECTIONS:
        context = context_of(gpu, scale, folder)
        write_context({**context, "joules": (document["sections"].get("joules") or {}).get("result")} if name == "model" else context)
        left = TOTAL - RENDERING - (time.monotonic() - begin)
        if name not in ("driver", "model") and gpu is None:
            document["sections"][name] = {"status": "skipped", "seconds": 0, "error": "skipped: there is no NVIDIA GPU", "log": "",
                                          "result": None}
            continue
        if left < 5:
            document["sections"][name] = {"status": "skipped", "seconds": 0, "error": "skipped: no time was left", "log": "",
                                          "result": None}
            continue
        print(f"gpu_check: {name}", file=sys.stderr, flush=True)
        document["sections"][name] = run_section(name, context_file, folder, min(LIMITS[name], left))
        save(document)
        if name == "driver":
            found = document["sections"][name]["result"] or {}
            gpu = found_gpu(found)
            document["simulated"] |= "harpe-sim" in str(found.get("driver_version")) or (gpu or {}).get("backend") == "sim"
            document["gpu"] = {key: gpu[key] for key in ("name", "uuid", "pci", "mig", "backend")} if gpu else None
            document["used_by_others"] = used_by_others(found.get("others"))
            if document["used_by_others"]:
                print(f"gpu_check: warning: the GPU is used by {document['used_by_others']}; what it does counts in all figures",
                      file=sys.stderr, flush=True)
            if gpu and not gpu["mig"] and not document["simulated"]:
                os.environ["CUDA_VISIBLE_DEVICES"] = gpu["uuid"]
    after = read_after(gpu) or {}
    document["settings_after"] = after.get("settings")
    # A process that began in the meantime affects the later figures.
    document["used_by_others"] = document["used_by_others"] or used_by_others(after.get("others"))
    document["seconds"] = round(time.monotonic() - begin, 1)
    return document


def read_after(gpu):
    """Reads the settings again at the end, which this check must not have changed, and who uses the GPU."""
    if gpu is None:
        return None
    # The utilization would include the loads of this check.
    code = ("import json, sys; from gpu_check import driver, nvml; gpu = nvml.Nvml().gpu(sys.argv[1]); "
            "print(json.dumps({'settings': driver.settings(gpu), 'others': driver.others(gpu, 0)}))")
    try:
        return json.loads(said_within([sys.executable, "-c", code, gpu["uuid"]], 6)[0])
    except (OSError, ValueError):
        return None


def main():
    out = sys.argv[1]
    for which in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, signal.default_int_handler)
    scale = float(os.environ.get("GPU_CHECK_SCALE", "1"))
    os.makedirs(out, exist_ok=True)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ[RUN] = f"{os.getpid()}-{time.time_ns()}"
    with tempfile.TemporaryDirectory(prefix="gpu_check-", ignore_cleanup_errors=True) as folder:
        def save(document):
            samples = os.path.join(folder, "samples.csv.xz")
            if os.path.exists(samples):
                shutil.copy(samples, os.path.join(out, "samples.csv.xz"))
            with open(os.path.join(out, "gpu_check.json"), "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.write("\n")

        try:
            document = check(folder, scale, save)
        except KeyboardInterrupt:
            sys.exit(f"gpu_check: interrupted; {out}/gpu_check.json has the sections that ended, if any")
        save(document)
    render.write_page(document, out)
    print(render.table(document))
    print(f"\nwritten in {document['seconds']:.0f} s: {out}/gpu_check.json, its page gpu_check.html, samples.csv.xz")
    if document["gpu"] is None:
        sys.exit(1)


if __name__ == "__main__":
    main()
