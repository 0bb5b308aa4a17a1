#pragma once
/// \file
/// Handing the newest version of something to threads that must not wait for it.
///
/// One thread publishes; each reader holds what it last acquired until it acquires again, and costs
/// two stores to an address of its own. What no reader holds any more is destroyed by the thread
/// that publishes (hazard pointers: Michael, IEEE TPDS 15(6), 2004).

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace harpe::training {

template <class T, std::size_t Readers>
class LatestSnapshot {
 public:
  LatestSnapshot() = default;
  LatestSnapshot(const LatestSnapshot&) = delete;
  LatestSnapshot& operator=(const LatestSnapshot&) = delete;
  /// No reader may hold anything any more.
  ~LatestSnapshot() = default;

  /// The newest, which stays valid until this reader acquires again or releases; null: none yet.
  T* acquire(std::size_t reader) noexcept {
    T* newest = newest_.load();
    for (;;) {
      held_[reader].store(newest);
      T* const again = newest_.load();
      if (again == newest) return newest;
      newest = again;
    }
  }
  void release(std::size_t reader) noexcept { held_[reader].store(nullptr); }

  /// By one thread. Null is allowed: nothing from now on.
  void publish(std::unique_ptr<T> next) {
    T* const published = next.get();
    if (next) owned_.push_back(std::move(next));
    newest_.store(published);
    collect();
  }

  /// What was published last, by the thread that publishes.
  T* newest() const noexcept { return newest_.load(std::memory_order_relaxed); }

  /// Destroys what no reader holds any more; by the thread that publishes.
  void collect() {
    std::erase_if(owned_, [&](const std::unique_ptr<T>& one) {
      if (one.get() == newest_.load()) return false;
      for (const std::atomic<T*>& held : held_) {
        if (held.load() == one.get()) return false;
      }
      return true;
    });
  }
  std::size_t owned() const { return owned_.size(); }

 private:
  std::atomic<T*> newest_ = nullptr;
  alignas(64) std::array<std::atomic<T*>, Readers> held_{};
  std::vector<std::unique_ptr<T>> owned_;
};

}  // namespace harpe::training
