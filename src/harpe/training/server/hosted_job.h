#pragma once
/// \file
/// A training job that is in memory, and what surrounds it there. On the loop's thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/training/carbon_control/carbon_controller.h"
#include "harpe/training/carbon_control/control_state.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/reported_use.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::training {

/// The hourly energy that a job's ranks have reported, and the time for which it held its GPUs,
/// from its first start of training. The store keeps it with the job, in one part for each day, so
/// that saving a long job costs no more than saving a short one.
///
/// Times are of the machine's clock at that time. Hours in which no server has the job are missing.
/// On the loop's thread.
class JobLedger {
 public:
  /// The settlement period of most markets; divides the steps of those that are longer.
  static constexpr carbon::WholeSeconds kStep = carbon::whole_minutes(15);
  /// Starts of training that are told apart; what begins later counts to the last of them.
  static constexpr std::size_t kMostStarts = 1000;

  /// A start of training that uses something now.
  struct Training {
    std::string incarnation;  ///< of the job
    std::uint64_t start = 0;
    std::string run;
    int ranks = 0;  ///< that hold places
    int all = 0;    ///< that it has when it is complete
  };

  /// Whoever registered the job; of starts that begin from now on, and of the one there is, if it
  /// has none.
  void set_user(const std::string& user);
  const std::string& user() const { return user_; }

  /// \param ended  when the iteration had, in seconds since 1970
  void add(const Training& training, const ReportedUse& use, double ended);
  /// The GPUs of all its ranks were held from ... to ..., in seconds since 1970.
  void hold(const Training& training, double from, double to);
  /// Training paused from ... to ..., whether its ranks waited or had ended.
  void pause(const Training& training, double from, double to);

  /// Starts in their order, with what they used in intervals that begin in [from, to).
  std::vector<carbon::LedgerRun> runs(const std::string& job, carbon::UtcTime from,
                                      carbon::UtcTime to) const;
  std::size_t memory() const;  ///< bytes, about

  // As texts, by name.
  static constexpr std::string_view kParts = "energy:";
  /// The parts that have changed since the last call.
  std::map<std::string, std::string> take_changed_parts();
  /// Others than its own are left alone. What cannot be read is left out. \param log  gets why
  static JobLedger read(const std::map<std::string, std::string>& parts,
                        const std::function<void(const std::string&)>& log);

 private:
  carbon::LedgerRun& run_of(const Training& training);
  void put(carbon::LedgerRun& run, double from, double to, const carbon::EnergyUse& use);

  std::string user_;
  bool user_changed_ = false;
  std::map<std::int64_t, carbon::LedgerRun> runs_;  ///< by start
  std::set<carbon::UtcTime> changed_days_;
  std::size_t intervals_ = 0;
};

// Carbon control of a hosted job: its terms, the number of finished iterations, and the state and
// last decision of its controller. On the loop's thread.

class HostedJob;

/// The part of a stored job that `JobCarbon::text` is.
inline constexpr const char* kCarbonPart = "carbon";

class JobCarbon {
 public:
  /// Follows the job: its specification may have other terms, its ranks may have reported.
  /// \param newest  iteration of the newest report in this start of training; -1: none
  /// \param of_specification  its terms as JSON; empty: it has none
  void follow(const std::string& of_specification, std::int64_t newest);
  /// Other terms, or none. What is known of the job's progress stays.
  void set(std::optional<CarbonTerms> terms);
  /// A decision by these terms. \param revision  of the terms by which it was made
  /// \returns  whether it still counts
  bool decided(std::uint64_t revision, ControlState state, CarbonDecision decision, Seconds wall,
               Seconds now);
  /// Whether one is due, and none is being made.
  bool is_due(Seconds wall) const;
  void decide_soon() { due_ = Seconds{0}; }
  bool deciding = false;

  const std::optional<CarbonTerms>& terms() const { return terms_; }
  const ControlState& state() const { return state_; }
  const std::optional<CarbonDecision>& decision() const { return decision_; }
  std::int64_t done() const { return count_.done(); }
  std::uint64_t revision() const { return revision_; }
  /// The job is to go by its objective again.
  bool take_ended() { return std::exchange(ended_, false); }
  std::vector<HostedEffects::Event> take_events() { return std::exchange(events_, {}); }
  bool needs_saving() const { return changed_; }

  /// For the store; empty where it has not changed since.
  std::string take_changed_text();
  /// Fails where it is damaged, and is left as it was then.
  Status read(std::string_view text);

 private:
  void say(const CarbonDecision& decision, Seconds now);

  std::optional<CarbonTerms> terms_;
  std::string adopted_;  ///< the terms of the specification that were taken over last
  IterationCount count_;
  ControlState state_;
  std::optional<CarbonDecision> decision_;
  Seconds due_{};  ///< since 1970
  Seconds decided_at_{};
  std::uint64_t revision_ = 0;
  bool changed_ = false, ended_ = false;
  std::vector<HostedEffects::Event> events_;
};

class HostedJob;
using JobPtr = std::shared_ptr<HostedJob>;

/// How far the plans of a job are.
struct Characterization {
  std::uint64_t ticket = 0;
  bool running = false;  ///< false: it waits for a worker
  double fraction = 0;
};

/// What training jobs need of their server.
class JobServices {
 public:
  virtual ~JobServices() = default;
  /// Something has happened to the job: plans may have to be made, assignments sent.
  virtual void follow(const JobPtr& job, JobEffects effects) = 0;
  /// No better plans are wanted.
  virtual void rest(const JobPtr& job) = 0;
  /// No plans are.
  virtual void leave(const JobPtr& job) = 0;
  virtual const ServiceClock& time() const = 0;
};

/// `job` is changed through `JobRegistry::act` alone.
class HostedJob final : public Hosted, public std::enable_shared_from_this<HostedJob> {
 public:
  /// \param services  used while it is hosted
  HostedJob(std::string given_id, Job given, JobServices& services);

  HostedTexts take_texts() override;
  std::string summary_text() const override;
  Seconds heard() const override { return job.heard(); }
  std::optional<Seconds> ended() const override { return job.ended(); }
  std::size_t memory() const override;
  bool asleep() const override { return job.asleep(); }
  void go_on(Seconds now) override { job.go_on(now); }
  void hear(Seconds now) override { job.hear(now); }
  void tick(Seconds now) override { job.tick(now); }
  HostedEffects take_effects(Seconds now) override;
  void rest() override { services_.rest(shared_from_this()); }
  void leave() override { services_.leave(shared_from_this()); }

  std::optional<Characterization> characterization() const;

  Job job;
  const Joules energy_before = job.status().energy;  ///< reported before this server had the job
  JobLedger ledger;                                  ///< what it has used so far
  JobCarbon carbon;
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

  // For the registry.
  /// Digests of bodies that were read, to `Job::specification` of what they say.
  std::map<std::string, std::string> known_bodies;
  std::optional<std::string> unsaved_plans;  ///< as the store keeps them
  /// The plans as text, shared by the responses that are not sent yet.
  struct PlansText {
    std::shared_ptr<const plan::PlanTable> plans;
    std::string text;
  };
  std::weak_ptr<const PlansText> plans_text;  ///< of the job's reader

  // For the planner.
  struct Work;
  std::shared_ptr<Work> work;  ///< the characterization under way

  // For the searcher.
  struct Search;
  std::shared_ptr<Search> search;  ///< for a better plan; null: there was none
  Instant search_followed;         ///< when it was last seen whether there should be one

 private:
  void note_use(const std::vector<ReportedUse>& reported, Seconds now);

  JobServices& services_;
  std::optional<Seconds> held_until_;    ///< what its GPUs were held for is in the ledger so far
  std::optional<Seconds> paused_until_;  ///< the same of its pause; none: it does not pause
  JobPhase logged_phase_;
  mutable std::string measured_;  ///< `Job::specification` of which `memory_` is
  mutable std::size_t memory_ = 0;
};

/// A job as the store has it, with its parts and plans, as it was when it was stored. From any
/// thread. \param log  gets plans that cannot be read and have to be made again
Result<HostedPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                  JobServices& services,
                                  const std::function<void(const std::string&)>& log);

}  // namespace harpe::training
