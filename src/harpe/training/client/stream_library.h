#pragma once
/// \file
/// Events of CUDA's driver or of AMD's HIP, which show when a GPU has reached a point of a stream.
///
/// The functions are those of the library that training has loaded for its computations. Harpe
/// neither links nor loads it, so that the process has no second version of it.
///
/// Source: CUDA Driver API, Event Management and Stream Management; HIP Runtime API, same sections.

#include <cstdint>
#include <string>

#include "harpe/base/result.h"

namespace harpe::training {

/// The functions of the library. They return its codes, 0 for success. Thread-safe, like the
/// library itself.
class StreamLibrary {
 public:
  using Stream = void*;  ///< CUstream, cudaStream_t, hipStream_t; null: the default stream
  using Event = void*;
  /// The device on which a thread computes.
  struct Context {
    void* of_cuda = nullptr;
    int device_of_hip = 0;
  };

  /// Finds the loaded library. Fails with `kNotFound` if this process has loaded neither, and with
  /// `kUnavailable` if the library is too old.
  static Result<StreamLibrary> find();

  /// Reads the calling thread's context. Returns CUDA_ERROR_INVALID_CONTEXT if CUDA has none yet.
  int context(Context& context) const;
  /// Sets the context of the calling thread.
  int use(Context context) const {
    return is_hip_ ? set_device_(context.device_of_hip) : set_context_(context.of_cuda);
  }
  /// Lets the calling thread wait for events while another one captures a graph.
  void disregard_captures() const;

  /// Makes an event that records its time, and whose waiting threads sleep.
  int make(Event& event) const;
  void destroy(Event event) const { (void)destroy_(event); }
  /// Puts the event behind the work in the stream.
  int record(Event event, Stream stream) const { return record_(event, stream); }
  /// Waits until the device has reached the event.
  int wait(Event event) const { return wait_(event); }
  /// Reads the time between two events that the device has reached, to half a microsecond.
  int elapsed(Event from, Event to, std::int64_t& ns) const;
  /// Returns true if the stream captures a graph: work put into it is recorded, not run.
  bool is_capturing(Stream stream) const;
  /// Returns true if the code means that a graph is being captured, which is not a fault.
  static bool is_about_capture(int code) { return code >= 900 && code <= 908; }

  /// Returns a text such as "CUDA returned CUDA_ERROR_ILLEGAL_ADDRESS (700)".
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
