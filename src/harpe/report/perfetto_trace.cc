#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "harpe/plan/frontier/plan.h"
#include "harpe/report/curve.h"
#include "harpe/report/drawing.h"
#include "harpe/report/markup.h"
#include "harpe/report/report.h"

namespace harpe::report {
namespace {

/// The excerpt of a plan with too many instructions for a trace: the instructions that begin in the
/// first, a middle and the last part of the iteration, about equally many of each. They show how a
/// pipeline fills, runs and drains; the others repeat the middle.
class TraceExcerpt {
 public:
  /// Chooses all instructions if there are at most `most`; otherwise about that many, more if
  /// several begin at once. O(n log n).
  TraceExcerpt(const Plan& plan, std::size_t most) {
    std::vector<Seconds> starts;
    for (const auto& list : plan.instructions) {
      for (const PlannedInstruction& instruction : list) starts.push_back(instruction.start);
    }
    if (starts.size() <= most) return;
    std::ranges::sort(starts);
    const std::size_t part = std::max<std::size_t>(1, most / 3);
    const auto halfway = static_cast<std::size_t>(
        std::ranges::lower_bound(starts, plan.iteration_time / 2.0) - starts.begin());
    const auto end_at = [&](std::size_t index) {
      return index < starts.size() ? starts[index]
                                   : Seconds{std::numeric_limits<double>::infinity()};
    };
    const auto add = [&](std::size_t first) {
      const Interval window{starts[first], end_at(first + part)};
      // Merge windows that meet.
      if (!windows_.empty() && window.start <= windows_.back().end) {
        windows_.back().end = std::max(windows_.back().end, window.end);
      } else {
        windows_.push_back(window);
      }
    };
    add(0);
    add(std::min(halfway - std::min(halfway, part / 2), starts.size() - part));
    add(starts.size() - part);
  }

  bool is_whole() const { return windows_.empty(); }

  bool has(const PlannedInstruction& instruction) const {
    return is_whole() || std::ranges::any_of(windows_, [&](const Interval& window) {
             return instruction.start >= window.start && instruction.start < window.end;
           });
  }

 private:
  /// Instructions that begin within one of these intervals are shown. Ascending; empty if
  /// all are shown.
  std::vector<Interval> windows_;
};

using Json = nlohmann::ordered_json;

/// Returns microseconds, the format's unit, to a nanosecond. A string, because `nlohmann` would
/// write some numbers with an exponent, which some readers of traces reject.
std::string microseconds(Seconds time) {
  return coordinate(time.value * 1e6, 3);
}

class TraceWriter {
 public:
  TraceWriter(const Plan& plan, std::size_t most) : plan_(plan), excerpt_(plan, most) {}

  std::string write() {
    std::string process = plan_.job.empty() ? "pipeline" : clean_text(plan_.job);
    if (plan_.synthetic) process += " (synthetic profile, not measured)";
    if (!excerpt_.is_whole()) process += " (excerpt)";
    metadata("process_name", 0, {{"name", process}});
    for (int stage = 0; stage < static_cast<int>(plan_.instructions.size()); ++stage) {
      metadata("thread_name", stage, {{"name", concat({"stage ", std::to_string(stage)})}});
      metadata("thread_sort_index", stage, {{"sort_index", stage}});
      write_stage(stage);
    }
    write_transfers();
    return concat({"{\"displayTimeUnit\":\"ms\",\"otherData\":", about().dump(),
                   ",\"traceEvents\":[\n", events_, "\n]}\n"});
  }

 private:
  Json about() const {
    Json about;
    if (plan_.synthetic) about["note"] = synthetic_remark(plan_);
    if (!excerpt_.is_whole()) {
      about["excerpt"] =
          "instructions that begin in the first, a middle and the last part of the iteration; the "
          "parts between them are left out and have their mean power";
    }
    about.update({{"schedule", clean_text(plan_.schedule)},
                  {"iteration_time_s", plan_.iteration_time.value},
                  {"iteration_energy_j", plan_.iteration_energy.value},
                  {"gpus_per_stage", plan_.gpus_per_stage}});
    return about;
  }

  void event(std::string_view phase, std::string_view name, int stage, std::string_view rest) {
    events_ += concat({events_.empty() ? "" : ",\n", "{\"ph\":\"", phase, "\",\"name\":\"", name,
                       "\",\"pid\":1,\"tid\":", std::to_string(stage), rest, "}"});
  }

  void metadata(std::string_view what, int stage, const Json& args) {
    event("M", what, stage, concat({",\"args\":", args.dump()}));
  }

  /// Returns a stage number with as many digits as the last one: viewers order counters by name.
  std::string padded(int stage) const {
    const std::string number = std::to_string(stage);
    const std::size_t digits = std::to_string(plan_.instructions.size() - 1).size();
    return std::string(digits - std::min(digits, number.size()), '0') + number;
  }

  void counter(int stage, Seconds at, Watts watts) {
    event("C", concat({"power of stage ", padded(stage)}), stage,
          concat({",\"ts\":", microseconds(at), ",\"args\":{\"W\":", coordinate(watts.value, 3),
                  "}"}));
  }

  void write_stage(int stage) {
    const Watts idle = blocking_power(plan_, stage);
    const auto& list = plan_.instructions[static_cast<std::size_t>(stage)];
    Seconds end{0};
    for (std::size_t i = 0; i < list.size();) {
      std::size_t kept = i;
      while (kept < list.size() && !excerpt_.has(list[kept])) ++kept;
      if (kept > i) {
        const Seconds until = kept < list.size() ? list[kept].start : plan_.iteration_time;
        write_left_out(stage, std::span(list).subspan(i, kept - i), end, until);
        end = until;
        i = kept;
        continue;
      }
      const PlannedInstruction& instruction = list[i++];
      if (instruction.start > end) counter(stage, end, idle);
      write_instruction(stage, instruction);
      if (instruction.time > Seconds{0}) {
        counter(stage, instruction.start, power(plan_, stage, instruction));
      }
      end = instruction.start + instruction.time;
    }
    if (plan_.iteration_time > end) counter(stage, end, idle);
    counter(stage, std::max(end, plan_.iteration_time), Watts{0});
  }

  void write_instruction(int stage, const PlannedInstruction& instruction) {
    std::string args = "\"micro_batch\":" + std::to_string(instruction.micro_batch);
    if (plan_.chunks > 1) args += ",\"chunk\":" + std::to_string(instruction.chunk);
    const auto add = [&](std::string_view key, double value) {
      if (value > 0) args += concat({",\"", key, "\":", coordinate(value, 6)});
    };
    add("clock_MHz", instruction.clock.value);
    add("memory_clock_MHz", instruction.knobs.memory_clock.value);
    add("power_limit_W", instruction.knobs.power_limit.value);
    if (const Label& label = instruction.knobs.label; !label.empty())
      args += concat({",\"label\":", Json(label.text()).dump()});
    add("energy_J", instruction.energy.value);
    event("X", block_label(instruction), stage,
          concat({",\"cat\":\"", name(instruction.kind),
                  "\",\"ts\":", microseconds(instruction.start),
                  ",\"dur\":", microseconds(instruction.time), ",\"args\":{", args, "}"}));
  }

  /// Adds one slice for instructions that an excerpt leaves out, with their energy and the energy
  /// of waiting between them, so that the counter still adds up to the energy of the iteration.
  void write_left_out(int stage, std::span<const PlannedInstruction> list, Seconds from,
                      Seconds until) {
    Seconds busy{0};
    Joules energy{0};
    for (const PlannedInstruction& instruction : list) {
      busy += instruction.time;
      energy += instruction.energy;
    }
    energy += blocking_power(plan_, stage) * (until - from - busy);
    event("X", concat({std::to_string(list.size()), " left out"}), stage,
          concat({",\"cat\":\"left_out\",\"ts\":", microseconds(from),
                  ",\"dur\":", microseconds(until - from),
                  ",\"args\":{\"energy_J\":", coordinate(energy.value, 6), "}"}));
    if (until > from) counter(stage, from, energy / (until - from));
  }

  void write_transfers() {
    int id = 0;
    for (const Link& link : transfer_links(plan_)) {
      if (!is_kept(link.from_stage, link.from_position) ||
          !is_kept(link.to_stage, link.to_position)) {
        continue;
      }
      const auto [start, end] = transfer_interval(plan_, link);
      const std::string from = std::to_string(link.from_stage);
      const std::string words =
          concat({"stage ", from, " to stage ", std::to_string(link.to_stage)});
      const std::string common =
          concat({",\"cat\":\"transfer\",\"id\":", std::to_string(++id), ",\"ts\":"});
      event("b", words, link.from_stage, common + microseconds(start));
      event("e", words, link.from_stage, common + microseconds(end));
    }
  }

  bool is_kept(int stage, int position) const {
    return excerpt_.has(
        plan_.instructions[static_cast<std::size_t>(stage)][static_cast<std::size_t>(position)]);
  }

  const Plan& plan_;
  TraceExcerpt excerpt_;
  std::string events_;
};

}  // namespace
}  // namespace harpe::report

namespace harpe {

std::string perfetto_trace(const Plan& plan, std::size_t most) {
  return report::TraceWriter(plan, most).write();
}

}  // namespace harpe
