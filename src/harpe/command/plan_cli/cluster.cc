#include "harpe/command/plan_cli/cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/command/plan_cli/planning.h"

namespace harpe::command {
namespace {

constexpr Grams kTonne{1e6}, kKilogram{1e3};
constexpr Seconds kHour{3600};
constexpr double kShown = 5e-4;  ///< the least share that is shown: 0.05 %

/// Returns the value with three significant digits, or as a whole number from 100 on.
std::string rounded(double value) {
  const double size = std::abs(value);
  return grouped(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

std::string mass_words(Grams mass) {
  return std::abs(mass / kTonne) >= 1 ? rounded(mass / kTonne) + " t of CO2"
                                      : rounded(mass / kKilogram) + " kg of CO2";
}

std::string hours_words(Seconds time) {
  return grouped(time / kHour, std::abs(time / kHour - std::round(time / kHour)) < 0.05 ? 0 : 1) +
         " h";
}

std::string gpus_words(const carbon::ClusterTerms& terms, const carbon::ClusterBill& bill,
                       const ClusterCosts& costs) {
  const std::string gpus =
      grouped(static_cast<double>(bill.gpus), 0) + (bill.gpus == 1 ? " GPU" : " GPUs");
  if (terms.pipelines == 1) return gpus + " (one pipeline)";
  return gpus + " (" + grouped(terms.pipelines, 0) + " pipelines of " +
         grouped(static_cast<double>(costs.gpus_per_pipeline), 0) + ")";
}

/// Returns a sentence on the plan's saving against another way to do the same work.
std::string saving_words(const carbon::ClusterTerms& terms, const carbon::ClusterBill& plan,
                         const carbon::ClusterBill& instead, const std::string& name) {
  std::string text = "Against " + name;
  if (std::abs(instead.time / plan.time - 1) >= kShown) {
    text += ", which needs " + hours_words(instead.time) + " for the same iterations";
  }
  carbon::ClusterSaving saved = carbon::saving(plan, instead);
  const double share = saved.energy / instead.energy;
  if (std::abs(share) < kShown) return text + ", this plan saves nothing.\n";
  const bool is_less = share > 0;
  if (!is_less) saved = carbon::saving(instead, plan);
  return text + ", this plan " + (is_less ? "saves " : "needs ") +
         amounts_text(terms, saved.energy, saved.co2, saved.money) + (is_less ? "" : " more") +
         " (" + fixed(100 * std::abs(share), 1) + " %).\n";
}

std::string terms_words(const carbon::ClusterTerms& terms, const carbon::ClusterBill& bill) {
  std::string text = "PUE " + shortest(terms.pue);
  if (terms.pue == 1) text += " (--pue: no cooling and losses of the site)";
  if (terms.host_power > Watts{0}) {
    text += "; " + shortest(terms.host_power.value, 1) + " W of host power for each of " +
            grouped(static_cast<double>(bill.nodes), 0) + " nodes";
  } else {
    text += "; host power not counted (--host-power)";
  }
  if (const auto& intensity = terms.intensity) {
    text += "; " + shortest(intensity->grams_per_kwh, 1) + " g/kWh (" +
            (intensity->zone.empty() ? "" : intensity->zone + ", ") +
            (intensity->kind == IntensityKind::kUnstated
                 ? ""
                 : std::string(text_of(intensity->kind)) + ", ") +
            intensity->source + ")";
  }
  if (const auto& price = terms.price) {
    text += "; " + shortest(price->per_kwh, 4) +
            (price->currency.empty() ? "/kWh" : " " + price->currency + "/kWh");
  }
  text += '.';
  if (terms.intensity && terms.intensity->kind == IntensityKind::kMarginal) {
    text +=
        " The intensity is marginal: it is valid for the CO2 saved, but not for an inventory of "
        "all CO2.";
  }
  return text;
}

template <class T, class Convert>
Json known_or_null(const std::optional<T>& value, Convert convert) {
  return value ? Json(convert(*value)) : Json(nullptr);
}

Json tonnes_json(const std::optional<Grams>& mass) {
  return known_or_null(mass, [](Grams grams) { return grams / kTonne; });
}

Json money_json(const std::optional<double>& money) {
  return known_or_null(money, [](double value) { return value; });
}

Json saving_json(const carbon::ClusterBill& plan, const carbon::ClusterBill& instead) {
  const carbon::ClusterSaving saved = carbon::saving(plan, instead);
  return {{"kwh", saved.energy / carbon::kKilowattHour},
          {"percent", 100 * (saved.energy / instead.energy)},
          {"co2_t", tonnes_json(saved.co2)},
          {"money", money_json(saved.money)},
          {"hours_instead", instead.time / kHour}};
}

/// The bills of a plan and its alternatives for the same iterations.
struct ComparedBills {
  carbon::ClusterBill plan, all_max;
  std::optional<carbon::ClusterBill> one_clock;
};

ComparedBills bills_of(const carbon::ClusterTerms& terms, const ClusterCosts& costs) {
  const double iterations = carbon::iterations_in(terms, costs.plan.time);
  const auto bill = [&](const carbon::IterationCost& cost) {
    return carbon::cluster_bill(terms, costs.gpus_per_pipeline, cost, iterations);
  };
  ComparedBills bills{.plan = bill(costs.plan), .all_max = bill(costs.all_max), .one_clock = {}};
  if (costs.one_clock) bills.one_clock = bill(costs.one_clock->cost);
  return bills;
}

}  // namespace

ClusterCosts cluster_costs(const Planned& planned) {
  const auto cost = [](const auto& plan) {
    return carbon::IterationCost{.time = plan.iteration_time, .energy = plan.iteration_energy};
  };
  const Plan& chosen = planned.chosen;
  ClusterCosts costs{.gpus_per_pipeline = std::int64_t{chosen.stages} * chosen.gpus_per_stage,
                     .plan = cost(chosen),
                     .all_max = cost(planned.all_max)};
  const auto clocks = std::ranges::find(planned.rivals, "one clock", &NamedRivals::name);
  if (clocks == planned.rivals.end() || !clocks->rivals.no_slower) return costs;
  const OneSettingPoint& point = *clocks->rivals.no_slower;
  costs.one_clock = ClusterCosts::OneClock{.cost = cost(point), .clock = point.setting.clock};
  return costs;
}

std::string amounts_text(const carbon::ClusterTerms& terms, Joules energy,
                         const std::optional<Grams>& co2, const std::optional<double>& money) {
  std::vector<std::string> amounts = {rounded(energy / carbon::kKilowattHour) + " kWh"};
  if (co2) amounts.push_back(mass_words(*co2));
  if (money && terms.price) amounts.push_back(carbon::money_text(*money, terms.price->currency));
  std::string text = amounts.front();
  for (std::size_t i = 1; i < amounts.size(); ++i) {
    text += (i + 1 == amounts.size() ? " and " : ", ") + amounts[i];
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> cluster_facts(const carbon::ClusterTerms& terms,
                                                               const ClusterCosts& costs) {
  const ComparedBills bills = bills_of(terms, costs);
  const carbon::ClusterBill& plan = bills.plan;
  const auto saved = [&](const carbon::ClusterBill& instead) {
    const carbon::ClusterSaving saving_there = carbon::saving(plan, instead);
    return amounts_text(terms, saving_there.energy, saving_there.co2, saving_there.money);
  };
  std::vector<std::pair<std::string, std::string>> facts = {
      {gpus_words(terms, plan, costs) + " in " + hours_words(plan.time),
       grouped(plan.power.value / 1000, 1) + " kW; " +
           amounts_text(terms, plan.energy, plan.co2, plan.money) + " for " +
           grouped(plan.iterations, 0) + " iterations"},
      {"Saved against all-max", saved(bills.all_max)}};
  if (bills.one_clock) {
    facts.emplace_back(
        "Saved against one clock for all, " + std::to_string(costs.one_clock->clock.value) + " MHz",
        saved(*bills.one_clock));
  }
  facts.emplace_back("Counted with", terms_words(terms, plan));
  return facts;
}

std::string cluster_text(const carbon::ClusterTerms& terms, const ClusterCosts& costs) {
  const ComparedBills bills = bills_of(terms, costs);
  const carbon::ClusterBill& plan = bills.plan;
  // The power of the site: with hosts and cooling, if the terms have them.
  const bool is_gpus_alone = terms.pue == 1 && terms.host_power == Watts{0};
  const std::string gpus = gpus_words(terms, plan, costs);
  std::string text =
      "In plain words: " + (is_gpus_alone ? gpus + " draw " : "for " + gpus + " the site draws ") +
      grouped(plan.power.value / 1000, 1) + " kW under this plan. In " +
      (terms.time == carbon::kMonth ? "a month of " : "") + hours_words(plan.time) + " they do " +
      grouped(plan.iterations, 0) + " iterations for " +
      amounts_text(terms, plan.energy, plan.co2, plan.money) + ".\n";
  text += saving_words(terms, plan, bills.all_max, "all-max");
  if (bills.one_clock) {
    text += saving_words(
        terms, plan, *bills.one_clock,
        costs.one_clock->name + " (" + std::to_string(costs.one_clock->clock.value) + " MHz)");
  }
  return text + "Counted with: " + terms_words(terms, plan) + '\n';
}

Json cluster_json(const carbon::ClusterTerms& terms, const ClusterCosts& costs) {
  const ComparedBills bills = bills_of(terms, costs);
  const carbon::ClusterBill& plan = bills.plan;
  Json json = {{"gpus", plan.gpus},
               {"pipelines", terms.pipelines},
               {"nodes", plan.nodes},
               {"gpus_per_node", terms.gpus_per_node},
               {"host_power_w", terms.host_power.value},
               {"pue", terms.pue},
               {"hours", terms.time / kHour},
               {"iterations", plan.iterations},
               {"kw", plan.power.value / 1000},
               {"kwh", plan.energy / carbon::kKilowattHour},
               {"co2_t", tonnes_json(plan.co2)},
               {"money", money_json(plan.money)},
               {"currency", nullptr},
               {"price_per_kwh", nullptr},
               {"carbon", nullptr},
               {"saved", saving_json(plan, bills.all_max)},
               {"saved_against_one_clock", nullptr}};
  if (terms.price) {
    json["price_per_kwh"] = terms.price->per_kwh;
    if (!terms.price->currency.empty()) json["currency"] = terms.price->currency;
  }
  if (const auto& intensity = terms.intensity) {
    json["carbon"] = {{"grams_per_kwh", intensity->grams_per_kwh},
                      {"kind", carbon::kind_word(intensity->kind)},
                      {"zone", intensity->zone},
                      {"source", intensity->source}};
  }
  if (bills.one_clock) {
    Json saved = saving_json(plan, *bills.one_clock);
    saved["frequency_mhz"] = costs.one_clock->clock.value;
    json["saved_against_one_clock"] = std::move(saved);
  }
  return json;
}

}  // namespace harpe::command
