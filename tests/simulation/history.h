#pragma once
/// \file
/// What happened in a simulation, as one sees it who looks from outside of all machines; and what
/// must hold of it (docs/reliability.md). What breaks an invariant ends the simulation at once.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/scheduler_testing.h"
#include "harpe/base/units.h"
#include "harpe/net/http/http_message.h"
#include "harpe/training/store/simulated_database_testing.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::simulation {

/// By what a rank ran an iteration.
struct RanBy {
  std::string incarnation;
  std::uint64_t epoch = 0, version = 0;
  friend auto operator<=>(const RanBy&, const RanBy&) = default;
};

/// An iteration of a job.
struct PlayedIteration {
  std::string job;
  std::int64_t number = 0;
  Instant began{};
  /// Every rank was confirmed by its server since then.
  Instant confirmed_since{};
  std::vector<std::optional<RanBy>> by = {};  ///< one a rank; none: at free clocks
  Seconds time{}, all_max_time{};
  Joules energy{}, all_max_energy{};
  bool is_planned = false;   ///< all ranks ran by assignments of a plan
  bool is_profiled = false;  ///< a rank ran at a clock to be measured
};

/// What is counted, of one seed or of many.
struct Figures {
  std::uint64_t iterations = 0, mixed = 0, free = 0, planned = 0;
  std::uint64_t pauses = 0, split = 0;  ///< split: not all ranks paused before an iteration
  std::uint64_t requests = 0, diagnostics = 0, moves = 0, deletions = 0, starts = 0;
  double slowest_window = 0;  ///< time over all-max, of 100 iterations by plans
  std::uint64_t windows = 0;  ///< of 100 iterations that were compared
  double longest_mixed = 0;   ///< seconds for which ranks of a job ran by different assignments
  /// Claims of savings, and those that are not above the truth by more than their bar.
  std::uint64_t claims = 0, claims_within = 0;
  void add(const Figures& other);
};

class History {
 public:
  struct Options {
    /// From the end of all diagnostics until ranks run by the same assignments: the patience of
    /// ranks, and some of the pause before they try to register again.
    Seconds delivery{45};
    /// Time of 100 iterations over what the objective allows.
    double tolerance = 0.005;
    /// Iterations until a straggler is found and responded to.
    int settling = 20;
  };
  History(Scheduler& scheduler, training::SimulatedDatabase& database, Options options)
      : scheduler_(scheduler), database_(database), options_(options) {}

  /// Called with every iteration; empty: not.
  std::function<void(const std::string& line)> trace;

  // What happens.
  /// A server sends something to a client: of its own, or handed on.
  void sent(const std::string& server, const net::HttpRequest& request, int status,
            const std::string& bytes, bool handed_on);
  void iteration(PlayedIteration iteration);
  /// Ranks pause before an iteration, all or some.
  void paused(const std::string& job, bool all);
  /// A job was deleted, and its client has heard so.
  void deleted(const std::string& job, const std::set<std::string>& incarnations);
  /// What a job says that it has saved. \param error  half-width of its interval
  void claimed(const std::string& job, Joules saved, Joules error);
  /// What training of the job may take longer than all-max, as a fraction, from here on.
  void set_objective(const std::string& job, double slowdown) { jobs_[job].objective = slowdown; }
  /// GPUs of the job got slower, or well, or are said to: that takes some iterations to be seen.
  void machines_changed(const std::string& job) { jobs_[job].settled = 0; }
  /// Something is broken from here on, or (false) nothing is any more.
  void troubled(bool is_troubled);
  void count_fault() { ++figures_.diagnostics; }

  /// Incarnations of a job that servers have named so far.
  std::set<std::string> incarnations(const std::string& job) const;

  Figures& figures() { return figures_; }

 private:
  struct JobHistory {
    std::set<std::string> incarnations, deleted;
    std::int64_t newest_epoch = 0;
    std::optional<Instant> mixed_since;
    double objective = 0;
    Joules saved{};   ///< in truth, of iterations that saved anything
    int settled = 0;  ///< iterations since machines changed, or something was broken
    std::deque<PlayedIteration> window;  ///< the newest in a row that were settled, at most 100
  };
  void check_commander(const std::string& server, const std::string& job, std::int64_t epoch);
  void check_mixed(JobHistory& job, const PlayedIteration& iteration);
  void check_promise(JobHistory& job, const PlayedIteration& iteration);

  Scheduler& scheduler_;
  training::SimulatedDatabase& database_;
  const Options options_;
  std::map<std::string, JobHistory> jobs_;
  std::optional<Instant> calm_since_ = Instant{};
  Figures figures_;
};

}  // namespace harpe::simulation
