#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/job/job_size.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

/// Kinds of computations of a stage, with the model parts that they work on.
using Computations = std::set<std::tuple<InstructionKind, int, int>>;

Computations computations(const Schedule& schedule, int stage) {
  Computations found;
  for (const Instruction& one : schedule.lists[stage])
    if (!is_fixed_time(one.kind)) found.emplace(one.kind, one.part, one.backward_part);
  return found;
}

/// Returns for each stage true if its instructions cost the same in both specifications.
std::vector<bool> same_stages(const JobSpec& one, const JobSpec& other) {
  std::vector<bool> same(static_cast<std::size_t>(one.shape.stages));
  const Schedule& a = one.schedule;
  const Schedule& b = other.schedule;
  if (one.shape.stages != other.shape.stages || one.shape.tensor != other.shape.tensor ||
      a.placement != b.placement || a.copies != b.copies) {
    return same;
  }
  for (int stage = 0; stage < one.shape.stages; ++stage)
    same[stage] = computations(a, stage) == computations(b, stage);
  return same;
}

/// Returns true if both pipelines run the same instructions in the same order, so that profiles and
/// plans of one are valid for the other.
bool same_pipeline(const JobSpec& one, const JobSpec& other) {
  return one.shape.stages == other.shape.stages && one.shape.tensor == other.shape.tensor &&
         one.schedule.placement == other.schedule.placement &&
         one.schedule.copies == other.schedule.copies &&
         one.schedule.lists == other.schedule.lists && one.transfers == other.transfers;
}

bool same_given_costs(const JobSpec& one, const JobSpec& other) {
  const auto text = [](const JobSpec& spec) {
    return spec.profile ? profile_csv(*spec.profile) : std::string();
  };
  return one.blocking_power == other.blocking_power && text(one) == text(other);
}

bool same_planning(const JobSpec& one, const JobSpec& other) {
  return one.switch_latency == other.switch_latency && one.min_dwell == other.min_dwell &&
         one.plans == other.plans;
}

std::string successor_of(const std::string& incarnation) {
  const std::size_t dot = incarnation.rfind('.');
  const auto count =
      dot == std::string::npos ? 1 : parse_integer(incarnation.substr(dot + 1)).value_or(1);
  return incarnation.substr(0, dot) + "." + std::to_string(count + 1);
}

constexpr std::size_t kMostGatherings = 4;
constexpr std::size_t kMostProposals = 2;
constexpr int kMostOthersLogged = 8;  // events within `kOthersLoggedWithin`
constexpr Seconds kOthersLoggedWithin{60};
constexpr Seconds kRefusalsShown{600};
constexpr std::size_t kLongestName = 64;  // of a run, in messages

std::string quoted(const std::string& run) {
  return in_quotes(run, kLongestName);
}

/// Returns the error for a rank that observes among ranks that do not, or the reverse.
Error mixed(bool rank_observes, const std::string& run) {
  const std::string others = "the other ranks of this start of training" +
                             (run.empty() ? std::string() : " (run " + quoted(run) + ")");
  return Error::invalid((rank_observes ? "this rank only observes, and " + others + " do not"
                                       : others + " only observe, and this rank does not") +
                        ": give HARPE_OBSERVE=1, or observe=True, to all ranks or to none");
}

std::string name_of(const RankRegistration& registration) {
  return text(registration.coordinates) + " (run " + quoted(registration.run) + ")";
}

/// Returns the part of an incarnation that stays if the specification changes.
std::string_view origin(std::string_view incarnation) {
  return incarnation.substr(0, incarnation.rfind('.'));
}

}  // namespace

/// Returns true if the rank registers with the ranks that hold places, not with others that gather.
bool Job::State::is_of_this_start(const RankRegistration& registration, Seconds now) const {
  const std::string& spec_of_rank = registration.specification;
  if (!spec_of_rank.empty() && spec_of_rank != specification) return false;
  if (!spec.shape.holds(registration.coordinates) || ranks.registered() == 0) return true;
  if (ranks.all_ended()) return false;
  if (ranks.holder(registration.coordinates).session == registration.session) return true;
  return registration.run == ranks.run() &&
         ranks.is_free(registration.coordinates, registration.session, now);
}

/// Returns true if the rank lost a place of this start or an earlier one to another process.
bool Job::State::has_lost_its_place(const RankRegistration& registration) const {
  return registration.start > 0 && registration.start <= start &&
         origin(registration.incarnation) == origin(incarnation);
}

Result<RankEntry> Job::State::enter(const RankRegistration& registration, Seconds now) {
  const bool first = ranks.registered() == 0;
  const RankBook::Entered entered = HARPE_TRY(ranks.enter(registration, now));
  if (first) ++start;
  if (entered.changed) {
    // A new process: its reports show again if its clocks are set.
    not_set.erase(static_cast<std::size_t>(entered.rank));
    if (not_set.empty()) not_set_logged = false;
    void_pause();
  } else {
    away[static_cast<std::size_t>(entered.rank)] = true;  // it registers again: it was cut off
  }
  if (entered.changed || entered.fewer_clocks) effects.save = true;
  if (ranks.complete()) {
    if (std::holds_alternative<Registering>(phase)) {
      ranks_complete(now);
    } else if (entered.fewer_clocks && !spec.observe) {
      fit_to_clocks(now);
    }
    if (entered.changed) fit_to_client(now);
  }
  return RankEntry{.rank = entered.rank, .start = start};
}

const Job::State* Job::State::proposed(const std::string& wanted) const {
  const auto found = std::ranges::find_if(
      proposals, [&](const Proposal& proposal) { return proposal.state->specification == wanted; });
  return found == proposals.end() ? nullptr : found->state.get();
}

/// Returns the gathering of the rank's run and specification, and adds it if there is none.
Result<Gathering*> Job::State::gathering_of(const RankRegistration& registration, Seconds now) {
  const std::string& wanted =
      registration.specification.empty() ? specification : registration.specification;
  const auto known = std::ranges::find_if(gatherings, [&](const Gathering& one) {
    return one.specification == wanted && one.ranks.run() == registration.run;
  });
  if (known != gatherings.end()) return &*known;
  const State* const other = proposed(wanted);
  if (wanted != specification && other == nullptr) {
    return Error::of(ErrorCode::kNotFound,
                     "the specification of the job is not that of this rank: register the job "
                     "with the new specification first");
  }
  if (gatherings.size() >= kMostGatherings) {
    gatherings.erase(std::ranges::min_element(gatherings, {}, &Gathering::heard));
  }
  const JobSpec& trained = other == nullptr ? spec : other->spec;
  add_event_of_others(JobEvent::Level::kInfo, now,
                      "ranks of another start of training (run " + quoted(registration.run) +
                          ") have registered: they take over from run " + quoted(ranks.run()) +
                          " once they are more than half of the ranks, or the others send nothing");
  return &gatherings.emplace_back(
      Gathering{.specification = wanted,
                .ranks = RankBook(trained.shape, kSilence, !trained.observe),
                .heard = now});
}

void Job::State::forget_gatherings(Seconds now) {
  const auto is_old = [&](const auto& one) { return now - one.heard >= kSilence; };
  std::erase_if(gatherings, is_old);
  std::erase_if(proposals, is_old);
  std::erase_if(refusals, [&](const Refusal& one) { return now - one.at >= kRefusalsShown; });
}

void Job::State::ranks_complete(Seconds now) {
  add_event(JobEvent::Level::kInfo, now,
            "all " + std::to_string(spec.shape.ranks()) + " ranks have registered");
  if (spec.observe) return begin_observing(now);
  const std::string again = "training has started again";
  if (auto kept = kept_profiling()) return resume_profiling(*std::move(kept), now, again);
  if (plans_due) return request_plans(*profile, blocking_power, now);
  if (plans) {
    if (loses_clocks() || !stages_to_measure(*profile).empty())
      return plan_anew(JobEvent::Level::kWarning, now,
                       "GPUs do not support all clocks of the plans");
    if (fit_to_client(now)) return;
    phase = Running{};
    if (retry_at) return deploy_all_max();
    deploy_choice(now, again);
    // The machines may have changed, so all-max is measured first.
    return begin_probe(false, now, {});
  }
  if (spec.profile) return request_given_profile(now);
  std::vector<int> unknown;
  for (std::size_t stage = 0; stage < measured.size(); ++stage)
    if (measured[stage].empty()) unknown.push_back(static_cast<int>(stage));
  const bool is_new = measured.empty() || unknown.size() == measured.size();
  start_profiling(is_new ? std::vector<int>() : unknown, now,
                  is_new ? "the job has no profile yet" : "its instructions are new");
}

/// Replaces the ranks by the ranks of a new start of training, which counts iterations from 0.
void Job::State::started_again(RankBook book, Seconds now) {
  const std::string before = ranks.run();
  ranks = std::move(book);
  ranks.all_parts_changed();
  ++start;
  not_set.clear();
  not_set_logged = false;
  newest_stored = -1;
  collector.reset();
  detector.reset();
  drift.reset();
  guard.reset();
  forget_all_max();
  warm_from = -1;
  next_probe = probe_pause = calm_since = energy_from = faster_from = 0;
  if (retry_at) retry_at = 0;
  probes_in_vain = 0;
  newest_whole = whole_again = -1;
  rescalings.clear();
  findings.clear();
  holds = 0;
  held.clear();
  newest_times.clear();
  deployments.clear();
  void_pause();
  watched_pipelines.clear();
  if (!declared_stragglers.empty()) {
    add_event(JobEvent::Level::kInfo, now,
              "stragglers declared before training started again no longer count");
    declared_stragglers.clear();
  }
  phase = Registering{.interrupted = kept_profiling()};
  silence_logged = false;
  created = now;
  plans_ticket = ++ticket;  // plans in progress are for the clocks of the former GPUs
  profiling_began = last_profiling = 0;
  effects.save = true;
  const std::string names = ranks.run() == before
                                ? std::string()
                                : " (run " + quoted(ranks.run()) + " after " + quoted(before) + ")";
  add_event(JobEvent::Level::kInfo, now, "training has started again" + names);
  if (ranks.complete()) ranks_complete(now);
}

/// Records a refusal.
/// \param log_it  true to log it as well, within the limit of `add_event_of_others`
void Job::State::refuse(const std::string& who, const std::string& why, Seconds now, bool log_it) {
  auto known = std::ranges::find(refusals, who, &Refusal::who);
  const bool is_new = known == refusals.end() || known->why != why;
  if (known == refusals.end()) {
    if (refusals.size() >= kMostRefusals) refusals.erase(refusals.begin());
    known = refusals.insert(refusals.end(), Refusal{.who = who, .why = why});
  }
  known->why = why;
  ++known->count;
  known->at = now;
  if (is_new && log_it) {
    add_event_of_others(JobEvent::Level::kWarning, now, "refused: " + who + ": " + why);
  }
}

/// Logs an action of other clients, up to a limit: they can repeat it as often as they like.
void Job::State::add_event_of_others(JobEvent::Level level, Seconds now, std::string text) {
  if (now - others_counted_since >= kOthersLoggedWithin) {
    others_counted_since = now;
    events_of_others = 0;
  }
  if (++events_of_others <= kMostOthersLogged) add_event(level, now, std::move(text));
}

std::size_t Job::rank_memory() const {
  std::size_t bytes = state_->ranks.memory();
  if (bytes > 0) bytes += memory_of_measured(state_->work.items(), state_->spec.shape.data);
  for (const Gathering& one : state_->gatherings) bytes += one.ranks.memory();
  return bytes;
}

std::size_t Job::memory_to_register(const RankRegistration& registration, Seconds now) const {
  const State& s = *state_;
  if (s.is_of_this_start(registration, now)) {
    const std::size_t more = s.ranks.memory_to_enter(registration);
    const bool is_first = s.ranks.memory() == 0 && more > 0;
    return more + (is_first ? memory_of_measured(s.work.items(), s.spec.shape.data) : 0);
  }
  const std::string& wanted =
      registration.specification.empty() ? s.specification : registration.specification;
  const auto known = std::ranges::find_if(s.gatherings, [&](const Gathering& one) {
    return one.specification == wanted && one.ranks.run() == registration.run;
  });
  if (known != s.gatherings.end()) return known->ranks.memory_to_enter(registration);
  const State* const other = s.proposed(wanted);
  return RankBook(other == nullptr ? s.spec.shape : other->spec.shape, kSilence)
      .memory_to_enter(registration);
}

void Job::refused(const std::string& who, const std::string& why, Seconds now) {
  state_->refuse(who, why, now, true);
}

Result<RankEntry> Job::register_rank(const RankRegistration& registration, Seconds now) {
  state_->newest_event = now;
  state_->forget_gatherings(now);
  Result<RankEntry> entry = state_->is_of_this_start(registration, now)
                                ? state_->enter(registration, now)
                                : gather(registration, now);
  State& s = *state_;  // replaced if another specification took over
  const std::string who = name_of(registration);
  if (entry.ok()) hear(now);
  if (entry.ok() && !entry->gathers) {
    s.ended.reset();
    s.note_pausing(registration, now);
  }
  if (!entry.ok()) {
    s.refuse(who, entry.error().text(), now, true);
  } else if (entry->gathers) {
    s.refuse(who, entry->why, now, false);  // the gathering was logged once for all ranks
  } else {
    std::erase_if(s.refusals, [&](const Refusal& one) { return one.who == who; });
  }
  return entry;
}

/// Registers a rank that cannot have its place at once.
Result<RankEntry> Job::gather(const RankRegistration& registration, Seconds now) {
  State& s = *state_;
  const bool is_over = s.is_silent(now);
  if (s.has_lost_its_place(registration) && !is_over) {
    return Error::of(ErrorCode::kConflict,
                     registration.start < s.start
                         ? "training has been started again since (run " + quoted(s.ranks.run()) +
                               "), and this process belongs to an earlier start"
                         : text(registration.coordinates) + " was taken by another process");
  }
  // A rank whose place was never taken belongs to this start, not to a new one.
  const State* const other = s.proposed(registration.specification);
  if (!is_over && other != nullptr && other->spec.observe != s.spec.observe &&
      registration.run == s.ranks.run() && s.spec.shape.holds(registration.coordinates) &&
      !s.ranks.holder(registration.coordinates).registered()) {
    return mixed(other->spec.observe, s.ranks.run());
  }
  Gathering* const found = HARPE_TRY(s.gathering_of(registration, now));
  Gathering& gathering = *found;
  const RankBook::Entered entered = HARPE_TRY(gathering.ranks.enter(registration, now));
  gathering.heard = now;
  if (!gathering.ranks.is_majority() && !is_over && !registration.take_over) {
    const int present = gathering.ranks.registered(), all = gathering.ranks.shape().ranks();
    return RankEntry{.rank = entered.rank,
                     .gathers = true,
                     .present = present,
                     .all = all,
                     .why = "another start of training (run " + quoted(s.ranks.run()) +
                            ") holds the job; this one takes over once more than half of its " +
                            std::to_string(all) +
                            " ranks have registered, or the others send nothing for " +
                            std::to_string(static_cast<int>(kSilence.value)) + " s"};
  }
  RankBook book = std::move(gathering.ranks);
  const std::string specification = gathering.specification;
  std::erase_if(s.gatherings, [&](const Gathering& one) { return &one == &gathering; });
  if (specification != s.specification) {
    const auto proposal = std::ranges::find_if(s.proposals, [&](const State::Proposal& one) {
      return one.state->specification == specification;
    });
    if (proposal == s.proposals.end()) {
      return Error::of(ErrorCode::kNotFound, "register the job with its specification again");
    }
    const std::unique_ptr<State> before = std::exchange(state_, std::move(proposal->state));
    state_->succeed(*before, now);
  }
  state_->started_again(std::move(book), now);
  return RankEntry{.rank = entered.rank, .start = state_->start};
}

Job::Proposed Job::propose(Job next, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  if (const auto known = propose_again(next.specification(), now)) return *known;
  if (s.is_silent(now)) {
    const std::unique_ptr<State> before = std::exchange(state_, std::move(next.state_));
    state_->succeed(*before, now);
    return Proposed::kTaken;
  }
  if (s.proposals.size() >= kMostProposals) {
    s.proposals.erase(std::ranges::min_element(s.proposals, {}, &State::Proposal::heard));
  }
  s.proposals.push_back({.state = std::move(next.state_), .heard = now});
  s.add_event_of_others(
      JobEvent::Level::kInfo, now,
      "another specification was registered: it takes over once more than half of its "
      "ranks have registered, or the others send nothing");
  return Proposed::kGathers;
}

std::optional<Job::Proposed> Job::propose_again(const std::string& specification, Seconds now) {
  State& s = *state_;
  s.forget_gatherings(now);
  if (specification == s.specification) return Proposed::kSame;
  const auto known = std::ranges::find_if(s.proposals, [&](const State::Proposal& one) {
    return one.state->specification == specification;
  });
  if (known == s.proposals.end()) return std::nullopt;
  known->heard = now;
  if (!s.is_silent(now)) return Proposed::kGathers;
  const std::unique_ptr<State> before = std::exchange(state_, std::move(known->state));
  state_->succeed(*before, now);
  return Proposed::kTaken;
}

// A job whose specification has changed keeps the results that are still valid.

/// Takes over from the state of the specification before. No rank holds a place yet.
void Job::State::succeed(State& before, Seconds now) {
  effects = std::exchange(before.effects, {});
  effects.characterize.reset();
  effects.more_plans.clear();
  effects.save = true;
  ranks.all_parts_changed();
  incarnation = successor_of(before.incarnation);
  start = before.start;
  version = before.version;
  plans_ticket = ticket = before.ticket + 1;
  newest_event = now;
  delivery = before.delivery;
  savings.inherit(before.savings);
  reported_energy = before.reported_energy;
  static_cast<ReportCounts&>(*this) = static_cast<const ReportCounts&>(before);
  gatherings = std::move(before.gatherings);
  proposals = std::move(before.proposals);
  std::erase_if(proposals, [](const Proposal& one) { return one.state == nullptr; });
  refusals = std::move(before.refusals);
  if (spec.objective == before.spec.objective) objective = before.objective;
  pauses = before.pauses;
  if (!spec.observe) pace = before.pace;
  if (pace && pace->pause) ask_to_pause(now);
  pace_logged = before.pace_logged;

  std::string kept = "it is measured again";
  if (same_pipeline(spec, before.spec) && same_given_costs(spec, before.spec)) {
    if (before.profile) take_profile(*before.profile, before.blocking_power);
    measured = before.measured;
    highest_measured = before.highest_measured;
    phase = Registering{.interrupted = before.kept_profiling()};
    plans_due = before.plans_due;
    if (same_planning(spec, before.spec)) {
      plans = before.plans;
    } else {
      plans_due = profile.has_value() && !kept_profiling();
    }
    reserve = before.reserve;
    plans_for = before.plans_for;
    late_clocks.learn(before.late_clocks.learned());
    if (spec.observe) {
      // The profile is kept: a later start that is not observed plans from it.
      plans.reset();
      plans_due = profile.has_value();
    }
    const bool is_measured = profile || !measured.empty() || kept_profiling();
    if (is_measured) kept = plans ? "its profile and plans stay" : "its measurements stay";
  } else if (!spec.profile && spec.blocking_power == before.spec.blocking_power) {
    inherit_measured(before);
    if (plans_due) {
      kept = "its profile stays, and new plans are computed";
    } else if (!measured.empty()) {
      kept = "stages whose instructions changed are measured again";
    }
  }
  add_event(JobEvent::Level::kInfo, now, "the job has another specification: " + kept);
}

/// Keeps the measured costs of stages with the same kinds of instructions, in any number and order.
void Job::State::inherit_measured(const State& before) {
  if (before.measured.empty()) return;
  const std::vector<bool> same = same_stages(spec, before.spec);
  if (std::ranges::find(same, true) == same.end()) return;
  measured.assign(same.size(), {});
  highest_measured = before.highest_measured;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (!same[stage]) continue;
    for (const MeasuredClock& at : before.measured[stage]) {
      MeasuredClock& mine = measured[stage].emplace_back(
          MeasuredClock{.clock = at.clock, .time = {}, .energy = {}, .iteration_time = {}});
      for (const plan::WorkItem& item : work.stage(stage)) {
        const std::size_t k = *before.work.find(stage, item.kind, item.chunk);
        mine.time.push_back(at.time[k]);
        mine.energy.push_back(at.energy[k]);
      }
    }
  }
  blocking_power = before.blocking_power;
  const bool all = std::ranges::none_of(measured, [](const auto& list) { return list.empty(); });
  if (!all || blocking_power.empty() || !before.profile) return;
  profile = before.profile;
  plans_due = true;
}

}  // namespace harpe::training
