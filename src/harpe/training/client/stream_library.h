#pragma once
/// \file
/// What says when a GPU's stream has got somewhere: events of CUDA's driver, or of AMD's HIP.
///
/// The library is the one that training has loaded to compute with; it is neither linked nor loaded
/// from here, so that no other version of it comes into the process.
///
/// Source: CUDA Driver API, Event Management and Stream Management; HIP Runtime API, the same.

#include <cstdint>
#include <string>

#include "harpe/base/result.h"

namespace harpe::training {

/// Calls return the library's own codes, 0 where all is well. Thread-safe, as the libraries are.
class StreamLibrary {
 public:
  using Stream = void*;  ///< CUstream, cudaStream_t, hipStream_t; null: the default one
  using Event = void*;
  /// What a thread computes on.
  struct Context {
    void* of_cuda = nullptr;
    int device_of_hip = 0;
  };

  /// `kNotFound` where this process has loaded neither.
  static Result<StreamLibrary> find();

  /// Of the calling thread; CUDA_ERROR_INVALID_CONTEXT where CUDA has none yet.
  int context(Context& context) const;
  /// Makes it that of the calling thread.
  int use(Context context) const {
    return is_hip_ ? set_device_(context.device_of_hip) : set_context_(context.of_cuda);
  }
  /// Lets the calling thread wait for events while another one captures a graph.
  void disregard_captures() const;

  /// One that takes times, and whose waiters sleep.
  int make(Event& event) const;
  void destroy(Event event) const { (void)destroy_(event); }
  /// Puts it behind what is in the stream.
  int record(Event event, Stream stream) const { return record_(event, stream); }
  /// Returns when the device has got there.
  int wait(Event event) const { return wait_(event); }
  /// Between two that the device has passed, to half a microsecond.
  int elapsed(Event from, Event to, std::int64_t& ns) const;
  /// What is put into the stream now is noted down for later, rather than run.
  bool is_capturing(Stream stream) const;
  /// The code says that something is being captured, not that anything is broken.
  static bool is_about_capture(int code) { return code >= 900 && code <= 908; }

  /// Such as "CUDA returned CUDA_ERROR_ILLEGAL_ADDRESS (700)".
  std::string words(int code) const;

 private:
  StreamLibrary() = default;
  template <class Function>
  void find(Function*& function, const char* of_cuda, const char* of_hip);

  void* handle_ = nullptr;
  bool is_hip_ = false;
  bool complete_ = true;
  int (*get_context_)(void**) = nullptr;
  int (*set_context_)(void*) = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*exchange_capture_mode_)(int*) = nullptr;
  int (*make_)(Event*, unsigned) = nullptr;
  int (*destroy_)(Event) = nullptr;
  int (*record_)(Event, Stream) = nullptr;
  int (*wait_)(Event) = nullptr;
  int (*elapsed_)(float*, Event, Event) = nullptr;
  int (*is_capturing_)(Stream, int*) = nullptr;
  int (*cuda_name_)(int, const char**) = nullptr;
  const char* (*hip_name_)(int) = nullptr;
};

}  // namespace harpe::training
