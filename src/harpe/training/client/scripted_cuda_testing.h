#pragma once
// Controls an imitation of CUDA's driver (scripted_cuda.cc), loaded as training would have loaded
// it. The device is in use on the thread that constructs this.

#include <dlfcn.h>

#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "harpe/device/hw/scripted_library_testing.h"

namespace harpe::training {

class ScriptedCuda : public device::ScriptedLibrary {
 public:
  ScriptedCuda() : device::ScriptedLibrary(SCRIPTED_CUDA) { use_device(); }
  ~ScriptedCuda() { stop_using_device(); }
  ScriptedCuda(const ScriptedCuda&) = delete;
  ScriptedCuda& operator=(const ScriptedCuda&) = delete;

  void use_device() { find<int(void*)>("cuCtxSetCurrent")(this); }
  void stop_using_device() { find<int(void*)>("cuCtxSetCurrent")(nullptr); }

  /// Queues work that the device runs when it reaches it.
  void put(std::function<void()> work, void* stream = nullptr) {
    auto* held = new std::function<void()>(std::move(work));
    const auto run = [](void* data) {
      const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(data));
      (*mine)();
    };
    find<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(stream, run, held);
  }
  /// Queues work that waits until the promise is fulfilled.
  std::promise<void> put_gate(void* stream = nullptr) {
    std::promise<void> gate;
    put([open = std::make_shared<std::future<void>>(gate.get_future())] { open->wait(); }, stream);
    return gate;
  }
  /// Waits until the device has done all work in the stream.
  void wait(void* stream = nullptr) {
    std::promise<void> done;
    put([&done] { done.set_value(); }, stream);
    done.get_future().wait();
  }
  void* make_stream() {
    void* stream = nullptr;
    find<int(void**, unsigned)>("cuStreamCreate")(&stream, 1);
    return stream;
  }
  /// Destroys a stream, which must have done all its work.
  void destroy_stream(void* stream) { find<int(void*)>("cuStreamDestroy_v2")(stream); }
};

}  // namespace harpe::training
