#pragma once
/// \file
/// A hand-over of the newest version of an object to threads that must not wait for it.
///
/// One thread publishes versions. Each reader holds the version that it last acquired until it
/// acquires again, at the cost of two stores to its own address. The publishing thread destroys
/// versions that no reader holds any more (hazard pointers: Michael, IEEE TPDS 15(6), 2004).

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
  /// \pre no reader holds a version any more
  ~LatestSnapshot() = default;

  /// Returns the newest version, which stays valid until this reader acquires again or releases;
  /// null if there is none.
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

  /// Publishes a version, always on the same thread. Null: readers get null from now on.
  void publish(std::unique_ptr<T> next) {
    T* const published = next.get();
    if (next) owned_.push_back(std::move(next));
    newest_.store(published);
    collect();
  }

  /// Returns the version published last. Only for the publishing thread.
  T* newest() const noexcept { return newest_.load(std::memory_order_relaxed); }

  /// Destroys the versions that no reader holds any more. Only for the publishing thread.
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
