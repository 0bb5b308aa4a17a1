#include "simulation/training.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/wire/wire.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

/// Interval between checks whether a stopped process continues, for which the others wait.
constexpr Seconds kBetweenLooks{0.1};
constexpr Seconds kBetweenTicks{1};
constexpr Seconds kPatience{30};  ///< of ranks

std::size_t instructions_of_stage(const Schedule& schedule, int stage) {
  return schedule.lists[static_cast<std::size_t>(stage)].size();
}

}  // namespace

Training::Training(World world, std::string id, JobSpec spec, const Profile& truth)
    : world_(std::move(world)),
      id_(std::move(id)),
      spec_(std::move(spec)),
      spec_text_(training::job_spec_json(spec_)),
      machines_(spec_, truth, {.overhead = Seconds{0.2}, .seed = world_.seed}) {
  for (std::size_t i = 0; i < ranks(); ++i) {
    nodes_.push_back(std::make_unique<Node>(world_.scheduler, rank_name(i)));
  }
  tick();
}

void Training::tick() {
  for (const auto& node : nodes_) node->tick();
  world_.scheduler.after(kBetweenTicks, [this] { tick(); });
}

std::int64_t Training::process_id(std::size_t index) const {
  return static_cast<std::int64_t>(start_ * 1000 + index + 1);
}

std::optional<training::StageAssignment> Training::obeyed(
    std::size_t index, std::optional<training::StageAssignment> assignments) {
  const auto first = assignments ? std::optional(assignments->clocks.front()) : std::nullopt;
  const Node::Clock clock = nodes_[index]->want(process_id(index), first);
  if (clock.obeyed || !clock.locked) return clock.obeyed ? assignments : std::nullopt;
  // The GPU keeps the lock of an agent that has ended.
  return training::StageAssignment{.purpose = training::StageAssignment::Purpose::kAllMax,
                                   .clocks = {*clock.locked}};
}

Rank* Training::rank(std::size_t index) {
  return index < ranks_.size() ? ranks_[index].get() : nullptr;
}

void Training::start(const std::string& run) {
  ++start_;
  ++world_.history.figures().starts;
  const std::vector<RankCoordinates> places = machines_.places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    processes_.push_back(
        std::make_unique<Process>(world_.scheduler, rank_name(i), machine_, world_.seed + start_));
    const std::string session = rank_name(i) + "-" + std::to_string(start_);
    training::ServerSessionOptions options{
        .job = id_,
        .spec = spec_text_,
        .registration = {.coordinates = places[i],
                         .session = session,
                         .run = run,
                         .gpu = "simulated",
                         .clocks = machines_.clocks(places[i].stage)},
        .patience = kPatience};
    ranks_.push_back(std::make_unique<Rank>(
        *processes_.back(), world_.network, world_.addresses[i % world_.addresses.size()],
        std::move(options), instructions_of_stage(spec_.schedule, places[i].stage)));
  }
  world_.scheduler.after(Seconds{1}, [this, start = start_] {
    if (start == start_ && is_running()) begin_iteration();
  });
}

bool Training::all_run() const {
  return std::ranges::all_of(ranks_, [](const auto& rank) {
    const Process& process = rank->process();
    return !process.dead() && !process.stopped();
  });
}

/// Returns whether some rank waits. Real ranks hang, or fail, if others do not wait.
bool Training::pauses() {
  if (std::exchange(looked_before_, next_) != next_) {
    std::size_t asked = 0;
    for (const auto& rank : ranks_) {
      const std::optional<training::PauseRequest> pause = rank->pause_before(next_);
      if (pause) rank->pause(*pause, next_);
      asked += pause ? 1 : 0;
    }
    if (asked > 0) world_.history.paused(id_, asked == ranks_.size());
  }
  bool any = false;
  for (const auto& rank : ranks_) any = rank->is_pausing() || any;
  return any;
}

void Training::begin_iteration() {
  if (!all_run() || pauses()) {
    return world_.scheduler.after(kBetweenLooks, [this, start = start_] {
      if (start == start_ && is_running()) begin_iteration();
    });
  }
  std::vector<std::optional<training::StageAssignment>> by;
  for (const auto& rank : ranks_) {
    by.push_back(rank->in_force(next_));
    if (by.back() && rank->unconfirmed() > kPatience + kBetweenLooks) {
      broken(
          "a rank that is not governed runs at the clocks found before: " + rank->process().name() +
          " runs by assignments, unconfirmed for " + shortest(rank->unconfirmed().value) + " s");
    }
  }
  std::vector<std::optional<training::StageAssignment>> obeyed_by;
  for (std::size_t i = 0; i < by.size(); ++i) obeyed_by.push_back(obeyed(i, by[i]));
  const Instant began = world_.scheduler.now();
  PlayedIteration played{.job = id_, .number = next_, .began = began, .confirmed_since = began};
  for (const auto& rank : ranks_)
    played.confirmed_since = std::min(played.confirmed_since, began + -rank->unconfirmed());
  played.is_planned = true;
  for (std::size_t i = 0; i < by.size(); ++i) {
    played.is_planned &= by[i] && by[i]->purpose == training::StageAssignment::Purpose::kPlan;
    played.is_profiled |= by[i] && by[i]->purpose == training::StageAssignment::Purpose::kProfile;
    played.by.push_back(
        by[i] ? std::optional(RanBy{ranks_[i]->incarnation(), by[i]->epoch, by[i]->version})
              : std::nullopt);
  }
  auto [iteration, made] = machines_.play(next_, [&](RankCoordinates coordinates) {
    const auto& assignments = obeyed_by[spec_.shape.index(coordinates)];
    return assignments ? &*assignments : nullptr;
  });
  played.time = iteration.time;
  played.all_max_time = iteration.all_max_time;
  played.energy = iteration.energy;
  played.all_max_energy = iteration.all_max_energy;
  world_.scheduler.after(iteration.time, [this, start = start_, began, played = std::move(played),
                                          reports = std::move(made)]() mutable {
    if (start != start_ || !is_running()) return;
    end_iteration(began, std::move(played), std::move(reports));
  });
}

void Training::end_iteration(Instant began, PlayedIteration played,
                             std::vector<training::IterationReport> reports) {
  if (!all_run()) {
    return world_.scheduler.after(kBetweenLooks,
                                  [this, start = start_, began, played = std::move(played),
                                   reports = std::move(reports)]() mutable {
                                    if (start != start_ || !is_running()) return;
                                    end_iteration(began, std::move(played), std::move(reports));
                                  });
  }
  world_.history.iteration(std::move(played));
  const Seconds time = world_.scheduler.now() - began;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = *ranks_[i];
    training::IterationReport report = std::move(reports[i]);
    report.time = time;
    if (const auto wrong = wrong_energies.find(i); wrong != wrong_energies.end())
      report.energy = wrong->second;
    const Instant began_there = rank.process().clock().now() + (began - world_.scheduler.now());
    rank.process().loop().post([&rank, report = std::move(report), began_there]() mutable {
      rank.report(std::move(report), began_there);
    });
  }
  ++next_;
  if (ending_) {
    for (const auto& rank : ranks_) {
      rank->process().loop().post([one = rank.get()] { one->end(); });
    }
    // Ranks repeat this for some seconds, then their processes end.
    return world_.scheduler.after(Seconds{5}, [this, start = start_] {
      if (start == start_) kill_all();
    });
  }
  begin_iteration();
}

void Training::kill_rank(std::size_t index) {
  if (Rank* const one = rank(index)) {
    one->process().kill();
    nodes_[index]->process_ended(process_id(index));
  }
}

void Training::stop_rank(std::size_t index) {
  if (Rank* const one = rank(index)) one->process().stop();
}

void Training::go_on_rank(std::size_t index) {
  Rank* const one = rank(index);
  if (one == nullptr || !one->process().stopped()) return;
  one->process().go_on();
  one->go_on();
}

void Training::kill_all() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    kill_rank(i);
    past_.push_back(std::move(ranks_[i]));
  }
  ++start_;
  looked_before_ = -1;
  ranks_.clear();
  ending_ = false;
}

}  // namespace harpe::simulation
