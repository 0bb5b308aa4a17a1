#pragma once
// A test's handle of a scripted library (script_testing.h).

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace harpe::device {

/// The library, held open so that its script outlives the other users of the library.
class ScriptedLibrary {
 public:
  explicit ScriptedLibrary(const char* library)
      : handle_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    find<void()>("script_reset")();
  }
  ~ScriptedLibrary() { ::dlclose(handle_); }
  ScriptedLibrary(const ScriptedLibrary&) = delete;
  ScriptedLibrary& operator=(const ScriptedLibrary&) = delete;

  void result(const char* function, int result) {
    find<void(const char*, int)>("script_result")(function, result);
  }
  void value(const char* name, std::uint64_t number) {
    find<void(const char*, std::uint64_t)>("script_value")(name, number);
  }
  std::uint64_t read(const char* name) {
    return find<std::uint64_t(const char*)>("script_read")(name);
  }
  int calls(const char* function) { return find<int(const char*)>("script_calls")(function); }

 protected:
  template <class Function>
  Function* find(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

}  // namespace harpe::device
