#pragma once
/// \file
/// A training job in memory, with its energy ledger and its carbon control. Used on the loop's
/// thread.

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

/// The hourly energy that a job's ranks reported, and the time for which the job held its GPUs,
/// since its first start of training. The store keeps one part of the ledger for each day, so that
/// saving a long job costs no more than saving a short one.
///
/// Times are readings of the machine's clock. Hours in which no server has the job are missing.
/// Used on the loop's thread.
class JobLedger {
 public:
  /// Settlement period of most markets; longer periods are multiples of it.
  static constexpr carbon::WholeSeconds kStep = carbon::whole_minutes(15);
  /// Limit on separate starts of training; later starts are counted as part of the last one.
  static constexpr std::size_t kMostStarts = 1000;

  /// A start of training that is using energy or GPUs now.
  struct Training {
    std::string incarnation;  ///< of the job
    std::uint64_t start = 0;
    std::string run;
    int ranks = 0;  ///< number of registered ranks
    int all = 0;    ///< number of ranks of the complete job
  };

  /// Sets the user who registered the job, for starts from now on and for the newest start if it
  /// has no user.
  void set_user(const std::string& user);
  const std::string& user() const { return user_; }

  /// \param ended  end of the iteration, in seconds since 1970
  void add(const Training& training, const ReportedUse& use, double ended);
  /// Adds the time for which the GPUs of all its ranks were held, in seconds since 1970.
  void hold(const Training& training, double from, double to);
  /// Adds the time for which training was paused, in seconds since 1970, whether its ranks waited
  /// or had ended.
  void pause(const Training& training, double from, double to);

  /// Returns the starts in order, with their use in intervals that begin in [from, to).
  std::vector<carbon::LedgerRun> runs(const std::string& job, carbon::UtcTime from,
                                      carbon::UtcTime to) const;
  std::size_t memory() const;  ///< approximate bytes

  // As texts, by name.
  static constexpr std::string_view kParts = "energy:";
  /// Returns the parts that have changed since the last call.
  std::map<std::string, std::string> take_changed_parts();
  /// Reads a ledger from its parts; ignores other parts, and leaves out parts that are damaged.
  /// \param log  receives the errors
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
// last decision of its controller. Used on the loop's thread.

class HostedJob;

/// Name of the stored part that holds `JobCarbon::take_changed_text`.
inline constexpr const char* kCarbonPart = "carbon";

class JobCarbon {
 public:
  /// Updates the terms and the iteration count from the job.
  /// \param newest  iteration of the newest report in this start of training; -1 if none
  /// \param of_specification  the job's terms as JSON; empty if none
  void follow(const std::string& of_specification, std::int64_t newest);
  /// Sets or removes the terms. Keeps the job's progress, except a count of finished iterations
  /// that the terms set.
  void set(std::optional<CarbonTerms> terms);
  /// Sets a decision. Returns false and ignores it if the terms have changed since.
  /// \param revision  of the terms for which the decision was made
  bool decided(std::uint64_t revision, ControlState state, CarbonDecision decision, Seconds wall,
               Seconds now);
  /// Returns true if a decision is due and none is being made.
  bool is_due(Seconds wall) const;
  void decide_soon() { due_ = Seconds{0}; }
  bool deciding = false;

  const std::optional<CarbonTerms>& terms() const { return terms_; }
  const ControlState& state() const { return state_; }
  const std::optional<CarbonDecision>& decision() const { return decision_; }
  std::int64_t done() const { return count_.done(); }
  std::uint64_t revision() const { return revision_; }
  /// Returns true once after the terms are removed: the job follows its objective again.
  bool take_ended() { return std::exchange(ended_, false); }
  std::vector<HostedEffects::Event> take_events() { return std::exchange(events_, {}); }
  bool needs_saving() const { return changed_; }

  /// Returns the text to store, or an empty text if nothing has changed since the last call.
  std::string take_changed_text();
  /// Restores a stored text. Fails and changes nothing if the text is damaged.
  Status read(std::string_view text);

 private:
  void say(const CarbonDecision& decision, Seconds now);

  std::optional<CarbonTerms> terms_;
  std::string adopted_;  ///< the last terms that were taken from the specification
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

/// The progress of a job's characterization.
struct Characterization {
  std::uint64_t ticket = 0;
  bool running = false;  ///< false while it waits for a worker
  double fraction = 0;
};

/// The services that training jobs need from their server.
class JobServices {
 public:
  virtual ~JobServices() = default;
  /// Handles the effects of an event: makes plans and sends assignments if necessary.
  virtual void follow(const JobPtr& job, JobEffects effects) = 0;
  /// Cancels the search for better plans.
  virtual void rest(const JobPtr& job) = 0;
  /// Cancels all planning for the job.
  virtual void leave(const JobPtr& job) = 0;
  virtual const ServiceClock& time() const = 0;
};

/// A hosted training job. Change `job` only through `JobRegistry::act`.
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
  JobLedger ledger;                                  ///< its use so far
  JobCarbon carbon;
  Instant assignments_at;  ///< time of the newest assignments
  /// Cache of serialized assignments, by stage: most pipelines have equal ones.
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
  /// Digest of each request body that was read, with the `Job::specification` it was parsed to.
  std::map<std::string, std::string> known_bodies;
  std::optional<std::string> unsaved_plans;  ///< in the format of the store
  /// The plans as text, shared by the responses that are not sent yet.
  struct PlansText {
    std::shared_ptr<const plan::PlanTable> plans;
    std::string text;
  };
  std::weak_ptr<const PlansText> plans_text;  ///< used only by the job's reader tasks

  // For the planner.
  struct Work;
  std::shared_ptr<Work> work;  ///< the current characterization

  // For the searcher.
  struct Search;
  std::shared_ptr<Search> search;  ///< the search for a better plan; null if there was none
  Instant search_followed;         ///< last check of the need for a search

 private:
  void note_use(const std::vector<ReportedUse>& reported, Seconds now);

  JobServices& services_;
  std::optional<Seconds> held_until_;  ///< end of the held time in the ledger
  /// End of the paused time in the ledger; nullopt if not paused.
  std::optional<Seconds> paused_until_;
  JobPhase logged_phase_;
  mutable std::string measured_;  ///< the `Job::specification` for which `memory_` holds
  mutable std::size_t memory_ = 0;
};

/// Returns a job read from the store with its parts and plans, in its stored state. Callable from
/// any thread.
/// \param log  receives errors in plans (which are made again), carbon control and energy
Result<HostedPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                  JobServices& services,
                                  const std::function<void(const std::string&)>& log);

}  // namespace harpe::training
