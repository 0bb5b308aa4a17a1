// harpe._client.measure_recorded: estimates windows of a finished recording of a GPU's sensors
// (measure/recorded_windows.h). For scripts/gpu_check.sh; not part of the package's interface.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
// Python requires Python.h to come first.
#include <cstring>
#include <optional>
#include <vector>

#include "harpe/device/measure/recorded_windows.h"
#include "types.h"

namespace harpe {
namespace {

/// Returns the items packed in `bytes`; nullopt with an exception.
template <class Item>
std::optional<std::vector<Item>> unpack(const char* bytes, Py_ssize_t size, const char* what) {
  const auto length = static_cast<std::size_t>(size);
  if (length % sizeof(Item) != 0) {
    PyErr_Format(PyExc_ValueError, "%s is no multiple of %zu bytes", what, sizeof(Item));
    return {};
  }
  std::vector<Item> items(length / sizeof(Item));
  if (length > 0) std::memcpy(items.data(), bytes, length);
  return items;
}

static_assert(sizeof(device::RecordedReading) == 24 && sizeof(TimeSpan) == 16,
              "as struct packs them");

PyObject* measure(PyObject* /*module*/, PyObject* arguments) {
  const char *counter = nullptr, *power = nullptr, *spans = nullptr;
  Py_ssize_t counter_size = 0, power_size = 0, spans_size = 0;
  int is_average = 0, settles = 0;
  double highest_power = 0;
  unsigned long long seed = 0;
  if (PyArg_ParseTuple(arguments, "y#y#pdy#pK:measure_recorded", &counter, &counter_size, &power,
                       &power_size, &is_average, &highest_power, &spans, &spans_size, &settles,
                       &seed) == 0)
    return nullptr;
  auto counter_readings = unpack<device::RecordedReading>(counter, counter_size, "counter");
  auto power_readings = unpack<device::RecordedReading>(power, power_size, "power");
  const auto windows = unpack<TimeSpan>(spans, spans_size, "windows");
  if (!counter_readings || !power_readings || !windows) return nullptr;
  const device::SensorRecording recording{.counter = *std::move(counter_readings),
                                          .power = *std::move(power_readings),
                                          .power_is_average = is_average != 0,
                                          .highest_power = {highest_power}};
  std::optional<Result<std::vector<EnergyEstimate>>> estimates;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      estimates =
          device::measure_recorded(recording, *windows, {.settles = settles != 0, .seed = seed});
  Py_END_ALLOW_THREADS  // NOLINT
      if (!estimates->ok()) {
    set_error(estimates->error());
    return nullptr;
  }
  return list_of(**estimates, estimate_object);
}

PyMethodDef functions[] = {  // NOLINT: CPython keeps a pointer that is not const
    {"measure_recorded", measure, METH_VARARGS,
     "measure_recorded(counter, power, power_is_average, highest_power, windows, settles, seed)\n"
     "--\n\nEnergy in windows of a recording. Readings are packed as struct's qqd (begin and end "
     "in "
     "ns, J or W), windows as qq."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_measure_recorded(PyObject* module) {
  return PyModule_AddFunctions(module, functions);
}

}  // namespace harpe
