#pragma once
// The script of a library that replaces a vendor's (scripted_nvml.cc, scripted_amd.cc). A test sets
// the result codes and values of functions, and reads how often a function was called and with
// which values. Included only by the source file of such a library.

#include <cstdint>
#include <map>
#include <string>

#include "harpe/base/mutex.h"

namespace {

struct Script {
  harpe::Mutex mutex;
  std::map<std::string, int> results HARPE_GUARDED_BY(mutex);
  std::map<std::string, int> calls HARPE_GUARDED_BY(mutex);
  std::map<std::string, std::uint64_t> values HARPE_GUARDED_BY(mutex);
};

Script& script() {
  static Script script;
  return script;
}

int respond(const char* function) {
  const harpe::MutexLock lock(script().mutex);
  ++script().calls[function];
  const auto result = script().results.find(function);
  return result == script().results.end() ? 0 : result->second;
}

std::uint64_t value(const std::string& name, std::uint64_t otherwise) {
  const harpe::MutexLock lock(script().mutex);
  const auto found = script().values.find(name);
  return found == script().values.end() ? otherwise : found->second;
}

void remember(const std::string& name, std::uint64_t number) {
  const harpe::MutexLock lock(script().mutex);
  script().values[name] = number;
}

[[maybe_unused]] unsigned small(const std::string& name, std::uint64_t otherwise) {
  return static_cast<unsigned>(value(name, otherwise));
}

}  // namespace

// NOLINTBEGIN(misc-definitions-in-headers): one file includes this, and exports them.
extern "C" {

void script_reset() {
  const harpe::MutexLock lock(script().mutex);
  script().results.clear();
  script().calls.clear();
  script().values.clear();
}
void script_result(const char* function, int result) {
  const harpe::MutexLock lock(script().mutex);
  script().results[function] = result;
}
void script_value(const char* name, std::uint64_t number) {
  remember(name, number);
}
std::uint64_t script_read(const char* name) {
  return value(name, 0);
}
int script_calls(const char* function) {
  const harpe::MutexLock lock(script().mutex);
  return script().calls[function];
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
