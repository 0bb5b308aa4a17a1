#include "harpe/training/client/stream_library.h"

#include <dlfcn.h>

#include <cmath>
#include <initializer_list>

namespace harpe::training {
namespace {

constexpr unsigned kWaitersSleep = 1;  // CU_EVENT_BLOCKING_SYNC, hipEventBlockingSync
constexpr int kInvalidContext = 201;   // CUDA_ERROR_INVALID_CONTEXT
constexpr int kThreadLocal = 1;        // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, and of HIP

void* loaded(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  }
  return nullptr;
}

}  // namespace

template <class Function>
void StreamLibrary::find(Function*& function, const char* of_cuda, const char* of_hip) {
  const char* const name = is_hip_ ? of_hip : of_cuda;
  if (name == nullptr) return;
  function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  complete_ = complete_ && function != nullptr;
}

Result<StreamLibrary> StreamLibrary::find() {
  StreamLibrary library;
  library.handle_ = loaded({"libcuda.so.1"});
  if (library.handle_ == nullptr) {
    library.handle_ = loaded({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"});
    library.is_hip_ = true;
  }
  if (library.handle_ == nullptr) {
    return Error::of(ErrorCode::kNotFound,
                     "this process uses neither CUDA (libcuda.so.1) nor HIP (libamdhip64.so), so "
                     "there is no stream to follow");
  }
  library.find(library.get_context_, "cuCtxGetCurrent", nullptr);
  library.find(library.set_context_, "cuCtxSetCurrent", nullptr);
  library.find(library.get_device_, nullptr, "hipGetDevice");
  library.find(library.set_device_, nullptr, "hipSetDevice");
  library.find(library.exchange_capture_mode_, "cuThreadExchangeStreamCaptureMode",
               "hipThreadExchangeStreamCaptureMode");
  library.find(library.make_, "cuEventCreate", "hipEventCreateWithFlags");
  library.find(library.destroy_, "cuEventDestroy_v2", "hipEventDestroy");
  library.find(library.record_, "cuEventRecord", "hipEventRecord");
  library.find(library.wait_, "cuEventSynchronize", "hipEventSynchronize");
  library.find(library.elapsed_, "cuEventElapsedTime", "hipEventElapsedTime");
  library.find(library.is_capturing_, "cuStreamIsCapturing", "hipStreamIsCapturing");
  library.find(library.cuda_name_, "cuGetErrorName", nullptr);
  library.find(library.hip_name_, nullptr, "hipGetErrorName");
  if (!library.complete_) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string(library.is_hip_ ? "HIP" : "CUDA") +
                         " lacks functions that following a stream needs: its version is too old");
  }
  return library;
}

int StreamLibrary::context(Context& context) const {
  if (is_hip_) return get_device_(&context.device_of_hip);
  const int code = get_context_(&context.of_cuda);
  return code == 0 && context.of_cuda == nullptr ? kInvalidContext : code;
}

void StreamLibrary::disregard_captures() const {
  int mode = kThreadLocal;
  (void)exchange_capture_mode_(&mode);
}

int StreamLibrary::make(Event& event) const {
  return make_(&event, kWaitersSleep);
}

int StreamLibrary::elapsed(Event from, Event to, std::int64_t& ns) const {
  float milliseconds = 0;
  const int code = elapsed_(&milliseconds, from, to);
  ns = std::llround(1e6 * static_cast<double>(milliseconds));
  return code;
}

bool StreamLibrary::is_capturing(Stream stream) const {
  int status = 0;
  return is_capturing_(stream, &status) == 0 && status != 0;
}

std::string StreamLibrary::words(int code) const {
  const char* name = nullptr;
  if (is_hip_) {
    name = hip_name_(code);
  } else {
    (void)cuda_name_(code, &name);
  }
  return std::string(is_hip_ ? "HIP" : "CUDA") + " returned " +
         (name == nullptr ? "an error" : name) + " (" + std::to_string(code) + ")";
}

}  // namespace harpe::training
