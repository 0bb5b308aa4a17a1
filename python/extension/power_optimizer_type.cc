// harpe._client.PowerOptimizer: chooses the clock or power limit of a training's GPUs from inside
// the training (tuning/power_optimizer.h). Reductions over a job's processes are Python functions.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
// Python requires Python.h to come first.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/zeus/tuning/power_optimizer.h"
#include "types.h"

namespace harpe {
namespace {

std::string text_of_exception(PyObject* value) {
  PyObject* text = value == nullptr ? nullptr : PyObject_Str(value);
  PyObject* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8String(text);
  const char* characters = bytes == nullptr ? nullptr : PyBytes_AsString(bytes);
  std::string found = characters == nullptr ? "" : characters;
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  PyErr_Clear();
  return found.empty() ? "an exception without words" : found;
}

/// A callable `reduce("sum" or "max", [numbers])` that returns as many numbers.
class PythonReduction {
 public:
  explicit PythonReduction(PyObject* reduce) : reduce_(reduce) { Py_INCREF(reduce_); }
  ~PythonReduction() {
    if (Py_IsInitialized() == 0) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(reduce_);
    PyGILState_Release(state);
  }
  PythonReduction(const PythonReduction&) = delete;
  PythonReduction& operator=(const PythonReduction&) = delete;

  /// \param how  "sum" or "max"
  Status reduce(const char* how, std::span<double> values) {
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool reduced = call(how, values);
    std::string why;
    if (!reduced) why = failure();
    PyGILState_Release(state);
    if (reduced) return ok_status();
    return Error::of(ErrorCode::kUnavailable, "all_reduce failed: " + why);
  }

  /// Raises a pending exception that is not an error, such as KeyboardInterrupt, in the caller.
  bool raise_pending() {
    if (pending_ == nullptr) return false;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(pending_)), pending_);
    Py_CLEAR(pending_);
    return true;
  }

 private:
  bool call(const char* how, std::span<double> values) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
    for (std::size_t i = 0; list != nullptr && i < values.size(); ++i) {
      PyObject* number = PyFloat_FromDouble(values[i]);
      if (number == nullptr || PyList_SetItem(list, static_cast<Py_ssize_t>(i), number) != 0) {
        Py_CLEAR(list);
      }
    }
    PyObject* result = list == nullptr ? nullptr : PyObject_CallFunction(reduce_, "sO", how, list);
    Py_XDECREF(list);
    const bool is_taken = result != nullptr && take(result, values);
    Py_XDECREF(result);
    return is_taken;
  }

  static bool take(PyObject* result, std::span<double> values) {
    const Py_ssize_t size = PySequence_Size(result);
    if (size < 0) return false;
    if (static_cast<std::size_t>(size) != values.size()) {
      PyErr_SetString(PyExc_ValueError, "it gave another number of values than it was given");
      return false;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      PyObject* item = PySequence_GetItem(result, static_cast<Py_ssize_t>(i));
      if (item == nullptr) return false;
      values[i] = PyFloat_AsDouble(item);
      Py_DECREF(item);
      if (PyErr_Occurred() != nullptr) return false;
    }
    return true;
  }

  std::string failure() {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    const bool is_error =
        type == nullptr || PyErr_GivenExceptionMatches(type, PyExc_Exception) != 0;
    if (!is_error && pending_ == nullptr) {
      Py_XINCREF(value);
      pending_ = value;
    }
    std::string text = text_of_exception(value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return text;
  }

  PyObject* reduce_;
  PyObject* pending_ = nullptr;
};

struct Held {
  std::unique_ptr<PythonReduction> reduction;  ///< null: this process is the whole job
  std::unique_ptr<PowerOptimizer> optimizer;

  bool raise_pending() const { return reduction != nullptr && reduction->raise_pending(); }
};

struct OptimizerObject {
  PyObject_HEAD  // NOLINT
      Held* held;
};

Held* held_by(PyObject* self) {
  return reinterpret_cast<OptimizerObject*>(self)->held;
}

/// Python arguments as numbers and texts; negative or empty: not given.
struct Arguments {
  PyObject* reduce = nullptr;
  const char *what = nullptr, *gpus = nullptr, *profile = nullptr, *socket = nullptr,
             *job = nullptr;
  double eta = -1, most_slowdown = -1, host_power = 0;
  int measures_node = 0, writes_profile = 0, local_rank = -1, batch_size = 1;
};

Result<PowerOptimizerOptions::Optimize> parse_optimize(std::string_view text) {
  using Optimize = PowerOptimizerOptions::Optimize;
  if (text == "energy") return Optimize::kEnergy;
  if (text == "time") return Optimize::kTime;
  if (text == "cost") return Optimize::kCost;
  return Error::invalid("optimize is \"energy\", \"time\" or \"cost\", not " + in_quotes(text));
}

JobReductions reductions_by(PythonReduction& reduction) {
  return {
      .sum = [&reduction](std::span<double> values) { return reduction.reduce("sum", values); },
      .max = [&reduction](std::span<double> values) { return reduction.reduce("max", values); }};
}

Result<PowerOptimizerOptions> options_of(const Arguments& given) {
  PowerOptimizerOptions options{.optimize = HARPE_TRY(parse_optimize(given.what)),
                                .host_power = {given.host_power},
                                .measures_node = given.measures_node != 0,
                                .gpus = given.gpus,
                                .profile = given.profile,
                                .writes_profile = given.writes_profile != 0,
                                .job = given.job,
                                .batch_size = given.batch_size,
                                .socket = given.socket};
  if (given.eta >= 0) options.eta = given.eta;
  if (given.most_slowdown >= 0) options.most_slowdown = given.most_slowdown;
  if (given.local_rank >= 0) options.local_rank = given.local_rank;
  return options;
}

int initialize(PyObject* self, PyObject* arguments, PyObject* /*keywords*/) {
  Arguments given;
  if (PyArg_ParseTuple(arguments, "Osdddpsisssip:PowerOptimizer", &given.reduce, &given.what,
                       &given.eta, &given.most_slowdown, &given.host_power, &given.measures_node,
                       &given.gpus, &given.local_rank, &given.profile, &given.socket, &given.job,
                       &given.batch_size, &given.writes_profile) == 0) {
    return -1;
  }
  auto& held = reinterpret_cast<OptimizerObject*>(self)->held;
  if (held != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this optimizer has been started already");
    return -1;
  }
  Result<PowerOptimizerOptions> options = options_of(given);
  if (!options.ok()) {
    set_error(options.error());
    return -1;
  }
  auto own = std::make_unique<Held>();
  JobReductions reductions;
  if (given.reduce != Py_None) {
    own->reduction = std::make_unique<PythonReduction>(given.reduce);
    reductions = reductions_by(*own->reduction);
  }
  std::optional<Error> error;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      auto started = PowerOptimizer::start(*options, std::move(reductions));
  if (started.ok()) {
    own->optimizer = *std::move(started);
  } else {
    error = started.error();
  }
  Py_END_ALLOW_THREADS  // NOLINT
      if (error) {
    set_error(*error);
    return -1;
  }
  if (own->raise_pending()) return -1;
  held = own.release();
  return 0;
}

void deallocate(PyObject* self) {
  std::unique_ptr<Held> held(
      std::exchange(reinterpret_cast<OptimizerObject*>(self)->held, nullptr));
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      held.reset();
  Py_END_ALLOW_THREADS  // NOLINT
      PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* on_step_begin(PyObject* self, PyObject* /*unused*/) {
  Held* held = held_by(self);
  if (held == nullptr) return PyBool_FromLong(0);
  bool profiles = false;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      profiles = held->optimizer->on_step_begin();
  Py_END_ALLOW_THREADS  // NOLINT
      if (held->raise_pending()) return nullptr;
  return PyBool_FromLong(profiles ? 1 : 0);
}

PyObject* on_epoch_end(PyObject* self, PyObject* /*unused*/) {
  Held* held = held_by(self);
  if (held != nullptr) {
    Py_BEGIN_ALLOW_THREADS  // NOLINT
        held->optimizer->on_epoch_end();
    Py_END_ALLOW_THREADS  // NOLINT
        if (held->raise_pending()) return nullptr;
  }
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* finish(PyObject* self, PyObject* /*unused*/) {
  Held* held = held_by(self);
  std::string text = "{}";
  if (held != nullptr) {
    Py_BEGIN_ALLOW_THREADS  // NOLINT
        text = held->optimizer->finish().json;
    Py_END_ALLOW_THREADS  // NOLINT
  }
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyMethodDef methods[] = {  // NOLINT: CPython keeps a pointer that is not const
    {"on_step_begin", on_step_begin, METH_NOARGS, "Whether settings are still tried."},
    {"on_epoch_end", on_epoch_end, METH_NOARGS, "What follows is no step."},
    {"finish", finish, METH_NOARGS, "Restores what was found; the report, as JSON."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {  // NOLINT
    {Py_tp_init, reinterpret_cast<void*>(initialize)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("Of harpe.PowerOptimizer.")},
    {0, nullptr}};

PyType_Spec specification = {  // NOLINT
    "harpe._client.PowerOptimizer", sizeof(OptimizerObject), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

int add_power_optimizer(PyObject* module) {
  PyObject* type = PyType_FromSpec(&specification);
  if (type == nullptr) return -1;
  const int added = PyModule_AddObjectRef(module, "PowerOptimizer", type);
  Py_DECREF(type);
  return added;
}

}  // namespace harpe
