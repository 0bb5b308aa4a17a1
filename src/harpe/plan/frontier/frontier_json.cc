#include "harpe/plan/frontier/frontier_json.h"

#include <cmath>
#include <utility>

#include "harpe/base/digest.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/instruction/knobs_json.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {
namespace {

constexpr double kBoundTolerance = 1e-7;  // relative: a thousandth of the gap of plans

// Returns runs of equal numbers: "[1410,5,1395,1]" is five times 1410 MHz, then once 1395.
template <class Number>
std::string runs(const std::vector<PlannedInstruction>& list, const Number& number) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size();) {
    std::size_t j = i;
    while (j < list.size() && number(list[j]) == number(list[i])) ++j;
    if (i > 0) text += ',';
    text += std::to_string(number(list[i])) + "," + std::to_string(j - i);
    i = j;
  }
  return text + "]";
}

template <class Number>
std::string runs_of_stages(const Plan& plan, const Number& number) {
  std::string text = "[";
  for (const auto& list : plan.instructions) {
    text += (text.size() > 1 ? ", " : "") + runs(list, number);
  }
  return text + "]";
}

std::string time_and_energy(Seconds time, Joules energy) {
  return "\"iteration_time_s\": " + shortest(time.value) +
         ", \"iteration_energy_j\": " + shortest(energy.value);
}

/// Returns time and energy of coarser control, which show what each part of a saving is due to.
std::string coarser_control(const Frontier& frontier) {
  const Plan all_max = frontier.all_max();
  std::string text = " \"all_max\": {" +
                     time_and_energy(all_max.iteration_time, all_max.iteration_energy) + "},\n";
  text += " \"one_setting\": [";
  const char* separator = "\n";
  for (const OneSettingPoint& point : frontier.one_setting()) {
    text += std::exchange(separator, ",\n");
    text += "  {\"frequency_mhz\": " + std::to_string(point.setting.clock.value);
    if (!point.setting.knobs.empty()) text += ", " + plan::knobs_members(point.setting.knobs);
    text += ", " + time_and_energy(point.iteration_time, point.iteration_energy) + "}";
  }
  return text + "],\n";
}

}  // namespace

std::string inputs_digest(const Frontier& frontier, const Plan& any) {
  std::uint64_t hash = fnv1a(profile_csv(frontier.profile()));
  hash = fnv1a(schedule_json(frontier.pipeline().schedule()), hash);
  std::string rest = std::to_string(any.gpus_per_stage);
  for (const Watts p : any.blocking_power) rest += "," + shortest(p.value);
  for (const auto* times : {&any.transfers.forward, &any.transfers.backward}) {
    rest += ';';
    for (const Seconds t : *times) rest += shortest(t.value) + ",";
  }
  rest += any.transfers.mode == Transfers::Mode::kRendezvous ? "rendezvous" : "overlapped";
  return digest_text(fnv1a(rest, hash));
}

std::string frontier_json(const Frontier& frontier, std::span<const Plan> plans,
                          std::span<const Joules> tight_bounds) {
  std::string text = "{\"format\": \"harpe.frontier/1\",\n";
  if (!plans.empty()) {
    const Plan& plan = plans.front();
    text += " \"job\": " + json_line(plan.job) + ", \"schedule\": " + json_line(plan.schedule) +
            ", \"stages\": " + std::to_string(plan.stages) +
            ", \"microbatches\": " + std::to_string(plan.micro_batches) +
            ", \"chunks\": " + std::to_string(plan.chunks) +
            ", \"gpus_per_stage\": " + std::to_string(plan.gpus_per_stage) + ",\n";
    text += " \"inputs_digest\": " + json_line(inputs_digest(frontier, plan)) + ",\n";
  }
  if (frontier.profile().is_synthetic()) text += " \"synthetic\": true,\n";
  text += " \"min_time_s\": " + shortest(frontier.min_time().value) +
          ", \"least_energy_time_s\": " + shortest(frontier.least_energy_time().value) +
          ", \"max_time_s\": " + shortest(frontier.max_time().value) + ",\n";
  text += coarser_control(frontier);
  text += " \"points\": [";
  plan::KnobNumbers knobs;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    text += i == 0 ? "\n" : ",\n";
    text += "  {" + time_and_energy(plan.iteration_time, plan.iteration_energy) +
            ", \"lower_bound_j\": " + shortest(plan.lower_bound.value);
    if (i < tight_bounds.size()) text += ", \"tight_bound_j\": " + shortest(tight_bounds[i].value);
    text += ",\n   \"clock_runs_mhz\": " +
            runs_of_stages(plan, [](const PlannedInstruction& at) { return at.clock.value; });
    if (plan.has_knobs()) {
      text += ",\n   \"knob_runs\": " + runs_of_stages(plan, [&](const PlannedInstruction& at) {
                return knobs.number(at.knobs);
              });
    }
    text += '}';
  }
  text += "],\n";
  if (!knobs.empty()) text += " \"knobs\": " + knobs.json() + ",\n";
  text += " \"bound\": [";
  bool first = true;
  // Lines between the kept points may be above the bound by the tolerance, which is subtracted.
  for (const FrontierPoint& point : frontier.points(kBoundTolerance)) {
    text += first ? "\n" : ",\n";
    first = false;
    const double energy = point.lower_bound.value;
    text += "  [" + shortest(point.time.value) + ", " +
            shortest(energy - kBoundTolerance * std::abs(energy)) + "]";
  }
  return text + "]}\n";
}

}  // namespace harpe
