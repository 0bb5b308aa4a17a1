// harpe._client: the rank client as a Python type. Uses only CPython's limited API of 3.10, so that
// one built module works with all later interpreters. Calls create no argument tuples
// (METH_FASTCALL), because training calls them around every instruction.
//
// Nothing here raises once a client has been created: training continues, and an invalid call is
// logged once.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
// Python requires Python.h to come first.
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/rank_client_options.h"
#include "types.h"

namespace harpe {
namespace {

/// Messages for the user, on standard error and in `events()`. Thread-safe. Does not take Python's
/// lock, since the client's own threads call it.
class Events {
 public:
  void add(const std::string& text) {
    std::fprintf(stderr, "harpe: %s\n", text.c_str());
    const MutexLock lock(mutex_);
    if (texts_.size() >= kMost) texts_.pop_front();
    texts_.push_back(text);
  }
  std::vector<std::string> all() const {
    const MutexLock lock(mutex_);
    return {texts_.begin(), texts_.end()};
  }

 private:
  static constexpr std::size_t kMost = 100;
  mutable Mutex mutex_;
  std::deque<std::string> texts_ HARPE_GUARDED_BY(mutex_);
};

/// The C++ part of a Python object.
struct Held {
  std::unique_ptr<RankClient> client;
  RankClient::Counts last;  ///< after the client has been closed
  std::shared_ptr<Events> events = std::make_shared<Events>();
  pid_t process = ::getpid();
  bool told_misuse = false;
};

struct ClientObject {
  PyObject_HEAD  // NOLINT
      Held* held;
  PyObject* kinds;  // names of instructions -> numbers
};

ClientObject* of(PyObject* self) {
  return reinterpret_cast<ClientObject*>(self);
}

PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

std::string text_of(PyObject* object) {
  PyObject* representation = PyObject_Repr(object);
  PyObject* bytes = representation == nullptr ? nullptr : PyUnicode_AsUTF8String(representation);
  const char* characters = bytes == nullptr ? nullptr : PyBytes_AsString(bytes);
  std::string text = characters == nullptr ? "?" : std::string(characters).substr(0, 80);
  Py_XDECREF(bytes);
  Py_XDECREF(representation);
  PyErr_Clear();
  return text;
}

/// Logs an invalid call, once. The call is then ignored.
PyObject* misused(ClientObject* self, const std::string& what) {
  PyErr_Clear();
  Held* held = self->held;
  if (held != nullptr && !std::exchange(held->told_misuse, true)) {
    held->events->add(what + "; such calls are ignored");
  }
  return none();
}

RankClient* client_of(ClientObject* self) {
  return self->held == nullptr ? nullptr : self->held->client.get();
}

/// Ends the client without blocking other Python threads. In a child of `fork` the client is left
/// as it is: its threads belong to the parent.
void end_client(Held* held) {
  if (held->client == nullptr) return;
  held->last = held->client->counts();
  std::unique_ptr<RankClient> client = std::move(held->client);
  if (::getpid() != held->process) {
    (void)client.release();
    return;
  }
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      client.reset();
  Py_END_ALLOW_THREADS  // NOLINT
}

// --- Construction -------------------------------------------------------------------------------

PyObject* make_kinds() {
  PyObject* kinds = PyDict_New();
  for (int i = 0; kinds != nullptr && i < kInstructionKinds; ++i) {
    const std::string_view word = name(static_cast<InstructionKind>(i));
    PyObject* key = PyUnicode_FromStringAndSize(word.data(), static_cast<Py_ssize_t>(word.size()));
    PyObject* value = PyLong_FromLong(i);
    const bool set = key != nullptr && value != nullptr && PyDict_SetItem(kinds, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    if (!set) Py_CLEAR(kinds);
  }
  return kinds;
}

/// RankClient(options: str): options as JSON, completed from the environment.
int initialize(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const char* text = nullptr;
  Py_ssize_t size = 0;
  if (keywords != nullptr && PyDict_Size(keywords) > 0) {
    PyErr_SetString(PyExc_TypeError, "RankClient takes one text and no keywords");
    return -1;
  }
  if (PyArg_ParseTuple(arguments, "s#:RankClient", &text, &size) == 0) return -1;
  ClientObject* object = of(self);
  if (object->held != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this client has been started already");
    return -1;
  }
  object->kinds = make_kinds();
  if (object->kinds == nullptr) return -1;
  auto held = std::make_unique<Held>();
  std::optional<Error> error;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      auto options = parse_rank_client_options({text, static_cast<std::size_t>(size)});
  if (options.ok()) {
    options->log = [events = held->events](const std::string& line) { events->add(line); };
    auto client = RankClient::start(*std::move(options));
    if (client.ok()) {
      held->client = *std::move(client);
    } else {
      error = client.error();
    }
  } else {
    error = options.error();
  }
  Py_END_ALLOW_THREADS  // NOLINT
      if (error) {
    set_error(*error);
    return -1;
  }
  object->held = held.release();
  return 0;
}

void deallocate(PyObject* self) {
  ClientObject* object = of(self);
  if (object->held != nullptr) {
    end_client(object->held);
    delete object->held;
  }
  Py_XDECREF(object->kinds);
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// --- Around instructions ------------------------------------------------------------------------

/// Returns the number in an argument, or nullopt if it is not a number in range.
std::optional<int> number_in(PyObject* argument) {
  if (PyLong_Check(argument) == 0) return std::nullopt;
  const long number = PyLong_AsLong(argument);
  if (number == -1 && PyErr_Occurred() != nullptr) return std::nullopt;
  if (number < -1 || number > 0x7fffffff) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<InstructionKind> kind_in(ClientObject* self, PyObject* argument) {
  PyObject* number = argument;
  if (PyUnicode_Check(argument) != 0) {
    number = PyDict_GetItemWithError(self->kinds, argument);
    if (number == nullptr) return std::nullopt;
  }
  const auto kind = number_in(number);
  if (!kind || *kind < 0 || *kind >= kInstructionKinds) return std::nullopt;
  return static_cast<InstructionKind>(*kind);
}

constexpr const char* kParameters[] = {"kind", "chunk", "micro_batch"};

/// Returns the index of the parameter that a keyword names, or -1.
int parameter(PyObject* keyword) {
  for (int i = 0; i < 3; ++i) {
    if (PyUnicode_CompareWithASCIIString(keyword, kParameters[i]) == 0) return i;
  }
  return -1;
}

PyObject* on_instruction_begin(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords) {
  ClientObject* object = of(self);
  RankClient* client = client_of(object);
  if (client == nullptr) return none();
  PyObject* given[3] = {nullptr, nullptr, nullptr};
  if (count > 3) return misused(object, "on_instruction_begin takes kind, chunk and micro_batch");
  for (Py_ssize_t i = 0; i < count; ++i) given[i] = arguments[i];
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const int which = parameter(PyTuple_GetItem(keywords, i));
    if (which < 0 || given[which] != nullptr) {
      return misused(object, "on_instruction_begin takes kind, chunk and micro_batch");
    }
    given[which] = arguments[count + i];
  }
  if (given[0] == nullptr) return misused(object, "on_instruction_begin needs a kind");
  const auto kind = kind_in(object, given[0]);
  if (!kind) {
    return misused(object, text_of(given[0]) + " is no instruction, such as \"forward\"");
  }
  const auto chunk = given[1] == nullptr ? 0 : number_in(given[1]);
  const auto micro_batch = given[2] == nullptr ? -1 : number_in(given[2]);
  if (!chunk || *chunk < 0) {
    return misused(object, "a chunk is a whole number from 0, not " + text_of(given[1]));
  }
  if (!micro_batch) {
    return misused(object, "a micro-batch is a whole number from 0, not " + text_of(given[2]));
  }
  client->on_instruction_begin(*kind, *chunk, *micro_batch);
  return none();
}

PyObject* on_instruction_end(PyObject* self, PyObject* /*unused*/) {
  if (RankClient* client = client_of(of(self))) client->on_instruction_end();
  return none();
}

PyObject* on_iteration_begin(PyObject* self, PyObject* argument) {
  RankClient* client = client_of(of(self));
  if (client == nullptr) return none();
  const long long iteration = PyLong_Check(argument) != 0 ? PyLong_AsLongLong(argument) : -1;
  if (iteration < 0) {
    return misused(of(self), "an iteration is a whole number from 0, not " + text_of(argument));
  }
  client->on_iteration_begin(iteration);
  return none();
}

/// Returns the spans given as begins and ends in nanoseconds, alternating.
std::optional<std::vector<TimeSpan>> spans_in(PyObject* times) {
  std::vector<TimeSpan> spans;
  const Py_ssize_t size = PySequence_Size(times);
  if (size < 0 || size % 2 != 0) return std::nullopt;
  for (Py_ssize_t i = 0; i < size; i += 2) {
    TimeSpan span;
    for (Instant* into : {&span.begin, &span.end}) {
      PyObject* item = PySequence_GetItem(times, into == &span.begin ? i : i + 1);
      if (item == nullptr) return std::nullopt;
      const bool is_number = PyLong_Check(item) != 0;
      into->ns = is_number ? PyLong_AsLongLong(item) : -1;
      Py_DECREF(item);
      if (!is_number || PyErr_Occurred() != nullptr) return std::nullopt;
    }
    spans.push_back(span);
  }
  return spans;
}

/// Returns why the stream cannot be followed, as text; None if it can.
PyObject* follow_stream(PyObject* self, PyObject* argument) {
  std::string refused = "the client has been closed";
  if (RankClient* client = client_of(of(self))) {
    void* const stream = PyLong_Check(argument) != 0 ? PyLong_AsVoidPtr(argument) : nullptr;
    if (PyLong_Check(argument) == 0 || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      refused = "a stream is a number, or one of torch's, not " + text_of(argument);
    } else if (Status followed = client->follow_stream(stream); followed.ok()) {
      return none();
    } else {
      refused = followed.error().text();
    }
  }
  return PyUnicode_DecodeUTF8(refused.data(), static_cast<Py_ssize_t>(refused.size()), "replace");
}

PyObject* on_iteration_end(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  RankClient* client = client_of(of(self));
  if (client == nullptr) return none();
  if (count == 0 || arguments[0] == Py_None) {
    client->on_iteration_end();
    return none();
  }
  const auto spans = spans_in(arguments[0]);
  if (!spans) {
    client->on_iteration_end();
    return misused(of(self), "times of instructions are whole numbers, begin and end of each");
  }
  client->on_iteration_end(*spans);
  return none();
}

// --- Status -------------------------------------------------------------------------------------

PyObject* counts(PyObject* self, PyObject* /*unused*/) {
  const Held* held = of(self)->held;
  RankClient::Counts n;
  if (held != nullptr) n = held->client == nullptr ? held->last : held->client->counts();
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("(KKKKKKKKKK)", number(n.iterations), number(n.instructions),
                       number(n.clock_changes), number(n.asked_ahead), number(n.unexpected),
                       number(n.unknown), number(n.reports_sent), number(n.reports_dropped),
                       number(n.events_lost), number(n.version));
}

/// Returns (seconds since 1970 or None, reason), or None.
PyObject* pause_requested(PyObject* self, PyObject* argument) {
  RankClient* client = client_of(of(self));
  long long iteration = PyLong_AsLongLong(argument);
  if (iteration == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (client == nullptr) return none();
  const auto pause = client->pause_requested(iteration);
  if (!pause) return none();
  PyObject* until = pause->until ? PyFloat_FromDouble(pause->until->value) : none();
  PyObject* why = PyUnicode_DecodeUTF8(pause->why.data(),
                                       static_cast<Py_ssize_t>(pause->why.size()), "replace");
  if (until == nullptr || why == nullptr) {
    Py_XDECREF(until);
    Py_XDECREF(why);
    return nullptr;
  }
  return Py_BuildValue("(NN)", until, why);
}

/// Waits for one step, so that Python handles signals in between.
PyObject* wait_for_resume(PyObject* self, PyObject* argument) {
  RankClient* client = client_of(of(self));
  const double most = PyFloat_AsDouble(argument);
  if (most == -1 && PyErr_Occurred() != nullptr) return nullptr;
  bool over = true;
  Py_BEGIN_ALLOW_THREADS  // NOLINT
      if (client != nullptr) over = client->wait_for_resume(Seconds{most});
  Py_END_ALLOW_THREADS  // NOLINT
      return PyBool_FromLong(over ? 1 : 0);
}

PyObject* events(PyObject* self, PyObject* /*unused*/) {
  PyObject* list = PyList_New(0);
  if (list == nullptr || of(self)->held == nullptr) return list;
  for (const std::string& text : of(self)->held->events->all()) {
    PyObject* item =
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    if (item == nullptr || PyList_Append(list, item) != 0) {
      Py_XDECREF(item);
      Py_DECREF(list);
      return nullptr;
    }
    Py_DECREF(item);
  }
  return list;
}

PyObject* say(PyObject* self, PyObject* argument) {
  Held* held = of(self)->held;
  PyObject* bytes = PyUnicode_Check(argument) != 0 ? PyUnicode_AsUTF8String(argument) : nullptr;
  const char* text = bytes == nullptr ? nullptr : PyBytes_AsString(bytes);
  if (held != nullptr && text != nullptr) held->events->add(text);
  Py_XDECREF(bytes);
  PyErr_Clear();
  return none();
}

PyObject* close_client(PyObject* self, PyObject* /*unused*/) {
  if (of(self)->held != nullptr) end_client(of(self)->held);
  return none();
}

PyObject* is_registered(PyObject* self, void* /*unused*/) {
  const RankClient* client = client_of(of(self));
  return PyBool_FromLong(client != nullptr && client->registered() ? 1 : 0);
}

PyObject* label(PyObject* self, void* /*unused*/) {
  RankClient* client = client_of(of(self));
  return PyUnicode_FromString(client == nullptr ? "" : client->label());
}

PyObject* is_closed(PyObject* self, void* /*unused*/) {
  return PyBool_FromLong(client_of(of(self)) == nullptr ? 1 : 0);
}

// --- The module ---------------------------------------------------------------------------------

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {  // NOLINT: CPython keeps a pointer that is not const
    {"on_instruction_begin", as_method(on_instruction_begin), METH_FASTCALL | METH_KEYWORDS,
     "on_instruction_begin(kind, chunk=0, micro_batch=-1)\n--\n\nA computation begins."},
    {"on_instruction_end", on_instruction_end, METH_NOARGS,
     "on_instruction_end()\n--\n\nThe computation that began last has ended."},
    {"on_iteration_begin", on_iteration_begin, METH_O,
     "on_iteration_begin(iteration)\n--\n\nAn iteration begins; its number is alike on all ranks."},
    {"on_iteration_end", as_method(on_iteration_end), METH_FASTCALL,
     "on_iteration_end(device_times=None)\n--\n\nThe iteration has ended."},
    {"_follow_stream", follow_stream, METH_O, "Why that cannot be done, or None."},
    {"_pause_requested", pause_requested, METH_O, "(until, why) of a pause, or None."},
    {"_wait_for_resume", wait_for_resume, METH_O, "Whether training is to go on."},
    {"_counts", counts, METH_NOARGS, "What has happened since the start, as a tuple."},
    {"_say", say, METH_O, "Says a line to the user."},
    {"events", events, METH_NOARGS,
     "events()\n--\n\nThe last 100 lines that a person should know."},
    {"close", close_client, METH_NOARGS,
     "close()\n--\n\nSends what is left, for two seconds at most, and gives the clock back."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {  // NOLINT
    {"registered", is_registered, nullptr, "The server knows this rank.", nullptr},
    {"closed", is_closed, nullptr, "The client has ended.", nullptr},
    {"label", label, nullptr, "What the plan says of how to run this instruction.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {  // NOLINT
    {Py_tp_init, reinterpret_cast<void*>(initialize)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("RankClient(options)\n--\n\nWhat a training rank reports.")},
    {0, nullptr}};

PyType_Spec specification = {  // NOLINT
    "harpe._client.RankClient", sizeof(ClientObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    slots};

int fill_module(PyObject* module) {
  PyObject* type = PyType_FromSpec(&specification);
  if (type == nullptr) return -1;
  const int added = PyModule_AddObjectRef(module, "RankClient", type);
  Py_DECREF(type);
  PyObject* failure = PyErr_NewException("harpe._client.Failure", nullptr, nullptr);
  if (added != 0 || failure == nullptr) return -1;
  const int added_failure = PyModule_AddObjectRef(module, "Failure", failure);
  Py_DECREF(failure);
  PyObject* kinds = make_kinds();
  if (added_failure != 0 || kinds == nullptr) return -1;
  const int added_kinds = PyModule_AddObjectRef(module, "KINDS", kinds);
  Py_DECREF(kinds);
  if (added_kinds != 0 || add_power_optimizer(module) != 0 || add_energy_meter(module) != 0 ||
      add_measure_recorded(module) != 0)
    return -1;
  return PyModule_AddStringConstant(module, "VERSION", HARPE_VERSION);
}

PyModuleDef_Slot module_slots[] = {  // NOLINT
    {Py_mod_exec, reinterpret_cast<void*>(fill_module)},
    {0, nullptr}};

PyModuleDef definition = {  // NOLINT
    PyModuleDef_HEAD_INIT,
    "harpe._client",
    "The rank client, the optimizer of a training's clock or power limit, and the meter.",
    0,
    nullptr,
    module_slots,
    nullptr,
    nullptr,
    nullptr};

}  // namespace

void set_error(const Error& error) {
  const std::string text = error.text();
  const std::string code(name_of(error.code));
  PyObject* module = PyImport_ImportModule("harpe._client");
  PyObject* failure = module == nullptr ? nullptr : PyObject_GetAttrString(module, "Failure");
  PyObject* arguments = Py_BuildValue("(ss)", code.c_str(), text.c_str());
  if (failure != nullptr && arguments != nullptr) PyErr_SetObject(failure, arguments);
  Py_XDECREF(arguments);
  Py_XDECREF(failure);
  Py_XDECREF(module);
}

}  // namespace harpe

PyMODINIT_FUNC PyInit__client() {  // NOLINT: a name that CPython looks for
  return PyModuleDef_Init(&harpe::definition);
}
