#include "harpe/command/plan_cli/premises.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/per_stage.h"
#include "harpe/plan/schedule/fixed_times.h"

namespace harpe::command {
namespace {

constexpr std::array kFixedKinds = {std::pair("load", InstructionKind::kLoad),
                                    std::pair("reduce", InstructionKind::kReduce),
                                    std::pair("optimizer", InstructionKind::kOptimizer)};

/// Returns the times of the instructions of a kind, for each stage.
std::vector<std::vector<Seconds>> times_of(const Plan& plan, InstructionKind kind) {
  std::vector<std::vector<Seconds>> times;
  for (const auto& list : plan.instructions) {
    auto& of_stage = times.emplace_back();
    for (const PlannedInstruction& i : list) {
      if (i.kind == kind) of_stage.push_back(i.time);
    }
  }
  return times;
}

/// Returns each stage's time of one instruction of the kind; 0 for none, the longest if they
/// differ.
std::vector<Seconds> time_of_stages(const Plan& plan, InstructionKind kind) {
  std::vector<Seconds> longest;
  for (const auto& times : times_of(plan, kind))
    longest.push_back(times.empty() ? Seconds{0} : std::ranges::max(times));
  return longest;
}

template <class Unit>
std::string one_or_each(const std::vector<Unit>& values, const std::string& unit) {
  const auto is_first = [&](Unit value) { return value == values.front(); };
  if (values.empty() || (values.front() == Unit{0} && std::ranges::all_of(values, is_first)))
    return "none";
  if (std::ranges::all_of(values, is_first)) return shortest(values.front().value, 9) + " " + unit;
  std::vector<std::string> texts;
  for (const Unit value : values) texts.push_back(shortest(value.value, 9));
  return joined(texts) + " " + unit;
}

std::string_view text_of(Transfers::Mode mode) {
  return mode == Transfers::Mode::kRendezvous ? "rendezvous" : "overlapped";
}

/// Returns text such as "none" or "96 times 0.003 s".
std::string times_text(std::ptrdiff_t count, Seconds time) {
  if (count == 0) return "none";
  return counted(static_cast<std::size_t>(count), "time") + " " + shortest(time.value, 9) + " s";
}

template <class Unit>
std::vector<double> numbers(const std::vector<Unit>& values) {
  std::vector<double> result;
  for (const Unit value : values) result.push_back(value.value);
  return result;
}

/// Comparison of a plan with the expected job.
class Comparison {
 public:
  Comparison(const Plan& plan, const PlanJob& job, const std::set<std::string_view>& keys)
      : plan_(plan), job_(job), keys_(keys) {}

  std::vector<std::string> take() { return std::move(found_); }

  void compare_sizes(const Schedule& schedule) {
    if (is_given("schedule") && !job_.schedule_is_file && plan_.schedule != job_.schedule)
      add("schedule", plan_.schedule, job_.schedule);
    if (is_given("schedule") && job_.schedule_is_file && plan_.schedule != schedule.name)
      add("schedule", plan_.schedule, schedule.name);
    compare("stages", plan_.stages, job_.stages);
    compare("micro-batches", plan_.micro_batches, job_.micro_batches);
    compare("chunks", plan_.chunks, job_.chunks);
    compare("gpus-per-stage", plan_.gpus_per_stage, std::optional(job_.gpus_per_stage));
    compare("blocking-power", plan_.blocking_power, job_.blocking_power, plan_.stages, "stages",
            "W");
  }

  void compare_transfers() {
    const int boundaries = static_cast<int>(plan_.placement.size()) - 1;
    compare("transfer-forward", plan_.transfers.forward, job_.transfer_forward, boundaries,
            "boundaries between model parts", "s");
    compare("transfer-backward", plan_.transfers.backward, job_.transfer_backward, boundaries,
            "boundaries between model parts", "s");
    if (is_given("transfer-mode") && !plan_.transfers.none() &&
        plan_.transfers.mode != job_.transfer_mode) {
      add("transfer-mode", std::string(text_of(plan_.transfers.mode)),
          std::string(text_of(job_.transfer_mode)));
    }
  }

  /// Also compares the number of instructions that these times add to the schedule, so that none
  /// can be missing. A schedule that contains such instructions takes their times from the profile.
  void compare_fixed_times(const Schedule& schedule) {
    const std::array<const std::vector<Seconds>*, kFixedKinds.size()> given = {
        &job_.load, &job_.reduce, &job_.optimizer};
    for (std::size_t k = 0; k < kFixedKinds.size(); ++k) {
      const auto& [name, kind] = kFixedKinds[k];
      if (!is_given(name)) continue;
      Diagnostics diagnostics;
      FixedTimes wanted;
      std::vector<Seconds>& times = *std::array{&wanted.load, &wanted.reduce, &wanted.optimizer}[k];
      times = per_stage(*given[k], plan_.stages, name, "stages", diagnostics);
      for (Diagnostic& one : diagnostics.take()) found_.push_back(std::move(one.message));
      const Result<Schedule> full = with_fixed_times(schedule, wanted);
      if (!full.ok()) continue;  // the schedule contains such instructions
      const auto planned = times_of(plan_, kind);
      for (int stage = 0; stage < plan_.stages; ++stage) {
        const auto count = std::ranges::count(full->lists[stage], kind, &Instruction::kind);
        const Seconds time = times.empty() ? Seconds{0} : times[stage];
        const bool same = std::ranges::ssize(planned[stage]) == count &&
                          (times.empty() || std::ranges::all_of(planned[stage], [&](Seconds t) {
                             return t == time;
                           }));
        if (same) continue;
        add(std::string(name) + " of stage " + std::to_string(stage),
            times_text(std::ranges::ssize(planned[stage]), time_of_stages(plan_, kind)[stage]),
            times_text(count, time));
        break;  // other stages mostly differ in the same way
      }
    }
  }

  void compare_latency(const Certificate* certificate) {
    if (!is_given("switch-latency")) return;
    if (certificate == nullptr) {
      found_.emplace_back("a plan does not state its switch latency: give its --certificate, too");
      return;
    }
    const LatencyByClock proven = certificate->latency.value_or(LatencyByClock());
    // A table of zeros equals no latency.
    const LatencyByClock& given = job_.switch_latency.by_clock;
    const LatencyByClock wanted = given.longest() > Seconds{0} ? given : LatencyByClock();
    if (proven != wanted) add("switch-latency", harpe::text_of(proven), harpe::text_of(wanted));
  }

 private:
  bool is_given(std::string_view key) const { return keys_.contains(key); }
  void add(const std::string& what, const std::string& found, const std::string& wanted) {
    found_.push_back(what + ": the plan is for " + found + ", not " + wanted);
  }
  void compare(std::string_view key, int found, const std::optional<int>& wanted) {
    if (is_given(key) && wanted && *wanted != found)
      add(std::string(key), std::to_string(found), std::to_string(*wanted));
  }
  template <class Unit>
  void compare(std::string_view key, std::vector<Unit> found, const std::vector<Unit>& given,
               int count, const std::string& what, const std::string& unit) {
    if (!is_given(key)) return;
    Diagnostics diagnostics;
    std::vector<Unit> wanted = per_stage(given, count, std::string(key), what, diagnostics);
    if (!diagnostics.empty()) {
      for (Diagnostic& one : diagnostics.take()) found_.push_back(std::move(one.message));
      return;
    }
    found.resize(std::max(count, 0));  // none equals zeros
    wanted.resize(std::max(count, 0));
    if (found != wanted) add(std::string(key), one_or_each(found, unit), one_or_each(wanted, unit));
  }

  const Plan& plan_;
  const PlanJob& job_;
  const std::set<std::string_view>& keys_;
  std::vector<std::string> found_;
};

}  // namespace

std::string premises_text(const Plan& plan, const Certificate* certificate,
                          const Verification& found) {
  std::string text = "given: schedule " + plan.schedule + ", " + counted(plan.stages, "stage") +
                     ", " + counted(plan.micro_batches, "micro-batch") + ", " +
                     counted(plan.chunks, "chunk") + " a stage, " +
                     counted(plan.gpus_per_stage, "GPU") + " a stage,\n" + "  blocking power " +
                     one_or_each(plan.blocking_power, "W") + ", transfers ";
  text += plan.transfers.none() ? "none"
                                : one_or_each(plan.transfers.forward, "s") + " forward and " +
                                      one_or_each(plan.transfers.backward, "s") + " backward, " +
                                      std::string(text_of(plan.transfers.mode));
  text += ",\n  ";
  for (const auto& [name, kind] : kFixedKinds)
    text += std::string(name) + " " + one_or_each(time_of_stages(plan, kind), "s") + ", ";
  text += "switch latency " + (certificate == nullptr ? "not stated"
                               : certificate->latency ? harpe::text_of(*certificate->latency)
                                                      : std::string("0 s (clocks change at once)"));
  if (found.taken_from_plan > 0) {
    text += ";\n  " + counted(found.taken_from_plan, "fixed-time instruction") +
            " without rows in the profile, whose time and energy are from the plan, unchecked";
  }
  return text + "\n";
}

Json latency_json(const LatencyByClock& latency) {
  if (!latency.is_table()) return latency.longest().value;
  Json rows = Json::array();
  for (const LatencyByClock::Entry& entry : latency.entries())
    rows.push_back({{"frequency_mhz", entry.clock.value}, {"latency_s", entry.latency.value}});
  return rows;
}

Json latency_table_json(const GivenLatency& given) {
  return given.table.empty() ? Json() : Json(given.table.string());
}

Json premises_json(const Plan& plan, const Certificate* certificate, const Verification& found) {
  Json json = {{"schedule", plan.schedule},
               {"stages", plan.stages},
               {"micro_batches", plan.micro_batches},
               {"chunks", plan.chunks},
               {"gpus_per_stage", plan.gpus_per_stage},
               {"blocking_power_w", numbers(plan.blocking_power)}};
  json["transfers"] = plan.transfers.none()
                          ? Json()
                          : Json{{"mode", text_of(plan.transfers.mode)},
                                 {"forward_s", numbers(plan.transfers.forward)},
                                 {"backward_s", numbers(plan.transfers.backward)}};
  for (const auto& [name, kind] : kFixedKinds)
    json[std::string(name) + "_s"] = numbers(time_of_stages(plan, kind));
  json["switch_latency_s"] = certificate == nullptr
                                 ? Json()
                                 : latency_json(certificate->latency.value_or(LatencyByClock()));
  json["taken_from_plan"] = found.taken_from_plan;
  return json;
}

std::vector<std::string> differences(const Plan& plan, const Certificate* certificate,
                                     const Schedule& schedule, const PlanJob& job,
                                     const std::set<std::string_view>& keys) {
  Comparison comparison(plan, job, keys);
  comparison.compare_sizes(schedule);
  comparison.compare_transfers();
  comparison.compare_fixed_times(schedule);
  comparison.compare_latency(certificate);
  return comparison.take();
}

}  // namespace harpe::command
