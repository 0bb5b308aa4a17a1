#include "harpe/command/lab_cli/simulation_view.h"

#include <array>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

/// A way to choose the speed.
struct SimulatedWay {
  const char* key;
  const char* name;
  lab::WayOutcome lab::StartOutcome::* outcome;
};

constexpr std::array<SimulatedWay, 3> kControlWays{
    {{"static", "best static", &lab::StartOutcome::best_static},
     {"harpe", "Harpe", &lab::StartOutcome::harpe},
     {"hindsight", "hindsight", &lab::StartOutcome::hindsight}}};

/// Means over the starts. `grams` is money if the series is of prices.
struct ComparedControl {
  std::string name;
  std::size_t choices = 0;
  struct Figures {
    double grams = 0, kwh = 0, hours = 0;
    int late = 0;
    OutcomeSpread saving;  ///< share, over the best static pace of any control at that start
  };
  std::array<Figures, kControlWays.size()> ways;  ///< in the order of kControlWays
};

/// The parts of a saving over all-max: by a control's best static pace, by the finer control's best
/// static pace beyond it, and by following the grid with the finer control's forecast. Means, in
/// grams or money.
struct ControlGain {
  std::string control;
  double coarse = 0, fine = 0, grid = 0;
};

/// For each start: the grams of the best static pace of all controls, and the amount that savings
/// over it are shares of.
struct References {
  std::vector<double> grams, base;
};

References references_of(const SimulationView& view) {
  References references;
  double sum = 0;
  for (std::size_t i = 0; i < view.outcomes.size(); ++i) {
    double least = view.outcomes[i].best_static.grams;
    for (const ControlOutcomes& control : view.controls) {
      least = std::min(least, control.outcomes[i].best_static.grams);
    }
    references.grams.push_back(least);
    sum += std::abs(least);
  }
  references.base = references.grams;
  if (!view.money.empty()) {  // prices may be negative
    const double mean = sum / static_cast<double>(view.outcomes.size());
    references.base.assign(view.outcomes.size(), std::max(1e-12, mean));
  }
  return references;
}

ComparedControl compared(std::string name, std::size_t choices,
                         std::span<const lab::StartOutcome> outcomes,
                         const References& references) {
  ComparedControl control{.name = std::move(name), .choices = choices, .ways = {}};
  for (std::size_t w = 0; w < kControlWays.size(); ++w) {
    const auto way = kControlWays[w].outcome;
    ComparedControl::Figures& figures = control.ways[w];
    figures.grams = mean_grams(outcomes, way);
    figures.kwh =
        mean_of(outcomes, way, [](const lab::WayOutcome& one) { return one.energy.value / 3.6e6; });
    figures.hours =
        mean_of(outcomes, way, [](const lab::WayOutcome& one) { return one.time.value / 3600; });
    for (const lab::StartOutcome& one : outcomes) figures.late += (one.*way).in_time ? 0 : 1;
    figures.saving = spread(outcomes, [&](const lab::StartOutcome& one) {
      const auto i = static_cast<std::size_t>(&one - outcomes.data());
      return (references.grams[i] - (one.*way).grams) / references.base[i];
    });
  }
  return control;
}

/// Returns the controls to compare with, then the job's own.
std::vector<ComparedControl> compared_controls(const SimulationView& view) {
  const References references = references_of(view);
  std::vector<ComparedControl> controls;
  for (const ControlOutcomes& control : view.controls) {
    controls.push_back(compared(control.name, control.choices, control.outcomes, references));
  }
  controls.push_back(compared(view.choices, view.job.choices.size(), view.outcomes, references));
  return controls;
}

/// Returns a gain for each control to compare with.
std::vector<ControlGain> control_gains(const SimulationView& view) {
  const double all_max = mean_grams(view.outcomes, &lab::StartOutcome::all_max);
  const double fine = mean_grams(view.outcomes, &lab::StartOutcome::best_static);
  const double harpe = mean_grams(view.outcomes, &lab::StartOutcome::harpe);
  std::vector<ControlGain> gains;
  for (const ControlOutcomes& control : view.controls) {
    const double coarse = mean_grams(control.outcomes, &lab::StartOutcome::best_static);
    gains.push_back({control.name, all_max - coarse, coarse - fine, fine - harpe});
  }
  return gains;
}

/// Returns a table, and a sentence for each gain.
std::string compared_controls_text(const SimulationView& view) {
  const bool is_price = !view.money.empty();
  const double unit = is_price ? 1 : 1000;
  const std::string unit_name = is_price ? view.money : "kg CO2eq";
  Table table = Table::of({"", unit_name, "kWh", "hours", "saving", "worst start"});
  for (const ComparedControl& control : compared_controls(view)) {
    table.add({control.name + " (" + std::to_string(control.choices) + " choices)"});
    for (std::size_t w = 0; w < kControlWays.size(); ++w) {
      const ComparedControl::Figures& figures = control.ways[w];
      table.add({std::string("  ") + kControlWays[w].name, grouped(figures.grams / unit, 2),
                 grouped(figures.kwh, 1), grouped(figures.hours, 1),
                 percent_text(100 * figures.saving.mean, 2),
                 percent_text(100 * figures.saving.lowest, 2)});
    }
  }
  std::string text =
      "The same job under other controls, all with the same deadline; saving against the best "
      "static pace of any control\n\n" +
      table.text(false);
  for (const ControlGain& gain : control_gains(view)) {
    const auto amount = [&](double grams) { return grouped(grams / unit, 2); };
    text += "\nOf " + amount(gain.coarse + gain.fine + gain.grid) + " " + unit_name +
            " saved over " + (view.job.all_max ? "all-max" : "the fastest choice") + ", " +
            gain.control + " saves " + amount(gain.coarse) + " at its best static pace, the " +
            view.choices + " " + amount(gain.fine) + " more at its own, and following " +
            (is_price ? "prices " : "the grid ") + amount(gain.grid) + ".\n";
  }
  return text;
}

constexpr std::array<SimulatedWay, 7> kSimulatedWays{
    {{"all_max", "all-max", &lab::StartOutcome::all_max},
     {"steady", "steady", &lab::StartOutcome::steady},
     {"static", "best static", &lab::StartOutcome::best_static},
     {"chase", "Chase", &lab::StartOutcome::chase},
     {"chase_static", "Chase's time", &lab::StartOutcome::chase_static},
     {"harpe", "Harpe", &lab::StartOutcome::harpe},
     {"hindsight", "hindsight", &lab::StartOutcome::hindsight}}};
/// Returns the amount that savings are shares of. For intensities: the emissions of this start's
/// best static pace. For prices, which may be negative: the mean cost of the best static paces.
double base_of(const SimulationView& view, const lab::StartOutcome& outcome) {
  if (view.money.empty()) return outcome.best_static.grams;
  double sum = 0;
  for (const lab::StartOutcome& one : view.outcomes) sum += std::abs(one.best_static.grams);
  return std::max(1e-12, sum / static_cast<double>(view.outcomes.size()));
}

double saving(const SimulationView& view, const lab::StartOutcome& outcome,
              const lab::WayOutcome& way) {
  return (outcome.best_static.grams - way.grams) / base_of(view, outcome);
}

OutcomeSpread saving_of(const SimulationView& view, lab::WayOutcome lab::StartOutcome::* way) {
  return spread(view.outcomes,
                [&](const lab::StartOutcome& one) { return saving(view, one, one.*way); });
}

Json spread_json(const OutcomeSpread& spread) {
  return {{"mean", spread.mean},
          {"deviation", spread.deviation},
          {"lowest", spread.lowest},
          {"highest", spread.highest}};
}

/// Returns the relative difference of the sums over all starts from all-max; below 0 is less.
double over_all_max(const SimulationView& view, lab::WayOutcome lab::StartOutcome::* way) {
  const double all_max = mean_grams(view.outcomes, &lab::StartOutcome::all_max);
  return (mean_grams(view.outcomes, way) - all_max) / std::max(1e-12, std::abs(all_max));
}
double time_over_all_max(const SimulationView& view, lab::WayOutcome lab::StartOutcome::* way) {
  const auto time = [](const lab::WayOutcome& one) { return one.time.value; };
  return mean_of(view.outcomes, way, time) /
             mean_of(view.outcomes, &lab::StartOutcome::all_max, time) -
         1;
}

Json way_json(const SimulationView& view, lab::WayOutcome lab::StartOutcome::* way) {
  int late = 0;
  for (const lab::StartOutcome& one : view.outcomes) late += (one.*way).in_time ? 0 : 1;
  const auto of = [&](auto value) {
    return spread_json(
        spread(view.outcomes, [&](const lab::StartOutcome& one) { return value(one.*way); }));
  };
  return {
      {view.money.empty() ? "grams" : "cost",
       of([](const lab::WayOutcome& one) { return one.grams; })},
      {"kwh", of([](const lab::WayOutcome& one) { return one.energy.value / 3.6e6; })},
      {"hours", of([](const lab::WayOutcome& one) { return one.time.value / 3600; })},
      {"pauses", of([](const lab::WayOutcome& one) { return static_cast<double>(one.pauses); })},
      {"late", late},
      {"over_all_max",
       {{view.money.empty() ? "emissions" : "cost", over_all_max(view, way)},
        {"time", time_over_all_max(view, way)}}},
      {"saving_over_static", spread_json(saving_of(view, way))}};
}

std::vector<std::string> cells_of(const SimulationView& view, const SimulatedWay& way) {
  const auto mean = [&](auto value) { return mean_of(view.outcomes, way.outcome, value); };
  const OutcomeSpread saved = saving_of(view, way.outcome);
  const bool is_stand_in = way.outcome == &lab::StartOutcome::all_max && !view.job.all_max;
  const double unit = view.money.empty() ? 1000 : 1;
  return {is_stand_in ? "fastest*" : way.name,
          grouped(mean([](const lab::WayOutcome& one) { return one.grams; }) / unit, 2),
          grouped(mean([](const lab::WayOutcome& one) { return one.energy.value / 3.6e6; }), 1),
          grouped(mean([](const lab::WayOutcome& one) { return one.time.value / 3600; }), 1),
          percent_text(100 * saved.mean, 2),
          percent_text(100 * saved.deviation, 2),
          percent_text(100 * saved.lowest, 2)};
}

void add_controls(const SimulationView& view, Json& document) {
  const char* amount = view.money.empty() ? "grams" : "cost";
  for (const ComparedControl& control : compared_controls(view)) {
    Json& entry = document["controls"].emplace_back();
    entry = {{"control", control.name}, {"choices", control.choices}};
    for (std::size_t w = 0; w < kControlWays.size(); ++w) {
      const ComparedControl::Figures& figures = control.ways[w];
      entry["ways"][kControlWays[w].key] = {{amount, figures.grams},
                                            {"kwh", figures.kwh},
                                            {"hours", figures.hours},
                                            {"late", figures.late},
                                            {"saving", spread_json(figures.saving)}};
    }
  }
  for (const ControlGain& gain : control_gains(view)) {
    document["gain_over_all_max"].push_back({{"control", gain.control},
                                             {"by_control", gain.coarse},
                                             {"by_finer_choices", gain.fine},
                                             {"by_forecast", gain.grid}});
  }
}

/// Returns true if the way is shown. Chase's rule does not apply to prices, and the constant choice
/// that takes as long is shown only on request.
bool is_shown(const SimulationView& view, const SimulatedWay& way) {
  if (way.outcome == &lab::StartOutcome::chase_static) return view.shows_chase;
  return way.outcome != &lab::StartOutcome::chase || view.money.empty();
}

std::string chase_text(const SimulationView& view) {
  const auto against = [&](lab::WayOutcome lab::StartOutcome::* way) {
    return percent_text(100 * over_all_max(view, way), 2) + " emissions at " +
           percent_text(100 * time_over_all_max(view, way), 2) + " time";
  };
  return "Against all-max, Chase's rule has " + against(&lab::StartOutcome::chase) +
         ";\none constant choice that takes no longer has " +
         against(&lab::StartOutcome::chase_static) + ".\n";
}

std::string job_text(const SimulationView& view) {
  const lab::CarbonJob& job = view.job;
  std::string text = duration_text(job.work) + " at the fastest pace, ";
  text += job.slack ? "not known in advance, never more than " + duration_text(*job.slack) +
                          " behind 1/" + shortest(job.deadline_factor, 4) + " of that pace, "
                    : "deadline after " + duration_text(job.work * job.deadline_factor) + ", ";
  if (!job.pause.allowed) return text + "no pauses";
  text += "pauses of at least " + duration_text(job.pause.min_dwell) + " at " +
          shortest(job.pause.idle_power.value, 4) + " W";
  if (view.idle_power_is_assumed) text += " (assumed: a fifth of its power at the fastest pace)";
  return text;
}

}  // namespace

std::string simulation_text(const SimulationView& view) {
  const OutcomeSpread hindsight = saving_of(view, &lab::StartOutcome::hindsight);
  const OutcomeSpread harpe = saving_of(view, &lab::StartOutcome::harpe);
  std::string text = view.choices + " over " + view.series + " (" + view.kind +
                     "): " + job_text(view) + "; " + std::to_string(view.outcomes.size()) +
                     " starts over the series\n\n";
  Table table = Table::of({"", view.money.empty() ? "kg CO2eq" : view.money, "kWh", "hours",
                           "saving+", "spread", "worst start"});
  for (const SimulatedWay& way : kSimulatedWays) {
    if (is_shown(view, way)) table.add(cells_of(view, way));
  }
  text += table.text(false);
  text += "+ against the best static pace of each start, chosen with hindsight; mean over starts\n";
  if (!view.job.all_max) text += "* a " + view.choices + " has no time and energy of all-max\n";
  text += '\n';
  if (!view.controls.empty()) text += compared_controls_text(view) + '\n';
  if (view.shows_chase) text += chase_text(view) + '\n';
  const bool is_price = !view.money.empty();
  if (hindsight.mean < kWorthIt) {
    text += std::string("There is nothing to gain here: with all ") +
            (is_price ? "prices" : "intensities") + " known, the job would " +
            (is_price ? "pay only " : "emit only ") + percent_text(100 * hindsight.mean, 2) +
            " less than at one steady pace. The job does not need to wait "
            "for the grid.\n";
  } else {
    text += std::string("The forecast") +
            (view.error_share < 1
                 ? ", with " + percent_text(100 * view.error_share, 2) + " of its error,"
                 : "") +
            " reaches " + grouped(100 * harpe.mean / hindsight.mean, 0) +
            " % of the saving with hindsight over a steady pace; its worst start " +
            (is_price ? "pays " : "emits ") + percent_text(100 * std::abs(harpe.lowest), 2) +
            (harpe.lowest < 0 ? " more" : " less") + " than the steady pace.\n";
  }
  return text;
}

std::string simulation_json(const SimulationView& view) {
  const lab::CarbonJob& job = view.job;
  const OutcomeSpread hindsight = saving_of(view, &lab::StartOutcome::hindsight);
  const OutcomeSpread harpe = saving_of(view, &lab::StartOutcome::harpe);
  Json document = {{"series", view.series},
                   {"kind", view.kind},
                   {"choices", view.choices},
                   {"hours", job.work.value / 3600},
                   {"deadline_factor", job.deadline_factor},
                   {"pause", job.pause.allowed},
                   {"idle_power_w", job.pause.idle_power.value},
                   {"guard", job.guard ? Json(*job.guard) : Json()},
                   {"guard_share", job.guard ? Json(job.guard_share) : Json()},
                   {"money", view.money.empty() ? Json() : Json(view.money)},
                   {"slack_hours", job.slack ? Json(job.slack->value / 3600) : Json()},
                   {"error_share", view.error_share},
                   {"starts", view.outcomes.size()},
                   {"all_max_known", job.all_max.has_value()}};
  for (const SimulatedWay& way : kSimulatedWays)
    document["ways"][way.key] = way_json(view, way.outcome);
  document["saving_over_static"] = {
      {"chase", saving_of(view, &lab::StartOutcome::chase).mean},
      {"harpe", harpe.mean},
      {"hindsight", hindsight.mean},
      {"bound", spread(view.outcomes, [&](const lab::StartOutcome& one) {
                  return (one.best_static.grams - one.bound) / base_of(view, one);
                }).mean}};
  document["share_of_hindsight"] = hindsight.mean > 0 ? Json(harpe.mean / hindsight.mean) : Json();
  document["over_hindsight"] = spread(view.outcomes, [](const lab::StartOutcome& one) {
                                 return one.harpe.grams / one.hindsight.grams - 1;
                               }).mean;
  if (!view.controls.empty()) add_controls(view, document);
  document["foreseen"] = {{"starts", view.prospect.starts},
                          {"bound", view.prospect.bound},
                          {"nothing_to_gain", view.prospect.bound < kWorthIt}};
  document["worst_over_static"] = -harpe.lowest;
  document["worst_over_steady"] =
      spread(view.outcomes, [&](const lab::StartOutcome& one) {
        return (one.harpe.grams - one.steady.grams) /
               (view.money.empty() ? one.steady.grams : base_of(view, one));
      }).highest;
  return json_text(document);
}

}  // namespace harpe::command
