#include "harpe/command/lab_cli/emulate_output.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "harpe/base/parquet.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/report/power_chart.h"
#include "harpe/report/usage_page.h"

namespace harpe::command {
namespace {

/// Most rows of a catalogue file: about 400 MB.
constexpr std::size_t kMostRows = 10'000'000;

/// Returns a name of the run in letters, digits and '-', which needs no quotes in CSV.
std::string run_id(const EmulatedTrainingResult& result) {
  std::string id = "emulated-" + result.title + "-seed-" + std::to_string(result.shape.seed);
  for (char& letter : id) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9');
    if (!is_plain) letter = '-';
  }
  return id;
}

std::string time_text(std::size_t step, Seconds length) {
  return shortest(static_cast<double>(step) * length.value, 3);
}

std::string kilowatts(double watts) {
  return grouped(watts / 1000, 1) + " kW";
}

/// Column of power, one value per step, with a name such as "node_0_w".
struct PowerColumn {
  std::string name;
  std::vector<double> watts;
};

/// Returns the power of the job by both policies, then of nodes and GPUs by Harpe's plans.
std::vector<PowerColumn> columns_of(const lab::PowerRecorder& harpe,
                                    const EmulatedTrainingResult& result) {
  std::vector<PowerColumn> columns;
  for (const EmulatedPower& power : result.power)
    columns.push_back({power.key == "harpe" ? "job_w" : "job_" + power.key + "_w", power.watts});
  for (std::size_t node = 0; node < harpe.nodes(); ++node)
    columns.push_back({"node_" + std::to_string(node) + "_w", harpe.node(node)});
  for (int p = 0; p < harpe.options().pipelines; ++p) {
    for (int stage = 0; stage < result.stages; ++stage) {
      columns.push_back(
          {"pipeline_" + std::to_string(p) + "_stage_" + std::to_string(stage) + "_gpu_w",
           harpe.gpu(static_cast<std::size_t>(p), static_cast<std::size_t>(stage))});
    }
  }
  const std::size_t steps = columns.front().watts.size();  // both policies have the same number
  for (PowerColumn& column : columns) column.watts.resize(steps);
  return columns;
}

/// A policy with its names.
struct NamedTotals {
  std::string key, name;  ///< "all_max", "all-max"
  const lab::PolicyTotals* totals;
};

std::string clock_text(Megahertz clock) {
  return std::to_string(clock.value) + " MHz";
}

std::vector<NamedTotals> policies_of(const EmulatedTrainingResult& result) {
  const lab::EmulationOutcome& outcome = result.outcome;
  std::vector<NamedTotals> all = {{"harpe", "Harpe", &outcome.harpe},
                                  {"all_max", "all-max", &outcome.all_max}};
  if (outcome.rival && result.one_clock) {
    all.push_back(
        {"one_clock", "one clock, " + clock_text(result.one_clock->clock), &*outcome.rival});
  }
  return all;
}

/// Returns the mean cost of an iteration of one pipeline, including all events in between.
carbon::IterationCost mean_cost(const EmulatedTrainingResult& result,
                                const lab::PolicyTotals& totals) {
  const auto iterations = static_cast<double>(result.outcome.iterations);
  return {.time = totals.time / iterations,
          .energy = totals.energy / iterations / static_cast<double>(result.shape.pipelines)};
}

ClusterCosts costs_of(const EmulatedTrainingResult& result) {
  ClusterCosts costs{.gpus_per_pipeline = result.gpus / result.shape.pipelines,
                     .plan = mean_cost(result, result.outcome.harpe),
                     .all_max = mean_cost(result, result.outcome.all_max)};
  if (result.outcome.rival && result.one_clock) {
    costs.one_clock = ClusterCosts::OneClock{.cost = mean_cost(result, *result.outcome.rival),
                                             .clock = result.one_clock->clock,
                                             .name = result.one_clock->name};
  }
  return costs;
}

/// Returns the bill of the site for this number of tokens.
carbon::ClusterBill bill_of_tokens(const EmulatedTrainingResult& result,
                                   const lab::PolicyTotals& totals, double tokens) {
  return carbon::cluster_bill(result.cluster, result.gpus / result.shape.pipelines,
                              mean_cost(result, totals), tokens / *result.tokens);
}

/// Returns a sentence on the cost of a million tokens, or of more if that is little; empty if the
/// number of tokens is unknown.
std::string tokens_text(const EmulatedTrainingResult& result) {
  if (!result.tokens) return {};
  constexpr Joules kLittle{0.1 * 3.6e6};
  const char* name = "A million";
  double tokens = 1e6;
  for (const char* larger : {"A billion", "A trillion"}) {
    if (bill_of_tokens(result, result.outcome.harpe, tokens).energy >= kLittle) break;
    name = larger;
    tokens *= 1000;
  }
  const auto words = [&](const lab::PolicyTotals& totals) {
    const carbon::ClusterBill bill = bill_of_tokens(result, totals, tokens);
    return amounts_text(result.cluster, bill.energy, bill.co2, bill.money);
  };
  return std::string(name) + " tokens need " + words(result.outcome.harpe) + "; at all-max " +
         words(result.outcome.all_max);
}

std::string share_text(double share) {
  return percent_text(100 * share, 2);
}

/// Share below which the displayed digits do not change.
constexpr double kShown = 5e-5;

std::string saved_text(const EmulatedTrainingResult& result, const NamedTotals& policy) {
  if (policy.totals == &result.outcome.harpe) return {};
  const double saved = result.outcome.saving(*policy.totals);
  if (2 * result.deviation < kShown) return share_text(saved);
  return fixed(100 * saved, 2) + " +- " + share_text(2 * result.deviation);
}

/// Returns the additional time of the policy against all-max, such as "+0.53 %".
std::string slower_text(const lab::EmulationOutcome& outcome, const lab::PolicyTotals& totals) {
  const double slower = totals.time / outcome.all_max.time - 1;
  return (slower < kShown ? "" : "+") + share_text(slower);
}

/// Returns the energy with at least four significant digits.
std::string energy_text(double kwh) {
  int decimals = 3;
  for (double value = kwh; value > 0 && value < 1 && decimals < 9; value *= 10) ++decimals;
  return fixed(kwh, decimals) + " kWh";
}

std::vector<std::vector<std::string>> table_of(const EmulatedTrainingResult& result) {
  std::vector<std::vector<std::string>> rows = {
      {"", "iteration", "slower", "power", "energy", "Harpe saves"}};
  const auto iterations = static_cast<double>(result.outcome.iterations);
  for (const NamedTotals& policy : policies_of(result)) {
    const lab::PolicyTotals& totals = *policy.totals;
    const bool is_all_max = policy.totals == &result.outcome.all_max;
    rows.push_back({policy.name, seconds_text(totals.time.value / iterations),
                    is_all_max ? std::string() : slower_text(result.outcome, totals),
                    grouped(totals.power().value / 1000, 1) + " kW",
                    energy_text(totals.energy / carbon::kKilowattHour / iterations),
                    saved_text(result, policy)});
  }
  return rows;
}

/// Returns the table with the slowdown in the first column, after the policy's name. It has one
/// column less and fits the width of a phone.
std::vector<std::vector<std::string>> narrow_table_of(const EmulatedTrainingResult& result) {
  std::vector<std::vector<std::string>> rows = table_of(result);
  rows.front()[0] = "(slower than all-max)";
  for (std::vector<std::string>& row : rows) {
    if (&row != &rows.front() && !row[2].empty()) row[0] += " (" + row[2] + ")";
    row.erase(row.begin() + 2);
  }
  return rows;
}

std::string count_text(std::int64_t count) {
  return grouped(static_cast<double>(count), 0);
}

std::string cluster_words(const EmulatedTrainingResult& result) {
  return count_text(result.gpus) + " GPUs: " + count_text(result.shape.pipelines) +
         (result.shape.pipelines == 1 ? " pipeline of " : " pipelines of ") +
         std::to_string(result.stages) + " stages, " + std::to_string(result.shape.gpus_per_stage) +
         " per stage";
}

/// Returns sentences on the length and the events of the emulation.
std::vector<std::string> course_of(const EmulatedTrainingResult& result) {
  const lab::EmulationOutcome& outcome = result.outcome;
  std::vector<std::string> lines = {count_text(outcome.iterations) + " iterations, " +
                                    duration_text(Seconds{std::round(outcome.harpe.time.value)}) +
                                    " of training, seed " + std::to_string(result.shape.seed)};
  lines.insert(lines.end(), result.events.begin(), result.events.end());
  if (outcome.straggling > 0) {
    lines.push_back("A pipeline was slow in " + count_text(outcome.straggling) + " iterations (" +
                    share_text(static_cast<double>(outcome.straggling) /
                               static_cast<double>(outcome.executed)) +
                    "), and plans changed " + count_text(outcome.plan_changes) +
                    (outcome.plan_changes == 1 ? " time" : " times"));
  }
  if (outcome.above_cap > 0) {
    lines.push_back("In " + count_text(outcome.above_cap) +
                    " iterations, all plans draw more than the power cap");
  }
  if (outcome.checkpoints > 0 || outcome.failures > 0) {
    lines.push_back(count_text(outcome.checkpoints) + " checkpoints and " +
                    count_text(outcome.failures) + " failures, after which " +
                    count_text(outcome.executed - outcome.iterations) +
                    " iterations were run again");
  }
  return lines;
}

/// Returns sentences on the uncertainty of the result.
std::vector<std::string> doubts_of(const EmulatedTrainingResult& result) {
  std::vector<std::string> lines;
  if (2 * result.deviation >= kShown) {
    lines.push_back("The figure after +- is only twice the standard deviation between " +
                    std::to_string(result.other_seeds) +
                    " emulations with other seeds: other nodes, other random stragglers, other "
                    "failures");
  }
  const std::string noise = result.shape.noise > 0 ? share_text(result.shape.noise) : "no";
  std::string spread = "Emulated with " + noise + " noise of each instruction and " +
                       share_text(result.shape.power_spread) + " spread of power between nodes";
  lines.push_back(std::move(spread));
  lines.emplace_back(
      "Times and energies are from the profile: the result is only as good as the profile. "
      "Predictions of single plans were 0.3 % off in time and 0.24 % in energy on four A100 "
      "(docs/validation.md)");
  lines.emplace_back(
      "GPUs that wait draw their blocking power, also during checkpoints and restarts");
  return lines;
}

/// Returns the power over at most the first three iterations, so that their course is visible. No
/// plan has changed for a straggler at that time.
report::PowerChart chart_of(const EmulatedTrainingResult& result) {
  const double shown = 3 * result.outcome.harpe.time.value /
                       static_cast<double>(result.outcome.iterations) / result.power_step.value;
  report::PowerChart chart{.title = result.title + ": power of all GPUs over the first iterations",
                           .subtitle = cluster_words(result),
                           .doubt = "Emulated GPUs, not real ones.",
                           .step = result.power_step};
  for (const EmulatedPower& power : result.power) {
    report::PowerCurve& curve = chart.curves.emplace_back(report::PowerCurve{
        .name = power.name, .is_ours = power.key == "harpe", .watts = power.watts});
    if (shown < static_cast<double>(curve.watts.size()))
      curve.watts.resize(static_cast<std::size_t>(shown));
  }
  return chart;
}

/// Returns sentences on the savings and the events of a real job on the cluster.
std::vector<std::string> job_lines(const JobTrainingResult& job) {
  const auto kwh = [](Joules energy) {
    return grouped(energy / carbon::kKilowattHour, 3) + " kWh";
  };
  std::vector<std::string> lines = {
      "With the decisions of a real job, " + count_text(job.iterations) + " iterations: " +
      share_text(job.saved() / job.all_max_energy) + " saved against all-max, " + kwh(job.saved()) +
      "; the saving that the job reports, for the iterations that it could compare: " +
      kwh(job.claimed) + " +- " + kwh(job.claimed_error) + "; " +
      share_text(job.time / job.all_max_time - 1) + " slower than at all-max"};
  constexpr std::size_t kMostEvents = 12;
  for (std::size_t i = 0; i < std::min(kMostEvents, job.events.size()); ++i) {
    const training::JobEvent& event = job.events[i];
    lines.push_back("  " + duration_text(Seconds{std::round((event.at - job.begin).value)}) + ": " +
                    event.text);
  }
  if (job.events.size() > kMostEvents)
    lines.push_back("  and " + std::to_string(job.events.size() - kMostEvents) +
                    " more events (--json has them)");
  return lines;
}

Json job_json(const JobTrainingResult& job) {
  Json events = Json::array();
  for (const training::JobEvent& event : job.events)
    events.push_back({{"at_s", (event.at - job.begin).value}, {"text", event.text}});
  return {{"iterations", job.iterations},
          {"time_s", job.time.value},
          {"energy_j", job.energy.value},
          {"all_max_time_s", job.all_max_time.value},
          {"all_max_energy_j", job.all_max_energy.value},
          {"saved_j", job.saved().value},
          {"claimed_j", job.claimed.value},
          {"claimed_error_j", job.claimed_error.value},
          {"events", std::move(events)}};
}

/// Returns a sentence on the energy saved against all-max. The page shows the amounts of the site,
/// so the share is that of the site, too; if hosts or cooling count, the share of the GPUs follows.
std::string less_words(const EmulatedTrainingResult& result, const carbon::ClusterSaving& saved,
                       const carbon::ClusterBill& all_max) {
  const std::string of_gpus = share_text(result.outcome.saving(result.outcome.all_max));
  const bool is_gpus_alone = result.cluster.pue == 1 && result.cluster.host_power == Watts{0};
  if (is_gpus_alone)
    return "This is " + of_gpus +
           " less than with all GPUs at their highest clocks, for the same training.";
  return "This is " + share_text(saved.energy / all_max.energy) +
         " less than the site uses with all GPUs at their highest clocks, for the same training; "
         "of the GPUs alone, " +
         of_gpus + " less.";
}

/// Returns a sentence if the training takes visibly longer than at all-max; otherwise empty.
std::string slower_words(const lab::EmulationOutcome& outcome) {
  if (outcome.harpe.time / outcome.all_max.time - 1 < kShown) return {};
  return " It takes " + share_text(outcome.harpe.time / outcome.all_max.time - 1) + " longer.";
}

}  // namespace

std::string emulation_text(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files, bool coloured) {
  std::string text = synthetic_line(result.is_synthetic, coloured);
  for (const std::string& line :
       {result.subtitle, cluster_words(result), joined(course_of(result), ". ") + '.'})
    text += wrapped_text(line, kTextColumns);
  const std::vector<std::vector<std::string>> rows = table_of(result);
  Table table = Table::of(rows.front());
  for (const std::vector<std::string>& cells : rows | std::views::drop(1)) table.add(cells);
  text += '\n' + table.text(coloured) + '\n';
  text += wrapped_lines(cluster_text(result.cluster, costs_of(result)), kTextColumns);
  if (result.tokens) text += wrapped_text(tokens_text(result) + '.', kTextColumns);
  for (const std::string& line : swings_of(result)) text += wrapped_text(line + '.', kTextColumns);
  text += wrapped_text("Accuracy: " + joined(doubts_of(result), ". ") + '.', kTextColumns);
  if (result.through_job)
    for (const std::string& line : job_lines(*result.through_job))
      text += wrapped_text(line, kTextColumns, 4);
  for (const std::string& note : result.notes) text += wrapped_text("note: " + note, kTextColumns);
  if (!files.empty()) {
    text += "\nWritten:\n";
    for (const std::string& file : files) text += "  " + file + '\n';
  }
  return text;
}

std::string emulation_json(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files) {
  const lab::EmulationOutcome& outcome = result.outcome;
  Json policies = Json::array();
  Json saved = Json::object();
  const auto iterations = static_cast<double>(outcome.iterations);
  for (const NamedTotals& policy : policies_of(result)) {
    policies.push_back({{"policy", policy.key},
                        {"iteration_time_s", policy.totals->time.value / iterations},
                        {"power_w", policy.totals->power().value},
                        {"time_s", policy.totals->time.value},
                        {"energy_kwh", policy.totals->energy / carbon::kKilowattHour}});
    if (result.tokens) {
      const carbon::ClusterBill bill = bill_of_tokens(result, *policy.totals, 1e6);
      policies.back()["kwh_per_million_tokens"] = bill.energy / carbon::kKilowattHour;
    }
    if (policy.totals != &outcome.harpe)
      saved[policy.key] = {{"percent", 100 * outcome.saving(*policy.totals)}};
  }
  Json power = Json::array();
  for (const EmulatedPower& one : result.power) power.push_back(power_json(one));
  return json_text(
      {{"synthetic", result.is_synthetic},
       {"gpus", result.gpus},
       {"pipelines", result.shape.pipelines},
       {"stages", result.stages},
       {"gpus_per_stage", result.shape.gpus_per_stage},
       {"seed", result.shape.seed},
       {"noise_percent", 100 * result.shape.noise},
       {"power_spread_percent", 100 * result.shape.power_spread},
       {"iterations", outcome.iterations},
       {"executed", outcome.executed},
       {"straggling", outcome.straggling},
       {"above_cap", outcome.above_cap},
       {"failures", outcome.failures},
       {"checkpoints", outcome.checkpoints},
       {"plan_changes", outcome.plan_changes},
       {"policies", std::move(policies)},
       {"saved", std::move(saved)},
       {"power", std::move(power)},
       {"deviation_percent", 100 * result.deviation},
       {"other_seeds", result.other_seeds},
       {"cluster", cluster_json(result.cluster, costs_of(result))},
       {"through_job", result.through_job ? job_json(*result.through_job) : Json(nullptr)},
       {"notes", result.notes},
       {"files", files}});
}

std::string power_svg(const EmulatedTrainingResult& result) {
  return report::power_chart_svg(chart_of(result));
}

std::string spectrum_csv(const EmulatedTrainingResult& result) {
  std::string text = "hertz";
  for (const EmulatedPower& power : result.power) text += ',' + power.key + "_amplitude_w";
  text += '\n';
  for (std::size_t i = 0; i < result.power.front().swings.spectrum.size(); ++i) {
    text += shortest(result.power.front().swings.spectrum[i].hertz, 5);
    for (const EmulatedPower& power : result.power)
      text += ',' + shortest(power.swings.spectrum[i].amplitude.value, 2);
    text += '\n';
  }
  return text;
}

std::string emulation_page(const EmulatedTrainingResult& result, PageSource source) {
  const ClusterCosts costs = costs_of(result);
  const double iterations = carbon::iterations_in(result.cluster, costs.plan.time);
  const auto bill = [&](const carbon::IterationCost& cost) {
    return carbon::cluster_bill(result.cluster, costs.gpus_per_pipeline, cost, iterations);
  };
  const carbon::ClusterSaving saved = carbon::saving(bill(costs.plan), bill(costs.all_max));
  report::UsagePageInput page{.title = result.title, .subtitle = result.subtitle};
  page.headline = (result.cluster.time == carbon::kMonth
                       ? "Saving in a month: "
                       : "Saving in " + duration_text(result.cluster.time) + ": ") +
                  amounts_text(result.cluster, saved.energy, saved.co2, saved.money) + ".";
  page.explanation = cluster_words(result) + ". " + less_words(result, saved, bill(costs.all_max)) +
                     slower_words(result.outcome) +
                     " The GPUs were emulated: no real GPU was used.";
  page.doubt = "Emulated GPUs, not real ones.";
  page.table = narrow_table_of(result);
  page.table_heading = "What is saved";
  if (!result.power.empty()) {
    page.figures = {{"Power of all GPUs over the first iterations",
                     report::power_chart_figure(chart_of(result)),
                     "Each point is a mean over one pixel."}};
  }
  report::PageSection rests{.heading = "Basis"}, sure{.heading = "Accuracy"};
  for (auto& [name, value] : cluster_facts(result.cluster, costs))
    rests.lines.push_back(name + ": " + value);
  if (result.tokens) rests.lines.push_back(tokens_text(result));
  for (const auto& lines : {course_of(result), swings_of(result)})
    rests.lines.insert(rests.lines.end(), lines.begin(), lines.end());
  for (const auto& lines : {doubts_of(result), result.notes})
    sure.lines.insert(sure.lines.end(), lines.begin(), lines.end());
  page.sections = {std::move(rests), std::move(sure)};
  if (result.through_job)
    page.sections.push_back({"With the decisions of a real job", job_lines(*result.through_job)});
  if (result.is_synthetic) page.warnings.emplace_back(kSyntheticRemark);
  page.source = std::move(source);
  return report::usage_page(page);
}

std::vector<std::string> swings_of(const EmulatedTrainingResult& result) {
  std::vector<std::string> lines;
  for (const EmulatedPower& power : result.power) {
    const Seconds recorded{
        std::round(result.power_step.value * static_cast<double>(power.watts.size()))};
    const lab::PowerSwings& swings = power.swings;
    std::string line = "Power in the first " + duration_text(recorded) + ", " + power.name +
                       ": peak " + kilowatts(swings.peak.value) + ", lowest " +
                       kilowatts(swings.lowest.value) + ", mean " + kilowatts(swings.mean.value);
    for (const lab::PowerRamp& ramp : swings.ramps) {
      line += "; steepest over " + shortest(ramp.over.value) + " s +" + kilowatts(ramp.up) +
              "/s, -" + kilowatts(ramp.down) + "/s";
    }
    if (swings.strongest.hertz > 0) {
      line +=
          "; strongest swing from 0.1 to 20 Hz: " + kilowatts(swings.strongest.amplitude.value) +
          " up and down at " + shortest(swings.strongest.hertz, 2) + " Hz";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Json power_json(const EmulatedPower& power) {
  Json ramps = Json::array();
  for (const lab::PowerRamp& ramp : power.swings.ramps) {
    ramps.push_back(
        {{"over_s", ramp.over.value}, {"up_w_per_s", ramp.up}, {"down_w_per_s", ramp.down}});
  }
  Json strongest = nullptr;
  if (power.swings.strongest.hertz > 0) {
    strongest = {{"hertz", power.swings.strongest.hertz},
                 {"amplitude_w", power.swings.strongest.amplitude.value}};
  }
  return {{"policy", power.key},
          {"mean_w", power.swings.mean.value},
          {"peak_w", power.swings.peak.value},
          {"lowest_w", power.swings.lowest.value},
          {"ramps", std::move(ramps)},
          {"strongest_swing", std::move(strongest)}};
}

void keep_power(const lab::PowerRecorder& harpe, const lab::PowerRecorder& all_max,
                EmulatedTrainingResult& result) {
  const Seconds step = harpe.options().step;
  const Seconds whole =
      std::min({harpe.options().length, result.outcome.harpe.time, result.outcome.all_max.time});
  const auto steps = std::max<std::size_t>(1, static_cast<std::size_t>(whole / step));
  result.power_step = step;
  const auto keep = [&](const lab::PowerRecorder& recorder, const char* key, const char* name) {
    const auto watts = recorder.job().first(std::min(steps, recorder.job().size()));
    result.power.push_back({.key = key,
                            .name = name,
                            .watts = {watts.begin(), watts.end()},
                            .swings = lab::swings_of(watts, step)});
  };
  keep(harpe, "harpe", "Harpe");
  keep(all_max, "all_max", "all-max");
}

std::string power_table(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  const std::vector<PowerColumn> columns = columns_of(harpe, result);
  std::string text = "time_s";
  for (const PowerColumn& column : columns) text += ',' + column.name;
  for (std::size_t i = 0; i < columns.front().watts.size(); ++i) {
    text += '\n' + time_text(i, result.power_step);
    for (const PowerColumn& column : columns) text += ',' + shortest(column.watts[i], 1);
  }
  return text + '\n';
}

std::string power_parquet(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  const std::vector<PowerColumn> columns = columns_of(harpe, result);
  std::vector<double> times(columns.front().watts.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    times[i] = static_cast<double>(i) * result.power_step.value;
  std::vector<ParquetColumn> table = {{"time_s", times}};
  for (const PowerColumn& column : columns) table.push_back({column.name, column.watts});
  return parquet_table(table);
}

std::string power_openg2g(const EmulatedTrainingResult& result) {
  const std::vector<double>& watts = result.power.front().watts;
  std::string text = "t_s,power_W\n";
  for (std::size_t i = 0; i < watts.size(); ++i) {
    text += time_text(i, result.power_step) + ',' +
            shortest(watts[i] / static_cast<double>(result.gpus), 2) + '\n';
  }
  return text;
}

Status check_catalogue_size(const lab::PowerRecorder& harpe) {
  if (harpe.gpus() == 0) {
    return Error::invalid(
        "--power-format catalogue needs the GPUs of at least one pipeline: --power-pipelines 1");
  }
  const std::size_t rows = harpe.gpus() * harpe.job().size();
  if (rows <= kMostRows) return ok_status();
  return Error::invalid("power.csv would have " + grouped(static_cast<double>(rows), 0) +
                        " rows, more than " + grouped(static_cast<double>(kMostRows), 0) +
                        ": give a shorter --power-time or fewer --power-pipelines");
}

std::string power_catalogue(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result) {
  std::vector<std::vector<double>> gpus;
  for (std::size_t number = 0; number < harpe.gpus(); ++number)
    gpus.push_back(harpe.numbered_gpu(number));
  std::string text = "run_id,timestamp,time_relative_s,gpu_id,power_w,sm_clock_mhz\n";
  for (std::size_t i = 0; i < result.power.front().watts.size(); ++i) {
    const std::string begin = run_id(result) + ",," + time_text(i, result.power_step) + ',';
    for (std::size_t number = 0; number < gpus.size(); ++number) {
      text += begin;
      text += std::to_string(number);
      text += ',';
      text += shortest(gpus[number][i], 1);
      text += ",\n";
    }
  }
  return text;
}

std::string power_metadata(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result,
                           const PageSource& source) {
  const std::size_t steps = result.power.front().watts.size();
  const int pipelines = harpe.options().pipelines;
  Json notes = {"Emulated from a profile: no GPU was measured.",
                "Within an instruction the power is its mean. GPUs of a stage run in lockstep."};
  if (result.is_synthetic) notes.push_back(kSyntheticRemark);
  return json_text({{"run_id", run_id(result)},
                    {"emulated", true},
                    {"source_family", "Harpe emulation"},
                    {"model", result.title},
                    {"method", "training"},
                    {"policy", "Harpe"},
                    {"gpu_type", result.gpu.empty() ? Json(nullptr) : Json(result.gpu)},
                    {"gpu_count", harpe.gpus()},
                    {"gpus_of_the_job", result.gpus},
                    {"parallelism", "DP=" + std::to_string(pipelines) +
                                        ", TP=" + std::to_string(result.shape.gpus_per_stage) +
                                        ", PP=" + std::to_string(result.stages)},
                    {"data_parallel_of_the_job", result.shape.pipelines},
                    {"schedule", result.subtitle},
                    {"seed", result.shape.seed},
                    {"sampling_interval_declared_s", result.power_step.value},
                    {"duration_observed_s", static_cast<double>(steps) * result.power_step.value},
                    {"num_samples", steps * harpe.gpus()},
                    {"power_aggregation", "per_gpu"},
                    {"has_clock_telemetry", false},
                    {"logging_method", source.program},
                    {"command", source.command},
                    {"profile_is_synthetic", result.is_synthetic},
                    {"notes", std::move(notes)}});
}

}  // namespace harpe::command
