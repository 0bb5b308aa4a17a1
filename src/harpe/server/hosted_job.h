#pragma once
/// \file
/// A job that is in memory, and what surrounds it there. On the loop's thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/job/job.h"
#include "harpe/server/save_state.h"
#include "harpe/store/store.h"

namespace harpe {

/// Something that was told of a job, as the log of a job shows it.
struct LoggedEvent {
  std::int64_t sequence = 0;  ///< rises within the job
  double at = 0;              ///< seconds since 1970
  std::string kind;           ///< "info", "warning" or "phase"
  std::string text;
};

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
    kNone,   ///< now it would not miss the job
    kLooks,  ///< the job stays in memory
    kRank,   ///< and lives: one of its ranks is at the other end
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

/// How far the plans of a job are.
struct Characterization {
  std::uint64_t ticket = 0;
  bool running = false;  ///< false: it waits for a worker
  double fraction = 0;
};

/// Whether training is going on, by what is heard of the ranks.
enum class Activity : unsigned char { kActive, kIdle, kEnded };
const char* name_of(Activity activity);

/// When jobs change their activity and go.
struct JobLifetimes {
  Seconds idle_after{15.0 * 60};      ///< without a word of any rank; out of memory from then on
  Seconds end_after{24.0 * 3600};     ///< the same: it has ended, though no rank said so
  Seconds keep_ended{30.0 * 86'400};  ///< until it is removed; 0: for ever
};
/// \param heard  when a rank was last heard of; \param ended  when all ended in order
Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes);

/// `job` is changed by the registry alone, through `JobRegistry::act`.
struct HostedJob {
  HostedJob(std::string given_id, Job given) : id(std::move(given_id)), job(std::move(given)) {}

  const std::string id;
  Job job;
  JobClaim claim{.epoch = 1};  ///< by which this server has it
  bool deleted = false;
  bool moved = false;     ///< another server has it now, or may have it
  bool unloaded = false;  ///< it is in the store alone; another object may stand for it
  bool is_over() const { return deleted || moved || unloaded; }
  std::deque<LoggedEvent> events;  ///< the newest
  std::int64_t newest_event = 0;
  JobPhase told_phase = JobPhase::kRegistering;
  Instant assignments_at;  ///< when the newest assignments were made
  /// Assignments that were written already, by stage: most pipelines have the same.
  struct AssignmentsTexts {
    std::uint64_t version = 0;
    struct One {
      int stage;
      std::vector<StageAssignment> assignments;
      std::string text;
    };
    std::vector<One> texts;
    std::size_t bytes = 0;
  } assignments_texts;
  JobListeners listeners;
  std::string summary;        ///< as it was stored; while the job is asleep
  std::string specification;  ///< `Job::specification` of which is
  std::size_t memory = 0;     ///< `memory_of` it

  std::optional<Characterization> characterization() const;

  // For the registry.
  Instant used;  ///< when it was last asked for
  /// Something has happened since it was last saved, of which not everything has to be stored at
  /// once: reports of iterations, say.
  bool touched = false;
  /// Digests of bodies that were read, to `Job::specification` of what they say.
  std::map<std::string, std::string> known_bodies;
  /// Plans as they are answered, while a response is on its way.
  struct PlansText {
    std::shared_ptr<const PlanTable> plans;
    std::string text;
  };
  std::weak_ptr<const PlansText> plans_text;  ///< of the job's reader

  // For the planner.
  struct Work;
  std::shared_ptr<Work> work;  ///< the characterization under way

  std::optional<std::string> unsaved_plans;
  SaveState saving;
};
using JobPtr = std::shared_ptr<HostedJob>;

}  // namespace harpe
