"""Section 1: what the driver says of a GPU, which calls it does not support, and how long each takes."""

import ctypes
import json
import os
import subprocess
import time

from . import nvml

REPEATS = 20
RUN = "GPU_CHECK_RUN"  # a variable that only processes of this check have
LOOKS, BETWEEN_LOOKS = 3, 0.4  # measurements of the utilization before any load of this check; s
BUSY = 5  # percent, more than a driver without work shows
NONE_OF = {"nvmlDeviceGetGpuLockedClocks": "there is no such function: NVML does not tell which lock is in force"}


def calls(gpu):
    """Returns (name, function) of the calls that are timed."""
    number, numbers = gpu.number, gpu.numbers
    found = [
        ("nvmlDeviceGetTotalEnergyConsumption", gpu.energy_mj),
        ("nvmlDeviceGetPowerUsage", lambda: number("nvmlDeviceGetPowerUsage")),
        ("nvmlDeviceGetEnforcedPowerLimit", lambda: number("nvmlDeviceGetEnforcedPowerLimit")),
        ("nvmlDeviceGetPowerManagementLimit", lambda: number("nvmlDeviceGetPowerManagementLimit")),
        ("nvmlDeviceGetPowerManagementDefaultLimit", lambda: number("nvmlDeviceGetPowerManagementDefaultLimit")),
        ("nvmlDeviceGetPowerManagementLimitConstraints",
         lambda: numbers("nvmlDeviceGetPowerManagementLimitConstraints", 2)),
        ("nvmlDeviceGetClockInfo SM", lambda: number("nvmlDeviceGetClockInfo", nvml.SM)),
        ("nvmlDeviceGetClockInfo memory", lambda: number("nvmlDeviceGetClockInfo", nvml.MEMORY)),
        ("nvmlDeviceGetMaxClockInfo SM", lambda: number("nvmlDeviceGetMaxClockInfo", nvml.SM)),
        ("nvmlDeviceGetSupportedMemoryClocks", lambda: gpu.list("nvmlDeviceGetSupportedMemoryClocks")),
        ("nvmlDeviceGetCurrentClocksEventReasons", gpu.reasons),
        ("nvmlDeviceGetTemperature", lambda: number("nvmlDeviceGetTemperature", 0)),
        ("nvmlDeviceGetUtilizationRates", lambda: numbers("nvmlDeviceGetUtilizationRates", 1, kind=ctypes.c_uint * 2)[0][0]),
        ("nvmlDeviceGetMemoryInfo",
         lambda: numbers("nvmlDeviceGetMemoryInfo", 1, kind=ctypes.c_ulonglong * 3)[0]),
        ("nvmlDeviceGetPersistenceMode", lambda: number("nvmlDeviceGetPersistenceMode")),
        ("nvmlDeviceGetMigMode", lambda: numbers("nvmlDeviceGetMigMode", 2)),
        ("nvmlDeviceGetPerformanceState", lambda: number("nvmlDeviceGetPerformanceState")),
        ("nvmlDeviceGetArchitecture", lambda: number("nvmlDeviceGetArchitecture")),
        # 0 is NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS; NVML has no query for whether clocks may be locked.
        ("nvmlDeviceGetAPIRestriction application clocks", lambda: number("nvmlDeviceGetAPIRestriction", 0)),
    ]
    for scope, scope_id in nvml.SCOPES.items():
        for name, field in (("energy", nvml.ENERGY_FIELD), ("average power", nvml.AVERAGE_FIELD),
                            ("instant power", nvml.INSTANT_FIELD)):
            found.append((f"field {field} ({name}) of scope {scope}", lambda f=field, s=scope_id: gpu.field(f, s)))
    return found


def timed(function):
    """Returns the value or the error of a function, and the duration of REPEATS calls."""
    times, value, error = [], None, None
    for _ in range(REPEATS):
        begin = nvml.boottime_ns()
        try:
            value = function()
        except nvml.NvmlError as failure:
            error = str(failure)
        times.append((nvml.boottime_ns() - begin) / 1000)
        if error and len(times) >= 3:
            break
    times.sort()
    return {"value": value if not error else None, "error": error, "median_us": round(times[len(times) // 2], 1),
            "longest_us": round(times[-1], 1)}


def settings(gpu):
    """Returns all settings: the same after the check as before it."""
    found = {}
    for name, arguments in (("nvmlDeviceGetPowerManagementLimit", ()), ("nvmlDeviceGetPersistenceMode", ())):
        try:
            found[name] = gpu.number(name, *arguments)
        except nvml.NvmlError as error:
            found[name] = str(error)
    try:
        found["nvmlDeviceGetMigMode"] = gpu.numbers("nvmlDeviceGetMigMode", 2)
    except nvml.NvmlError as error:
        found["nvmlDeviceGetMigMode"] = str(error)
    return found


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None  # belongs to another user, or is outside of this container


def is_own(pid):
    """Returns whether it is a process of this check, such as one that hangs in the driver and cannot be ended."""
    mark = os.environ.get(RUN)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark is not None and f"{RUN}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def others(gpu, looks=LOOKS):
    """Returns who uses the GPU while this check does not: processes listed by NVML, and the utilization, since
    processes outside of a container are not visible inside."""
    found = {"processes": [], "utilisation_percent": None, "error": None}
    try:
        found["processes"] = [{"pid": pid, "name": name_of(pid), "memory_bytes": memory} for pid, memory in gpu.processes()
                              if not is_own(pid)]
        readings = []
        for look in range(looks):
            time.sleep(BETWEEN_LOOKS if look else 0)
            readings.append(gpu.numbers("nvmlDeviceGetUtilizationRates", 1, kind=ctypes.c_uint * 2)[0][0])
        found["utilisation_percent"] = min(readings, default=None)
    except nvml.NvmlError as error:
        found["error"] = str(error)
    return found


def used_by_others(found):
    """Returns the result of `others` in words; None if nobody else uses the GPU."""
    if not found:
        return None
    if found["processes"]:
        named = [f"{one['name'] or 'a process that is not visible here'} (process {one['pid']})" for one in found["processes"]]
        return ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
    if (found["utilisation_percent"] or 0) > BUSY:
        return f"something that NVML does not name: the GPU is busy {found['utilisation_percent']} % of the time without this check"
    return None


def clock_list(gpu):
    """Returns the graphics clocks for each memory clock, as first, last, number and steps."""
    clocks = {}
    for memory in gpu.list("nvmlDeviceGetSupportedMemoryClocks"):
        try:
            graphics = sorted(gpu.list("nvmlDeviceGetSupportedGraphicsClocks", memory))
        except nvml.NvmlError as error:
            clocks[str(memory)] = {"error": str(error)}
            continue
        steps = sorted({b - a for a, b in zip(graphics, graphics[1:])})
        clocks[str(memory)] = {"lowest_mhz": graphics[0], "highest_mhz": graphics[-1], "count": len(graphics),
                               "steps_mhz": steps}
    return clocks


def permissions():
    """Returns what this process may be able to set, by its user and capabilities."""
    with open("/proc/self/status", encoding="utf-8") as file:
        effective = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return {"root": os.geteuid() == 0, "CAP_SYS_ADMIN": bool(effective >> 21 & 1)}


def devices(context):
    """Returns the output of `harpe devices`, or the reason for its failure, so that other results are kept."""
    try:
        said = subprocess.run([context["harpe"], "devices", "--json"], capture_output=True, text=True, timeout=15)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"harpe_devices": None, "harpe_devices_error": f"{type(error).__name__}: {error}"}
    return {"harpe_devices": json.loads(said.stdout) if said.returncode == 0 else None,
            "harpe_devices_error": said.stderr.strip() or None}


def chosen_gpu(document):
    """Returns the NVIDIA GPU in `harpe devices` that this process would use, or None. A GPU that the user hides is
    never used."""
    found = [gpu for gpu in (document or {}).get("gpus", []) if gpu["backend"] in ("nvml", "sim")]
    visible = (document or {}).get("visible_gpus") or []
    first = None if "CUDA_VISIBLE_DEVICES" in os.environ or not found else found[0]
    return next((gpu for index in visible for gpu in found if gpu["index"] == index), first)


def run(context, emit):
    """Calls `emit` with partial results, so that they are kept if a call hangs."""
    result = {**devices(context), "permissions": permissions(), "calls": {}}
    emit(result)
    library = nvml.Nvml()
    result["driver_version"] = library.text_of("nvmlSystemGetDriverVersion")
    chosen = chosen_gpu(result["harpe_devices"])
    if chosen is None and "CUDA_VISIBLE_DEVICES" in os.environ:
        raise RuntimeError("skipped: CUDA_VISIBLE_DEVICES leaves no whole GPU to check")
    gpu = library.gpu(chosen["uuid"]) if chosen else library.first_gpu()
    for key, function in (("name", lambda: gpu.text("nvmlDeviceGetName")), ("uuid", lambda: gpu.text("nvmlDeviceGetUUID")),
                          ("others", lambda: others(gpu)),
                          ("clocks", lambda: clock_list(gpu)), ("settings", lambda: settings(gpu))):
        try:
            result[key] = function()
        except nvml.NvmlError as error:
            result[key] = {"error": str(error)}
        emit(result)
    for name, function in calls(gpu):
        result["calls"][name] = {"error": "it did not return", "value": None, "median_us": None, "longest_us": None}
        emit(result)
        result["calls"][name] = timed(function)
    result["not_supported"] = sorted(name for name, one in result["calls"].items() if one["error"])
    result["not_told"] = NONE_OF
    emit(result)
