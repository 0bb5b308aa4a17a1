#pragma once
/// \file
/// Those who want to know when something of a job may be new. On the loop's thread.

#include <cstddef>
#include <functional>
#include <vector>

namespace harpe {

class JobListeners;

/// Told when something of a job may be new. Leaves the list it is in when it goes.
class JobListener {
 public:
  JobListener() = default;
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;
  virtual ~JobListener();
  virtual void changed() = 0;
  /// Once a second.
  virtual void ticked() = 0;

  enum class Interest : unsigned char {
    kNone,       ///< now it would not miss the job
    kLooks,      ///< the job stays in memory
    kTakesPart,  ///< and lives: one of its ranks, say, is at the other end
  };
  virtual Interest interest() const = 0;

 private:
  friend class JobListeners;
  JobListeners* list_ = nullptr;
  std::size_t position_ = 0;
};

/// Those of one job; each is in at most one list. All is O(1) but `for_each`.
class JobListeners {
 public:
  JobListeners() = default;
  JobListeners(const JobListeners&) = delete;
  JobListeners& operator=(const JobListeners&) = delete;
  ~JobListeners();

  /// Takes it out of the list that it was in.
  void add(JobListener& listener);
  void remove(JobListener& listener);
  std::size_t size() const { return all_.size(); }
  /// `visit` may remove listeners.
  void for_each(const std::function<void(JobListener&)>& visit) const;
  /// The strongest of all.
  JobListener::Interest interest() const;

 private:
  std::vector<JobListener*> all_;
};

}  // namespace harpe
