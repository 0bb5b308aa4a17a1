#include "harpe/command/cli/job_bill.h"

#include <algorithm>
#include <string_view>

#include "harpe/command/cli/status_fields.h"

namespace harpe::command {
namespace {

/// Energy that the job's GPUs have used or saved, with its CO2 and cost at the site.
struct MeasuredBill {
  Joules energy{0};
  std::optional<Grams> co2;
  std::optional<double> money;
};

MeasuredBill measured_bill(const Json& status, const char* key, const carbon::ClusterTerms& terms) {
  MeasuredBill bill{
      .energy = terms.pue * Joules{number_in(status, key).value_or(0)}, .co2 = {}, .money = {}};
  if (terms.intensity) bill.co2 = emissions(bill.energy, *terms.intensity);
  if (terms.price) bill.money = bill.energy / carbon::kKilowattHour * terms.price->per_kwh;
  return bill;
}

std::string measured_text(const Json& status, const carbon::ClusterTerms& terms) {
  const MeasuredBill used = measured_bill(status, "energy_j", terms);
  if (!(used.energy > Joules{0})) return {};
  const MeasuredBill saved = measured_bill(status, "saved_j", terms);
  const MeasuredBill error = measured_bill(status, "saved_error_j", terms);
  std::string text =
      "Measured so far: its GPUs used " + amounts_text(terms, used.energy, used.co2, used.money);
  if (saved.energy > error.energy) {
    text += " and saved " + amounts_text(terms, saved.energy, saved.co2, saved.money) +
            " against all-max";
  } else {
    text += "; what they saved cannot be distinguished from zero";
  }
  return text + (terms.host_power > Watts{0} ? " (hosts not counted).\n" : ".\n");
}

Json measured_json(const Json& status, const char* key, const carbon::ClusterTerms& terms) {
  const MeasuredBill bill = measured_bill(status, key, terms);
  return {{"kwh", bill.energy / carbon::kKilowattHour},
          {"co2_t", bill.co2 ? Json(bill.co2->value / 1e6) : Json(nullptr)},
          {"money", bill.money ? Json(*bill.money) : Json(nullptr)}};
}

/// Returns true if pipelines wait for a straggler that is declared, detected or in the objective.
bool waits_for_straggler(const Json& status) {
  const Json& stragglers = member(status, "stragglers");
  const Json& objective = member(status, "objective");
  return (stragglers.is_array() && !stragglers.empty()) || number_in(objective, "straggler_s") ||
         number_in(objective, "straggler_factor");
}

/// Returns the clock that is best for every pipeline. Nullopt if a pipeline has no best clock, or
/// two differ: the energy of all pipelines at either clock is unknown.
std::optional<ClusterCosts::OneClock> one_clock_of(const Json& status, Seconds beside) {
  std::optional<ClusterCosts::OneClock> found;
  if (waits_for_straggler(status)) return found;
  for (const Json& plan : member(status, "plans")) {
    const Json& clock = member(plan, "one_clock");
    const auto time = number_in(clock, "time_s"), energy = number_in(clock, "energy_j");
    if (!time || !energy) return std::nullopt;
    const Megahertz frequency{count_of(clock, "frequency_mhz")};
    if (found && found->clock != frequency) return std::nullopt;
    found = ClusterCosts::OneClock{
        .cost = {.time = Seconds{*time} + beside, .energy = Joules{*energy}}, .clock = frequency};
  }
  return found;
}

/// Returns a sentence if a bill against one clock is missing for lack of figures; otherwise empty.
std::string unknown_clock_text(const Json& status, const ClusterCosts& costs) {
  if (costs.one_clock) return {};
  if (waits_for_straggler(status)) {
    return "Against one clock for all GPUs: not known while pipelines wait for a straggler.\n";
  }
  return "Against one clock for all GPUs: no figures. No clock measured for every instruction is\n"
         "as fast as this plan, or the plans were made by an earlier version of the server.\n";
}

carbon::ClusterTerms terms_of(const Json& status, carbon::ClusterTerms terms) {
  terms.pipelines = std::max(1, count_of(status, "data"));
  return terms;
}

}  // namespace

std::vector<JobEntry> cluster_entries(const Json& status) {
  std::vector<JobEntry> entries;
  const Json& terms = member(status, "cluster_terms");
  if (!terms.is_object()) return entries;
  for (const std::string_view name :
       {"hours", "price", "carbon", "pue", "host-power", "gpus-per-node"}) {
    std::string key(name);
    std::ranges::replace(key, '-', '_');
    const Json& value = member(terms, key.c_str());
    if (!value.is_string() && !value.is_number()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    entries.push_back({.key = &*std::ranges::find(job_keys(), name, &JobKey::name),
                       .values = {text},
                       .file = "the job's cluster"});
  }
  return entries;
}

std::optional<ClusterCosts> job_costs(const Json& status) {
  double pipelines = 0;
  Seconds slowest{0}, slowest_all_max{0};
  Joules energy{0}, all_max{0};
  for (const Json& plan : member(status, "plans")) {
    const double count = number_in(plan, "pipelines").value_or(0);
    const Seconds time{number_in(plan, "time_s").value_or(0)};
    const Joules needs{number_in(plan, "energy_j").value_or(0)};
    // Servers of earlier versions do not have this member.
    const auto saving = number_in(plan, "saving_to_all_max");
    const auto slowdown = number_in(plan, "slowdown_to_all_max");
    if (!saving || !slowdown || !(*saving < 1) || !(*slowdown > -1)) return std::nullopt;
    pipelines += count;
    energy += count * needs;
    all_max += count * needs / (1 - *saving);
    slowest = std::max(slowest, time);
    slowest_all_max = std::max(slowest_all_max, time / (1 + *slowdown));
  }
  if (!(pipelines > 0) || !(slowest > Seconds{0})) return std::nullopt;
  // The time outside of computations is the same at all-max.
  const Seconds predicted{number_in(status, "predicted_time_s").value_or(slowest.value)};
  const Seconds beside = std::max(predicted, slowest) - slowest;
  const bool waits = waits_for_straggler(status);
  return ClusterCosts{
      .gpus_per_pipeline =
          std::int64_t{count_of(status, "stages")} * std::max(1, count_of(status, "tensor")),
      .plan = {.time = slowest + beside, .energy = energy / pipelines},
      .all_max = {.time = (waits ? std::max(slowest, slowest_all_max) : slowest_all_max) + beside,
                  .energy = all_max / pipelines},
      .one_clock = one_clock_of(status, beside)};
}

std::string job_bill_text(const Json& status, carbon::ClusterTerms terms) {
  terms = terms_of(status, std::move(terms));
  const auto costs = job_costs(status);
  if (!costs) return "No bill yet: the job has no plan.\n";
  return cluster_text(terms, *costs) + unknown_clock_text(status, *costs) +
         measured_text(status, terms);
}

Json job_bill_json(const Json& status, carbon::ClusterTerms terms) {
  terms = terms_of(status, std::move(terms));
  const auto costs = job_costs(status);
  if (!costs) return nullptr;
  Json bill = cluster_json(terms, *costs);
  bill["measured"] = {{"used", measured_json(status, "energy_j", terms)},
                      {"saved", measured_json(status, "saved_j", terms)},
                      {"saved_error", measured_json(status, "saved_error_j", terms)}};
  return bill;
}

}  // namespace harpe::command
