#include "harpe/plan/schedule/replay.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "harpe/plan/schedule/circle_text.h"
#include "harpe/plan/schedule/rules.h"

namespace harpe::plan {
namespace {

using Durations = std::vector<std::vector<Seconds>>;

class Player {
 public:
  Player(const ScheduleRules& rules, const Transfers& transfers, const Durations& durations)
      : rules_(rules),
        transfers_(transfers),
        durations_(durations),
        stages_(durations.size()),
        sent_(durations.size()),
        received_(durations.size()) {
    for (std::size_t stage = 0; stage < durations.size(); ++stage) {
      start_.emplace_back(durations[stage].size());
      sent_[stage].resize(durations[stage].size());
      received_[stage].resize(durations[stage].size());
    }
    note_blocking_transfers();
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
        // Stages that wait for this one might be able to continue.
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
    int next = 0;      ///< index in its list
    Seconds free{0};   ///< end of the previous instruction
    Position awaited;  ///< instruction that the next one waits for; no stage if none is known
    std::vector<int> through;  ///< blocking transfers that connect it to `awaited`
    std::vector<int> waiting;  ///< stages to try again when this one continues
  };
  struct BlockingTransfer {
    Position from, to;
    Seconds time;
    std::optional<Seconds> end = {};  ///< nullopt until it is known
  };

  int size(int stage) const { return static_cast<int>(durations_[stage].size()); }
  bool has_ended(Position at) const { return at.index < stages_[at.stage].next; }
  Seconds end(Position at) const {
    return start_[at.stage][at.index] + durations_[at.stage][at.index];
  }

  void note_blocking_transfers() {
    if (transfers_.mode != Transfers::Mode::kRendezvous) return;
    for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) {
      for (int index = 0; index < size(stage); ++index) {
        for (const Wait& wait : rules_.waits({stage, index})) {
          if (!is_blocking(wait, transfers_)) continue;
          const int number = static_cast<int>(blocking_.size());
          blocking_.push_back(
              {.from = wait.from, .to = {stage, index}, .time = travel_time(wait, transfers_)});
          sent_[wait.from.stage][wait.from.index].push_back(number);
          received_[stage][index].push_back(number);
        }
      }
    }
  }

  static Position before(Position at) { return {at.stage, at.index - 1}; }

  /// Returns the transfer that must end before this one begins, because the receiver is blocked by
  /// the send before its receive; -1 if there is none.
  int transfer_before(const BlockingTransfer& transfer) const {
    const Position sender = before(transfer.to);
    if (sender.index < 0 || rules_.instruction(sender).kind != InstructionKind::kSend) return -1;
    const std::vector<int>& sent = sent_[sender.stage][sender.index];
    return sent.empty() ? -1 : sent.front();
  }

  /// Returns the end of a blocking transfer; nullopt if it is not known yet. The transfer starts
  /// when its sender has computed and its receiver has ended its previous instruction. Follows the
  /// transfers that must end before it, at most one per stage, because a stage in a transfer does
  /// not continue. Transfers in a circle never end.
  std::optional<Seconds> transfer_end(Stage& waiting, int transfer) {
    waiting.through.clear();
    for (int t = transfer; t >= 0 && !blocking_[t].end; t = transfer_before(blocking_[t])) {
      const auto repeated = std::ranges::find(waiting.through, t);
      if (repeated != waiting.through.end()) {
        waiting.through.erase(waiting.through.begin(), repeated);
        return std::nullopt;
      }
      waiting.through.push_back(t);
      for (const Position needed : {blocking_[t].from, before(blocking_[t].to)}) {
        if (needed.index < 0 || has_ended(needed)) continue;
        waiting.awaited = needed;
        return std::nullopt;
      }
    }
    for (; !waiting.through.empty(); waiting.through.pop_back()) {
      BlockingTransfer& t = blocking_[waiting.through.back()];
      Seconds begin = end(t.from);
      if (t.to.index > 0) begin = std::max(begin, end(before(t.to)));
      if (const int ahead = transfer_before(t); ahead >= 0) {
        begin = std::max(begin, *blocking_[ahead].end);
      }
      t.end = begin + t.time;
    }
    return blocking_[transfer].end;
  }

  /// Starts the next instruction of a stage if the end of everything that it waits for is known.
  bool start_next(int number) {
    Stage& stage = stages_[number];
    stage.awaited = {};
    stage.through.clear();
    const Position at{number, stage.next};
    if (at.index == size(number)) return false;
    Seconds ready = stage.free;
    for (const Wait& wait : rules_.waits(at)) {
      if (is_blocking(wait, transfers_)) continue;
      if (!has_ended(wait.from)) {
        stage.awaited = wait.from;
        return false;
      }
      ready = std::max(ready, end(wait.from) + travel_time(wait, transfers_));
    }
    std::vector<int> transfers = received_[number][at.index];
    if (at.index > 0) {
      const std::vector<int>& sent = sent_[number][at.index - 1];
      transfers.insert(transfers.end(), sent.begin(), sent.end());
    }
    for (const int transfer : transfers) {
      const auto ends = transfer_end(stage, transfer);
      if (!ends) return false;
      ready = std::max(ready, *ends);
    }
    start_[number][at.index] = ready;
    stage.free = end(at);
    ++stage.next;
    return true;
  }

  std::string text(Position at) const {
    return "stage " + std::to_string(at.stage) + " " + instruction_text(rules_.instruction(at));
  }

  std::string circle(int stage) const {
    std::string found = "stages wait for each other in a cycle: ";
    // Moves from a stage that waits outside the circle to a stage in it.
    for (std::size_t n = 0; n < stages_.size() && stages_[stage].awaited.stage >= 0; ++n) {
      stage = stages_[stage].awaited.stage;
    }
    const Position at{stage, stages_[stage].next};
    const Position awaited = stages_[stage].awaited;
    std::vector<int> transfers = stages_[stage].through;
    if (awaited.stage < 0) {
      found += text(blocking_[transfers.front()].from) + " waits for " +
               text(blocking_[transfers[1]].from);
    } else {
      found += text(at) + " waits for " + text(awaited) + ", before which stage " +
               std::to_string(awaited.stage) + " waits at " +
               text({awaited.stage, stages_[awaited.stage].next});
      for (int other = awaited.stage; other != stage; other = stages_[other].awaited.stage) {
        const std::vector<int>& through = stages_[other].through;
        transfers.insert(transfers.end(), through.begin(), through.end());
      }
    }
    const std::string sends = waiting_sends(transfers);
    return sends.empty() ? found : found + "; " + sends;
  }

  std::string waiting_sends(const std::vector<int>& transfers) const {
    std::vector<Instruction> sends;
    for (const int transfer : transfers) {
      const Instruction& sender = rules_.instruction(blocking_[transfer].from);
      const bool is_new = std::ranges::find(sends, sender) == sends.end();
      if (sender.kind == InstructionKind::kSend && is_new) sends.push_back(sender);
    }
    return waiting_sends_text(sends);
  }

  const ScheduleRules& rules_;
  const Transfers& transfers_;
  const Durations& durations_;
  std::vector<Stage> stages_;
  std::vector<std::vector<Seconds>> start_;
  std::vector<BlockingTransfer> blocking_;
  std::vector<std::vector<std::vector<int>>> sent_;  ///< blocking transfers by sending instruction
  std::vector<std::vector<std::vector<int>>> received_;  ///< by receiving instruction
};

}  // namespace

Result<Replay> replay(const Schedule& schedule, const Transfers& transfers,
                      const Durations& durations) {
  HARPE_TRY(validate(schedule));
  HARPE_TRY(validate(transfers, schedule.parts()));
  const bool fits = std::ranges::equal(durations, schedule.lists, {}, &std::vector<Seconds>::size,
                                       &std::vector<Instruction>::size);
  if (!fits) return Error::invalid("a replay needs a duration for each instruction");
  const ScheduleRules rules(schedule, transfers);
  return Player(rules, transfers, durations).play();
}

}  // namespace harpe::plan
