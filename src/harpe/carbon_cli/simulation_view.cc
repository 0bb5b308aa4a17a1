#include "harpe/carbon_cli/simulation_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harpe/base/text.h"
#include "harpe/carbon_cli/cells.h"
#include "harpe/command/json_output.h"
#include "harpe/command/quantity_text.h"

namespace harpe {
namespace {

struct Way {
  const char* key;
  const char* name;
  WayOutcome StartOutcome::* outcome;
};
constexpr std::array<Way, 5> kWays{{{"all_max", "all-max", &StartOutcome::all_max},
                                    {"static", "best static", &StartOutcome::best_static},
                                    {"chase", "Chase", &StartOutcome::chase},
                                    {"harpe", "Harpe", &StartOutcome::harpe},
                                    {"hindsight", "hindsight", &StartOutcome::hindsight}}};
// Below this no job need wait.
constexpr double kWorthIt = 0.005;

struct Spread {
  double mean = 0, deviation = 0, lowest = 0, highest = 0;
};

template <class Value>
Spread spread(const SimulationView& view, Value value) {
  Spread found{.lowest = value(view.outcomes.front()), .highest = value(view.outcomes.front())};
  const auto count = static_cast<double>(view.outcomes.size());
  for (const StartOutcome& outcome : view.outcomes) {
    const double one = value(outcome);
    found.mean += one / count;
    found.lowest = std::min(found.lowest, one);
    found.highest = std::max(found.highest, one);
  }
  for (const StartOutcome& outcome : view.outcomes) {
    found.deviation += std::pow(value(outcome) - found.mean, 2) / count;
  }
  found.deviation = std::sqrt(found.deviation);
  return found;
}

double saving(const StartOutcome& outcome, const WayOutcome& way) {
  return 1 - way.grams / outcome.best_static.grams;
}

Spread saving_of(const SimulationView& view, WayOutcome StartOutcome::* way) {
  return spread(view, [way](const StartOutcome& one) { return saving(one, one.*way); });
}

Json spread_json(const Spread& spread) {
  return {{"mean", spread.mean},
          {"deviation", spread.deviation},
          {"lowest", spread.lowest},
          {"highest", spread.highest}};
}

Json way_json(const SimulationView& view, WayOutcome StartOutcome::* way) {
  int late = 0;
  for (const StartOutcome& one : view.outcomes) late += (one.*way).in_time ? 0 : 1;
  const auto of = [&](auto value) {
    return spread_json(spread(view, [&](const StartOutcome& one) { return value(one.*way); }));
  };
  return {{"grams", of([](const WayOutcome& one) { return one.grams; })},
          {"kwh", of([](const WayOutcome& one) { return one.energy.value / 3.6e6; })},
          {"hours", of([](const WayOutcome& one) { return one.time.value / 3600; })},
          {"pauses", of([](const WayOutcome& one) { return static_cast<double>(one.pauses); })},
          {"late", late},
          {"saving_over_static", spread_json(saving_of(view, way))}};
}

std::string percent(double share) {
  return grouped(100 * share, 2) + " %";
}

std::string row(const SimulationView& view, const Way& way) {
  const auto mean = [&](auto value) {
    return spread(view, [&](const StartOutcome& one) { return value(one.*way.outcome); }).mean;
  };
  const Spread saved = saving_of(view, way.outcome);
  const bool is_stand_in = way.outcome == &StartOutcome::all_max && !view.job.all_max;
  const std::string name = is_stand_in ? "fastest*" : way.name;
  std::string text = name + std::string(12 - name.size(), ' ');
  text += cell(mean([](const WayOutcome& one) { return one.grams; }) / 1000, 2, 11);
  text += cell(mean([](const WayOutcome& one) { return one.energy.value / 3.6e6; }), 1, 10);
  text += cell(mean([](const WayOutcome& one) { return one.time.value / 3600; }), 1, 8);
  text += padded(percent(saved.mean), 11) + padded(percent(saved.deviation), 9);
  text += padded(percent(saved.lowest), 11);
  return text + "\n";
}

std::string job_text(const SimulationView& view) {
  const CarbonJob& job = view.job;
  std::string text = duration_text(job.work) + " at the fastest pace, deadline after " +
                     duration_text(job.work * job.deadline_factor) + ", ";
  if (!job.pause.allowed) return text + "no pauses";
  text += "pauses of at least " + duration_text(job.pause.min_dwell) + " at " +
          shortest(job.pause.idle_power.value, 4) + " W";
  if (view.idle_power_is_assumed) text += " (assumed: a fifth of its power at the fastest pace)";
  return text;
}

}  // namespace

std::string simulation_text(const SimulationView& view) {
  const Spread hindsight = saving_of(view, &StartOutcome::hindsight);
  const Spread harpe = saving_of(view, &StartOutcome::harpe);
  std::string text = view.choices + " over " + view.series + " (" + view.kind +
                     "): " + job_text(view) + "; " + std::to_string(view.outcomes.size()) +
                     " starts over the series\n\n" +
                     "                kg CO2eq       kWh   hours   saving+   spread  "
                     "worst start\n";
  for (const Way& way : kWays) text += row(view, way);
  text += "+ against the best static pace of each start, chosen with hindsight; mean over starts\n";
  if (!view.job.all_max) text += "* a " + view.choices + " does not say what all-max takes\n";
  text += '\n';
  if (hindsight.mean < kWorthIt) {
    text += "Nothing is to be gained here: with all intensities known it would emit only " +
            percent(hindsight.mean) +
            " less than one steady pace. A job need not wait for the "
            "grid.\n";
  } else {
    text += "The forecast reaches " + grouped(100 * harpe.mean / hindsight.mean, 0) +
            " % of what hindsight would save over a steady pace; its worst start emits " +
            percent(std::abs(harpe.lowest)) + (harpe.lowest < 0 ? " more" : " less") +
            " than that.\n";
  }
  return text;
}

std::string simulation_json(const SimulationView& view) {
  const CarbonJob& job = view.job;
  const Spread hindsight = saving_of(view, &StartOutcome::hindsight);
  const Spread harpe = saving_of(view, &StartOutcome::harpe);
  Json document = {{"series", view.series},
                   {"kind", view.kind},
                   {"choices", view.choices},
                   {"hours", job.work.value / 3600},
                   {"deadline_factor", job.deadline_factor},
                   {"pause", job.pause.allowed},
                   {"idle_power_w", job.pause.idle_power.value},
                   {"guard", job.guard ? Json(*job.guard) : Json()},
                   {"starts", view.outcomes.size()},
                   {"all_max_known", job.all_max.has_value()}};
  for (const Way& way : kWays) document["ways"][way.key] = way_json(view, way.outcome);
  document["saving_over_static"] = {{"chase", saving_of(view, &StartOutcome::chase).mean},
                                    {"harpe", harpe.mean},
                                    {"hindsight", hindsight.mean},
                                    {"bound", spread(view, [](const StartOutcome& one) {
                                                return 1 - one.bound / one.best_static.grams;
                                              }).mean}};
  document["share_of_hindsight"] = hindsight.mean > 0 ? Json(harpe.mean / hindsight.mean) : Json();
  document["over_hindsight"] = spread(view, [](const StartOutcome& one) {
                                 return one.harpe.grams / one.hindsight.grams - 1;
                               }).mean;
  document["worst_over_static"] = -harpe.lowest;
  return json_text(document);
}

}  // namespace harpe
