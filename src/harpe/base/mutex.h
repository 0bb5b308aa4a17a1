#pragma once
/// \file
/// Locks that clang checks: the code states which mutex guards a member and which a function
/// requires, and `-Wthread-safety` rejects violations. Other compilers ignore the annotations. See
/// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html; names and conventions follow abseil.
///
///     mutable Mutex mutex_;
///     int count_ HARPE_GUARDED_BY(mutex_) = 0;
///     void add_one() HARPE_REQUIRES(mutex_) { ++count_; }
///     void add() { const MutexLock lock(mutex_); add_one(); }
///
/// The analysis treats a lambda as a separate function. A lambda that runs while the lock is held
/// must declare it, `[this]() HARPE_REQUIRES(mutex_) { return count_ > 0; }`.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define HARPE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HARPE_THREAD_ATTRIBUTE(x)
#endif

/// For a member: read and written only while this mutex is held.
#define HARPE_GUARDED_BY(x) HARPE_THREAD_ATTRIBUTE(guarded_by(x))
/// For a pointer: its target is read and written only while this mutex is held.
#define HARPE_PT_GUARDED_BY(x) HARPE_THREAD_ATTRIBUTE(pt_guarded_by(x))
/// For a function: the caller holds these mutexes, before and after the call.
#define HARPE_REQUIRES(...) HARPE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// For a function: the caller must not hold these mutexes, because the function acquires them.
#define HARPE_EXCLUDES(...) HARPE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HARPE_ACQUIRE(...) HARPE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HARPE_RELEASE(...) HARPE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// For a function that the analysis cannot follow; a comment beside it gives the reason.
#define HARPE_NO_THREAD_SAFETY_ANALYSIS HARPE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace harpe {

/// A `std::mutex` for the analysis.
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

/// A lock that holds a mutex during its lifetime, except between `unlock` and `lock`.
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

/// A `std::condition_variable` for a `Mutex`, which is held before and after each wait. The mutex
/// guards the data that a predicate reads: declare the predicate, which only this class calls, with
/// `HARPE_REQUIRES`.
class CondVar {
 public:
  template <class Predicate>
  void wait(Mutex& mutex, Predicate holds) HARPE_REQUIRES(mutex) HARPE_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    condition_.wait(lock.lock, std::move(holds));
  }
  /// Waits until the predicate holds or the time is over. Returns the value of the predicate.
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
  /// The caller's lock as a `std::unique_lock`, which the standard library requires.
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
