#pragma once
/// \file
/// The events of a simulation as seen from outside of all machines, and the invariants that must
/// hold (docs/reliability.md). A broken invariant ends the simulation at once.

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

/// The assignments by which a rank ran an iteration.
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
  /// Time since which every rank has had a confirmation from its server.
  Instant confirmed_since{};
  std::vector<std::optional<RanBy>> by = {};  ///< one entry per rank; none: clocks are free
  Seconds time{}, all_max_time{};
  Joules energy{}, all_max_energy{};
  bool is_planned = false;   ///< all ranks ran by assignments of a plan
  bool is_profiled = false;  ///< a rank ran at a clock to be measured
};

/// Counts of one seed or of many.
struct Figures {
  std::uint64_t iterations = 0, mixed = 0, free = 0, planned = 0;
  std::uint64_t pauses = 0, split = 0;  ///< split: not all ranks paused before an iteration
  std::uint64_t requests = 0, diagnostics = 0, moves = 0, deletions = 0, starts = 0;
  /// Excess of the slowest 100 iterations over the allowed time, relative to it.
  double slowest_window = 0;
  std::uint64_t windows = 0;  ///< of 100 iterations that were compared
  /// Longest time in s in which ranks of a job ran by different assignments.
  double longest_mixed = 0;
  /// Number of claimed savings, and of those within their error bar above the truth.
  std::uint64_t claims = 0, claims_within = 0;
  void add(const Figures& other);
};

class History {
 public:
  struct Options {
    /// Longest time from the end of all faults until ranks follow the same assignments: the
    /// patience of ranks, and part of the delay before they try to register again.
    Seconds delivery{45};
    /// Allowed excess of the time of 100 iterations over the objective.
    double tolerance = 0.005;
    /// Iterations until a straggler is detected and handled.
    int settling = 20;
  };
  History(Scheduler& scheduler, training::SimulatedDatabase& database, Options options)
      : scheduler_(scheduler), database_(database), options_(options) {}

  /// Called with every iteration; may be empty.
  std::function<void(const std::string& line)> trace;

  // Events.
  /// Records data that a server sends to a client: its own, or forwarded.
  void sent(const std::string& server, const net::HttpRequest& request, int status,
            const std::string& bytes, bool handed_on);
  void iteration(PlayedIteration iteration);
  /// Records that all or some ranks pause before an iteration.
  void paused(const std::string& job, bool all);
  /// Records that a job was deleted, and that its client knows.
  void deleted(const std::string& job, const std::set<std::string>& incarnations);
  /// Checks the saving that a job claims. \param error  half-width of its interval
  void claimed(const std::string& job, Joules saved, Joules error);
  /// Sets the allowed slowdown relative to all-max, as a fraction, from now on.
  void set_objective(const std::string& job, double slowdown) { jobs_[job].objective = slowdown; }
  /// Records that GPUs of the job became slower or faster, or were declared to: detecting that
  /// takes some iterations.
  void machines_changed(const std::string& job) { jobs_[job].settled = 0; }
  /// Records the begin (true) or the end (false) of faults.
  void troubled(bool is_troubled);
  void count_fault() { ++figures_.diagnostics; }

  /// Returns the incarnations of a job that servers have sent so far.
  std::set<std::string> incarnations(const std::string& job) const;

  Figures& figures() { return figures_; }

 private:
  struct JobHistory {
    std::set<std::string> incarnations, deleted;
    std::int64_t newest_epoch = 0;
    std::optional<Instant> mixed_since;
    double objective = 0;
    Joules saved{};                      ///< true savings of iterations that saved energy
    int settled = 0;                     ///< iterations since a change of machines, or a fault
    std::deque<PlayedIteration> window;  ///< the newest consecutive settled ones, at most 100
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
