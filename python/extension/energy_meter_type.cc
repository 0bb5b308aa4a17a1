// harpe._client.EnergyMeter: the energy of this machine's devices in windows
// (measure/energy_monitor.h), for harpe.measure; and the carbon intensities that need no provider.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
// Python requires Python.h to come first.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon/intensity.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "types.h"

namespace harpe {

PyObject* estimate_object(const EnergyEstimate& estimate) {
  PyObject* none = Py_None;
  const bool is_read = estimate.source != EnergySource::kNone;
  const std::string source(is_read ? source_name(estimate.source) : "");
  PyObject* joules = is_read ? PyFloat_FromDouble(estimate.energy.value) : Py_NewRef(none);
  PyObject* error =
      error_known(estimate) ? PyFloat_FromDouble(estimate.error.value) : Py_NewRef(none);
  return Py_BuildValue("(NNddsdd)", joules, error, estimate.sensor_error.value, estimate.time.value,
                       source.c_str(), estimate.unobserved.value, estimate.missing.value);
}

namespace {

// Five steps of typical counters.
constexpr Seconds kLead{0.5};
// Working devices settle within about half a second.
constexpr Seconds kLongestSettling{2}, kLongestStop{0.2};

/// The devices and their monitor. Calls may come from any thread.
class Meter {
 public:
  static Result<std::shared_ptr<Meter>> open(const std::string& gpus) {
    auto meter = std::make_shared<Meter>();
    meter->devices_ = HARPE_TRY(open_devices(DeviceOptions::of_environment()));
    std::vector<GpuIdentity> identities;
    for (const auto& gpu : meter->devices_.gpus) identities.push_back(gpu->identity());
    device::GpuChoice choice = HARPE_TRY(
        device::choose_gpus(gpus, identities, device::VisibilityVariables::of_environment()));
    if (gpus.empty()) std::ranges::sort(choice.gpus);
    std::vector<Gpu*> chosen;
    for (const int gpu : choice.gpus) {
      chosen.push_back(meter->devices_.gpus[static_cast<std::size_t>(gpu)].get());
      meter->simulated_ |= chosen.back()->identity().backend == "sim";
    }
    meter->notes_ = std::move(choice.notes);
    std::vector<Cpu*> cpus;
    for (const auto& cpu : meter->devices_.cpus) cpus.push_back(cpu.get());
    meter->monitor_ = HARPE_TRY(EnergyMonitor::start(chosen, cpus, {}, system_clock()));
    return meter;
  }

  Meter() = default;
  ~Meter() {
    if (monitor_ == nullptr || monitor_->stop(kLongestStop)) return;
    // A driver call is still running: its thread and everything it uses must stay alive.
    (void)monitor_.release();
    (void)std::make_unique<Devices>(std::move(devices_)).release();
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// \param with_lead  reads the devices for a while before the window, to know their earlier state
  Status begin(const std::string& name, bool with_lead) {
    if (!with_lead || devices_.gpus.empty()) return monitor_->begin(name);
    const std::string lead = name + " (before)";
    HARPE_TRY(monitor_->begin(lead));
    system_clock().sleep_until(system_clock().now() + kLead);
    const Status begun = monitor_->begin(name);
    (void)monitor_->cancel(lead);
    return begun;
  }

  /// \param settles  reads the devices until their counters have stepped after the end
  Result<WindowEnergy> end(const std::string& name, bool settles) {
    return settles ? end_settled(*monitor_, name, kLongestSettling, system_clock())
                   : monitor_->end(name);
  }

  EnergyMonitor& monitor() const { return *monitor_; }
  const Devices& devices() const { return devices_; }
  bool simulated() const { return simulated_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Devices devices_;
  std::vector<std::string> notes_;
  bool simulated_ = false;
  std::unique_ptr<EnergyMonitor> monitor_;  ///< destroyed before the devices
};

struct MeterObject {
  PyObject_HEAD                      // NOLINT
      std::shared_ptr<Meter>* held;  ///< null: closed, or never opened
};

/// Returns a share of the meter, unaffected by `close` in another thread; null with an exception.
std::shared_ptr<Meter> meter_of(PyObject* self) {
  const auto* held = reinterpret_cast<MeterObject*>(self)->held;
  if (held != nullptr) return *held;
  PyErr_SetString(PyExc_RuntimeError, "this meter has been closed");
  return nullptr;
}

PyObject* text_object(std::string_view text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

/// Returns (label, name, uuid, estimate, problem or None, throttled share, why).
PyObject* device_object(const DeviceEnergy& device) {
  PyObject* problem = device.error ? text_object(device.error->text()) : Py_NewRef(Py_None);
  const std::string reasons = device.reasons.throttled() ? device.reasons.text() : "";
  return Py_BuildValue("(NNNNNdN)", text_object(device.label()), text_object(device.name),
                       text_object(device.uuid), estimate_object(device.energy), problem,
                       device.throttled_share, text_object(reasons));
}

/// Returns (started_at, seconds, total, devices); null with an exception.
PyObject* window_object(const Result<WindowEnergy>& window) {
  if (!window.ok()) {
    set_error(window.error());
    return nullptr;
  }
  EnergyEstimate total = total_of(*window);
  PyObject* devices = list_of(window->devices, device_object);
  if (devices == nullptr) return nullptr;
  return Py_BuildValue("(ddNN)", window->started_at, window->time.value, estimate_object(total),
                       devices);
}

int initialize(PyObject* self, PyObject* arguments, PyObject* /*keywords*/) {
  const char* gpus = nullptr;
  if (PyArg_ParseTuple(arguments, "s:EnergyMeter", &gpus) == 0) return -1;
  auto& held = reinterpret_cast<MeterObject*>(self)->held;
  if (held != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this meter has been opened already");
    return -1;
  }
  std::optional<Result<std::shared_ptr<Meter>>> meter;
  const std::string chosen = gpus;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      meter = Meter::open(chosen);
  Py_END_ALLOW_THREADS  // NOLINT
      if (!meter->ok()) {
    set_error(meter->error());
    return -1;
  }
  held = std::make_unique<std::shared_ptr<Meter>>(**std::move(meter)).release();
  return 0;
}

/// Waits a short time for drivers.
void close_meter(PyObject* self) {
  auto* held = std::exchange(reinterpret_cast<MeterObject*>(self)->held, nullptr);
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      delete held;
  Py_END_ALLOW_THREADS  // NOLINT
}

void deallocate(PyObject* self) {
  close_meter(self);
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* begin(PyObject* self, PyObject* arguments) {
  const char* name = nullptr;
  int with_lead = 0;
  if (PyArg_ParseTuple(arguments, "sp:begin", &name, &with_lead) == 0) return nullptr;
  const auto meter = meter_of(self);
  if (meter == nullptr) return nullptr;
  Status begun = ok_status();
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      begun = meter->begin(name, with_lead != 0);
  Py_END_ALLOW_THREADS  // NOLINT
      if (begun.ok()) return Py_NewRef(Py_None);
  set_error(begun.error());
  return nullptr;
}

PyObject* end(PyObject* self, PyObject* arguments) {
  const char* name = nullptr;
  int settles = 0;
  if (PyArg_ParseTuple(arguments, "sp:end", &name, &settles) == 0) return nullptr;
  const auto meter = meter_of(self);
  if (meter == nullptr) return nullptr;
  std::optional<Result<WindowEnergy>> used;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      used = meter->end(name, settles != 0);
  Py_END_ALLOW_THREADS  // NOLINT
      return window_object(*used);
}

PyObject* so_far(PyObject* self, PyObject* arguments) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "s:so_far", &name) == 0) return nullptr;
  const auto meter = meter_of(self);
  if (meter == nullptr) return nullptr;
  std::optional<Result<WindowEnergy>> used;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      used = meter->monitor().so_far(name);
  Py_END_ALLOW_THREADS  // NOLINT
      return window_object(*used);
}

PyObject* close(PyObject* self, PyObject* /*unused*/) {
  close_meter(self);
  return Py_NewRef(Py_None);
}

/// Returns (name, detail) of each backend, available or not.
PyObject* backends(PyObject* self, void* /*unused*/) {
  const auto meter = meter_of(self);
  if (meter == nullptr) return nullptr;
  return list_of(meter->devices().backends, [](const BackendState& backend) {
    return Py_BuildValue("(NN)", text_object(backend.name), text_object(backend.detail));
  });
}

PyObject* notes(PyObject* self, void* /*unused*/) {
  const auto meter = meter_of(self);
  return meter == nullptr ? nullptr : list_of(meter->notes(), text_object);
}

PyObject* simulated(PyObject* self, void* /*unused*/) {
  const auto meter = meter_of(self);
  return meter == nullptr ? nullptr : PyBool_FromLong(meter->simulated() ? 1 : 0);
}

PyMethodDef methods[] = {  // NOLINT: CPython keeps a pointer that is not const
    {"begin", begin, METH_VARARGS, "begin(name, with_lead)\n--\n\nA window begins."},
    {"end", end, METH_VARARGS, "end(name, settles)\n--\n\nA window ends; what it used."},
    {"so_far", so_far, METH_VARARGS, "so_far(name)\n--\n\nThe same without ending it."},
    {"close", close, METH_NOARGS, "close()\n--\n\nLets the devices go."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {  // NOLINT
    {"backends", backends, nullptr, "What became of each way to find devices.", nullptr},
    {"notes", notes, nullptr, "What a user should know about the GPUs chosen.", nullptr},
    {"simulated", simulated, nullptr, "Some of the GPUs are.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {  // NOLINT
    {Py_tp_init, reinterpret_cast<void*>(initialize)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("EnergyMeter(gpus)\n--\n\nOf harpe.measure.")},
    {0, nullptr}};

PyType_Spec specification = {  // NOLINT
    "harpe._client.EnergyMeter", sizeof(MeterObject), 0, Py_TPFLAGS_DEFAULT, slots};

/// carbon_intensity(text): returns (g/kWh, kind, zone, source).
PyObject* carbon_intensity(PyObject* /*module*/, PyObject* arguments) {
  const char* text = nullptr;
  if (PyArg_ParseTuple(arguments, "s:carbon_intensity", &text) == 0) return nullptr;
  const Result<CarbonIntensity> intensity = parse_intensity(text);
  if (!intensity.ok()) {
    set_error(intensity.error());
    return nullptr;
  }
  return Py_BuildValue("(dNNN)", intensity->grams_per_kwh, text_object(text_of(intensity->kind)),
                       text_object(intensity->zone), text_object(intensity->source));
}

PyMethodDef functions[] = {  // NOLINT: as above
    {"carbon_intensity", carbon_intensity, METH_VARARGS,
     "carbon_intensity(text)\n--\n\nA number in g/kWh, or a country's yearly mean."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_energy_meter(PyObject* module) {
  PyObject* type = PyType_FromSpec(&specification);
  if (type == nullptr) return -1;
  const int added = PyModule_AddObjectRef(module, "EnergyMeter", type);
  Py_DECREF(type);
  return added != 0 ? -1 : PyModule_AddFunctions(module, functions);
}

}  // namespace harpe
