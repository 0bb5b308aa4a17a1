#include "harpe/schedule/replay.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "harpe/schedule/rules.h"

namespace harpe {
namespace {

using Durations = std::vector<std::vector<Seconds>>;

class Player {
 public:
  Player(const ScheduleRules& rules, const Transfers& transfers, const Durations& durations)
      : rules_(rules),
        transfers_(transfers),
        durations_(durations),
        stages_(durations.size()),
        sent_(durations.size()) {
    for (std::size_t stage = 0; stage < durations.size(); ++stage) {
      start_.emplace_back(durations[stage].size());
      sent_[stage].resize(durations[stage].size());
    }
    note_blocking_sends();
  }

  Result<Replay> play() {
    std::deque<int> active;
    for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) active.push_back(stage);
    while (!active.empty()) {
      const int stage = active.front();
      active.pop_front();
      const int done = stages_[stage].next;
      while (start_next(stage)) {
      }
      if (stages_[stage].next > done) {
        // Whatever stages wait for there may have come.
        active.insert(active.end(), stages_[stage].waiting.begin(), stages_[stage].waiting.end());
        stages_[stage].waiting.clear();
      }
      if (stages_[stage].awaited.stage >= 0) {
        stages_[stages_[stage].awaited.stage].waiting.push_back(stage);
      }
    }
    Seconds makespan{0};
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (stages_[stage].next < size(static_cast<int>(stage))) {
        return Error::invalid(circle(static_cast<int>(stage)));
      }
      makespan = std::max(makespan, stages_[stage].free);
    }
    return Replay{std::move(start_), makespan};
  }

 private:
  struct Stage {
    int next = 0;              ///< in its list
    Seconds free{0};           ///< end of the instruction before
    Position awaited;          ///< what its next one waits for, if it is known to wait
    std::vector<int> waiting;  ///< stages that look again when this one goes on
  };
  /// A blocking transfer by its ends.
  struct Send {
    Position to;
    Seconds time;
  };

  int size(int stage) const { return static_cast<int>(durations_[stage].size()); }
  bool has_ended(Position at) const { return at.index < stages_[at.stage].next; }
  Seconds end(Position at) const {
    return start_[at.stage][at.index] + durations_[at.stage][at.index];
  }

  void note_blocking_sends() {
    if (transfers_.mode != Transfers::Mode::kRendezvous) return;
    for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) {
      for (int index = 0; index < size(stage); ++index) {
        for (const Wait& wait : rules_.waits({stage, index})) {
          if (!is_blocking(wait, transfers_)) continue;
          sent_[wait.from.stage][wait.from.index].push_back(
              {{stage, index}, travel_time(wait, transfers_)});
        }
      }
    }
  }

  /// When a blocking transfer ends: it takes both its sender, once that has computed, and its
  /// receiver, once that is through with the instruction before. Nothing while one of them is not.
  std::optional<Seconds> transfer_end(Stage& waiting, Position from, Position to, Seconds time) {
    const Position before{to.stage, to.index - 1};
    for (const Position needed : {from, before}) {
      if (needed.index < 0 || has_ended(needed)) continue;
      waiting.awaited = needed;
      return std::nullopt;
    }
    return std::max(end(from), to.index > 0 ? end(before) : Seconds{0}) + time;
  }

  /// Starts the next instruction of a stage if all it waits for is known.
  bool start_next(int number) {
    Stage& stage = stages_[number];
    stage.awaited = {};
    const Position at{number, stage.next};
    if (at.index == size(number)) return false;
    Seconds ready = stage.free;
    for (const Wait& wait : rules_.waits(at)) {
      const Seconds time = travel_time(wait, transfers_);
      std::optional<Seconds> arrives;
      if (is_blocking(wait, transfers_)) {
        arrives = transfer_end(stage, wait.from, at, time);
      } else if (has_ended(wait.from)) {
        arrives = end(wait.from) + time;
      } else {
        stage.awaited = wait.from;
      }
      if (!arrives) return false;
      ready = std::max(ready, *arrives);
    }
    if (at.index > 0) {
      const Position before{number, at.index - 1};
      for (const Send& send : sent_[number][before.index]) {
        const auto ends = transfer_end(stage, before, send.to, send.time);
        if (!ends) return false;
        ready = std::max(ready, *ends);
      }
    }
    start_[number][at.index] = ready;
    stage.free = end(at);
    ++stage.next;
    return true;
  }

  std::string text(Position at) const {
    const Instruction& i = rules_.instruction(at);
    std::string text = "stage " + std::to_string(at.stage) + " " + std::string(name(i.kind));
    if (i.part >= 0) text += " of part " + std::to_string(i.part);
    if (i.micro_batch >= 0) text += " micro-batch " + std::to_string(i.micro_batch);
    return text;
  }

  std::string circle(int stage) const {
    const Position at{stage, stages_[stage].next};
    const Position awaited = stages_[stage].awaited;
    return "stages wait for each other in a circle: " + text(at) + " waits for " + text(awaited) +
           ", before which stage " + std::to_string(awaited.stage) + " waits at " +
           text({awaited.stage, stages_[awaited.stage].next});
  }

  const ScheduleRules& rules_;
  const Transfers& transfers_;
  const Durations& durations_;
  std::vector<Stage> stages_;
  std::vector<std::vector<Seconds>> start_;
  std::vector<std::vector<std::vector<Send>>> sent_;  ///< by each instruction, blocking
};

}  // namespace

Result<Replay> replay(const Schedule& schedule, const Transfers& transfers,
                      const Durations& durations) {
  HARPE_TRY(validate(schedule));
  HARPE_TRY(validate(transfers, schedule.parts()));
  const bool fits = std::ranges::equal(durations, schedule.lists, {}, &std::vector<Seconds>::size,
                                       &std::vector<Instruction>::size);
  if (!fits) return Error::invalid("a replay needs a duration for each instruction");
  const ScheduleRules rules(schedule);
  return Player(rules, transfers, durations).play();
}

}  // namespace harpe
