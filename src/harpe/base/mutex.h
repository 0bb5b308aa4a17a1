#pragma once
/// \file
/// Locks that clang checks: which mutex guards a member, and which a function needs held, is said
/// in the code, and `-Wthread-safety` refuses what breaks it. Elsewhere the annotations are
/// nothing. See https://clang.llvm.org/docs/ThreadSafetyAnalysis.html; names and manner follow
/// abseil.
///
///     mutable Mutex mutex_;
///     int count_ HARPE_GUARDED_BY(mutex_) = 0;
///     void add_one() HARPE_REQUIRES(mutex_) { ++count_; }
///     void add() { const MutexLock lock(mutex_); add_one(); }
///
/// A lambda is a function of its own to the analysis: one that runs while the lock is held says so,
/// `[this]() HARPE_REQUIRES(mutex_) { return count_ > 0; }`.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define HARPE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HARPE_THREAD_ATTRIBUTE(x)
#endif

/// Of a member: read and written only with this mutex held.
#define HARPE_GUARDED_BY(x) HARPE_THREAD_ATTRIBUTE(guarded_by(x))
/// Of a pointer: what it points to is.
#define HARPE_PT_GUARDED_BY(x) HARPE_THREAD_ATTRIBUTE(pt_guarded_by(x))
/// Of a function: called with these held, and they stay so.
#define HARPE_REQUIRES(...) HARPE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// Of a function: called without these, as it takes them itself.
#define HARPE_EXCLUDES(...) HARPE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HARPE_ACQUIRE(...) HARPE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HARPE_RELEASE(...) HARPE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// Of a function that the analysis cannot follow; says why beside it.
#define HARPE_NO_THREAD_SAFETY_ANALYSIS HARPE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace harpe {

/// A `std::mutex` that the analysis knows.
class HARPE_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() HARPE_ACQUIRE() { mutex_.lock(); }
  void unlock() HARPE_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a mutex while it lives, but between `unlock` and `lock`.
class HARPE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HARPE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() HARPE_RELEASE() {
    if (held_) mutex_.unlock();
  }

  void unlock() HARPE_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() HARPE_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// A `std::condition_variable` for a `Mutex`, which is held before and after each wait. What a
/// predicate reads is guarded by it: the predicate says `HARPE_REQUIRES`, and is only called here.
class CondVar {
 public:
  template <class Predicate>
  void wait(Mutex& mutex, Predicate holds) HARPE_REQUIRES(mutex) HARPE_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    condition_.wait(lock.lock, std::move(holds));
  }
  /// Until it holds, or the time is over; whether it holds.
  template <class Time, class Predicate>
  bool wait_for(Mutex& mutex, const Time& time, Predicate holds)
      HARPE_REQUIRES(mutex) HARPE_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    return condition_.wait_for(lock.lock, time, std::move(holds));
  }
  template <class Time, class Predicate>
  bool wait_until(Mutex& mutex, const Time& time, Predicate holds)
      HARPE_REQUIRES(mutex) HARPE_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    return condition_.wait_until(lock.lock, time, std::move(holds));
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  /// The lock of another, as the standard library wants it.
  struct Borrowed {
    explicit Borrowed(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace harpe
