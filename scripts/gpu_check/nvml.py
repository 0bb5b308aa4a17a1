"""A reader of NVML by ctypes, independent of Harpe's library. It binds functions that read and no others."""

import ctypes
import os
import time

SUCCESS, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 0, 3, 4, 13
SCOPES = {"gpu": 0, "module": 1, "memory": 2}
ENERGY_FIELD, AVERAGE_FIELD, INSTANT_FIELD = 83, 185, 186
GRAPHICS, SM, MEMORY = 0, 1, 2
UNSIGNED_INT, UNSIGNED_LONG_LONG = 1, 3


class NvmlError(RuntimeError):
    """A failed call; `code` is NVML's."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Value(ctypes.Union):
    _fields_ = [("double", ctypes.c_double), ("uint", ctypes.c_uint), ("ulonglong", ctypes.c_ulonglong),
                ("longlong", ctypes.c_longlong), ("int", ctypes.c_int)]


class _Process(ctypes.Structure):
    # The struct of nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


class _FieldValue(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("type", ctypes.c_uint), ("code", ctypes.c_int), ("value", _Value)]


def boottime_ns():
    """Returns the time on the clock that Harpe uses."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Nvml:
    """An initialized NVML. `library` is a file name for the loader."""

    def __init__(self, library=None):
        library = library or os.environ.get("GPU_CHECK_NVML") or "libnvidia-ml.so.1"
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(FUNCTION_NOT_FOUND, f"there is no NVIDIA driver: {error}") from error
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self.check(self._library.nvmlInit_v2())

    def text(self, code):
        return (self._library.nvmlErrorString(code) or b"").decode(errors="replace")

    def check(self, code):
        if code != SUCCESS:
            raise NvmlError(code, self.text(code))

    def call(self, name, *arguments):
        """Returns NVML's code, or FUNCTION_NOT_FOUND if this driver lacks the function."""
        if not name.startswith(("nvmlDeviceGet", "nvmlSystemGet")):
            raise ValueError(f"{name} does not only read")
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return FUNCTION_NOT_FOUND
        return function(*arguments)

    def text_of(self, name, *arguments):
        buffer = ctypes.create_string_buffer(128)
        self.check(self.call(name, *arguments, buffer, len(buffer)))
        return buffer.value.decode(errors="replace")

    def gpu(self, uuid):
        handle = ctypes.c_void_p()
        self.check(self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle)))
        return NvmlGpu(self, handle)

    def first_gpu(self):
        handle = ctypes.c_void_p()
        self.check(self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(handle)))
        return NvmlGpu(self, handle)


class NvmlGpu:
    def __init__(self, nvml, handle):
        self.nvml, self.handle = nvml, handle
        self._number, self._wide = ctypes.c_uint(), ctypes.c_ulonglong()
        self._energy = getattr(nvml._library, "nvmlDeviceGetTotalEnergyConsumption", None)

    def number(self, name, *arguments):
        """Returns the unsigned int that a function writes."""
        self.nvml.check(self.nvml.call(name, self.handle, *arguments, ctypes.byref(self._number)))
        return self._number.value

    def numbers(self, name, count, *arguments, kind=ctypes.c_uint):
        values = [kind() for _ in range(count)]
        self.nvml.check(self.nvml.call(name, self.handle, *arguments, *map(ctypes.byref, values)))
        return [list(value) if isinstance(value, ctypes.Array) else value.value for value in values]

    def text(self, name):
        return self.nvml.text_of(name, self.handle)

    def list(self, name, *arguments, most=1024):
        count, values = ctypes.c_uint(most), (ctypes.c_uint * most)()
        self.nvml.check(self.nvml.call(name, self.handle, *arguments, ctypes.byref(count), values))
        return list(values[:count.value])

    def processes(self, most=256):
        """Returns (pid, bytes of its memory) of the processes that compute on the GPU and are visible to this one."""
        code = FUNCTION_NOT_FOUND
        for version in ("_v3", "_v2"):
            count, found = ctypes.c_uint(most), (_Process * most)()
            code = self.nvml.call("nvmlDeviceGetComputeRunningProcesses" + version, self.handle, ctypes.byref(count), found)
            if code != FUNCTION_NOT_FOUND:
                break
        self.nvml.check(code)
        return [(one.pid, one.memory) for one in found[:count.value]]

    def energy_mj(self):
        if self._energy is None:
            raise NvmlError(FUNCTION_NOT_FOUND, self.nvml.text(FUNCTION_NOT_FOUND))
        self.nvml.check(self._energy(self.handle, ctypes.byref(self._wide)))
        return self._wide.value

    def field(self, field, scope=0):
        value = _FieldValue(field=field, scope=scope)
        self.nvml.check(self.nvml.call("nvmlDeviceGetFieldValues", self.handle, 1, ctypes.byref(value)))
        self.nvml.check(value.code)
        if value.type == 0:
            return value.value.double
        return value.value.ulonglong if value.type in (2, UNSIGNED_LONG_LONG) else value.value.uint

    def reasons(self):
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            code = self.nvml.call(name, self.handle, ctypes.byref(self._wide))
            if code == SUCCESS:
                return self._wide.value
        self.nvml.check(code)
        return None


def power_readers(gpu):
    """Returns functions that read instant and average power in mW, None if unavailable, and the scope of instant
    power."""
    instant = average = scope = None
    for name, number in (("gpu", 0), ("module", 1)):
        try:
            gpu.field(INSTANT_FIELD, number)
        except NvmlError:
            continue
        scope = name
        instant = lambda: gpu.field(INSTANT_FIELD, number)  # noqa: E731, B023
        try:
            gpu.field(AVERAGE_FIELD, number)
            average = lambda: gpu.field(AVERAGE_FIELD, number)  # noqa: E731, B023
        except NvmlError:
            pass
        break
    if average is None:
        try:
            gpu.number("nvmlDeviceGetPowerUsage")
            average = lambda: gpu.number("nvmlDeviceGetPowerUsage")  # noqa: E731
            scope = scope or "gpu"
        except NvmlError:
            pass
    return instant, average, scope
