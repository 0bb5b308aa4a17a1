#pragma once
/// \file
/// A library opened at run time. Only for `.cc` files.

#include <dlfcn.h>

#include <string>
#include <utility>

namespace harpe::device {

class SharedObject {
 public:
  explicit SharedObject(const std::string& library)
      : handle_(::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {}
  ~SharedObject() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  SharedObject(SharedObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  SharedObject& operator=(SharedObject&&) = delete;

  bool ok() const { return handle_ != nullptr; }
  /// Null when the library has no such function.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

}  // namespace harpe::device
