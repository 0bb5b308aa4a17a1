#include "harpe/command/replay_cli/zeus_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/replay_cli/regret_page.h"

namespace harpe {
namespace {

/// Null: this way has no figures of that seed.
using FiguresOf = const WayFigures* (*)(const SeedFigures&);
const WayFigures* zeus_of(const SeedFigures& seed) {
  return seed.zeus ? &*seed.zeus : nullptr;
}
const WayFigures* harpe_of(const SeedFigures& seed) {
  return &seed.harpe;
}

/// Batch size and limit with the number of seeds that settle on them, most frequent first.
std::vector<std::pair<std::pair<int, int>, int>> settles_on(const ZeusJob& job, FiguresOf way) {
  std::map<std::pair<int, int>, int> counts;
  for (const SeedFigures& seed : job.seeds) {
    if (const WayFigures* figures = way(seed)) {
      ++counts[{figures->batch_size, figures->power_limit}];
    }
  }
  std::vector<std::pair<std::pair<int, int>, int>> list(counts.begin(), counts.end());
  std::ranges::sort(list, {}, [](const auto& one) { return std::pair(-one.second, one.first); });
  return list;
}

Json settles_json(const ZeusJob& job, FiguresOf way) {
  Json list = Json::array();
  for (const auto& [setting, seeds] : settles_on(job, way)) {
    list.push_back(
        {{"batch_size", setting.first}, {"power_limit_w", setting.second}, {"seeds", seeds}});
  }
  return list;
}

struct Summary {
  Spread by_default, grid, zeus, harpe;
  Spread last_energy, last_time;
  int zeus_seeds = 0;  ///< that `zeus` is of
};

Summary summary_of(const ZeusJob& job) {
  const auto spread = [&job](auto value) {
    std::vector<double> values;
    for (const SeedFigures& seed : job.seeds) values.push_back(value(seed));
    return spread_of(values);
  };
  std::vector<double> zeus;
  for (const SeedFigures& seed : job.seeds) {
    if (seed.zeus) zeus.push_back(seed.zeus->cost_over_oracle);
  }
  return {.by_default = spread([](const SeedFigures& s) { return s.by_default; }),
          .grid = spread([](const SeedFigures& s) { return s.by_grid; }),
          .zeus = spread_of(zeus),
          .harpe = spread([](const SeedFigures& s) { return s.harpe.cost_over_oracle; }),
          .last_energy = spread([](const SeedFigures& s) { return s.harpe.last_energy; }),
          .last_time = spread([](const SeedFigures& s) { return s.harpe.last_time; }),
          .zeus_seeds = static_cast<int>(zeus.size())};
}

/// Of all jobs of some runs; of Zeus's those that at least one seed has a figure of.
struct Means {
  double zeus = 0, harpe = 0;
  std::size_t jobs = 0, zeus_jobs = 0;  ///< that each mean is of
};

Means means_of(std::span<const ZeusRun> runs) {
  std::vector<double> zeus, harpe;
  for (const ZeusRun& run : runs) {
    for (const ZeusJob& job : run.jobs) {
      const Summary summary = summary_of(job);
      if (summary.zeus_seeds > 0) zeus.push_back(summary.zeus.mean);
      harpe.push_back(summary.harpe.mean);
    }
  }
  return {.zeus = spread_of(zeus).mean,
          .harpe = spread_of(harpe).mean,
          .jobs = harpe.size(),
          .zeus_jobs = zeus.size()};
}
Means means_of(const ZeusRun& run) {
  return means_of(std::span(&run, 1));
}

/// What a cost over the oracle's is beyond it: "1.5 % more", "130 % more", "0.2 % less".
std::string beyond_text(double cost_over_oracle) {
  const double percent = 100 * (cost_over_oracle - 1);
  return grouped(std::abs(percent), std::abs(percent) < 100 ? 1 : 0) +
         (percent < 0 ? " % less" : " % more");
}

/// The result in one sentence.
std::string headline_of(const Means& means) {
  if (means.jobs == 0) return "No job was replayed.";
  std::string text = "Harpe pays " + beyond_text(means.harpe) +
                     " than an oracle that knows the best choice from "
                     "the start";
  if (means.zeus_jobs > 0) text += "; Zeus pays " + beyond_text(means.zeus);
  return text + " (mean of " + std::to_string(means.jobs) +
         (means.jobs == 1 ? " job)." : " jobs).");
}

/// Null in place of a figure that no seed has.
Json zeus_figure(const Summary& summary, double figure) {
  return summary.zeus_seeds > 0 ? Json(figure) : Json();
}

Json job_json(const ZeusJob& job, bool with_target) {
  const Summary summary = summary_of(job);
  const TracedSize& oracle = job.job.oracle();
  Json document{{"dataset", job.job.dataset}};
  if (with_target) document["target"] = job.job.job.target_metric;
  document.update(Json{
      {"gpu", job.job.job.gpu_model},
      {"default_batch_size", job.job.job.default_batch_size},
      {"recurrences", job.job.job.recurrences},
      {"oracle",
       {{"batch_size", oracle.batch_size}, {"power_limit_w", oracle.limits[oracle.best].watts}}},
      {"settles_on",
       {{"zeus", settles_json(job, zeus_of)}, {"harpe", settles_json(job, harpe_of)}}},
      {"cost_over_oracle",
       {{"default", summary.by_default.mean},
        {"grid", summary.grid.mean},
        {"zeus", zeus_figure(summary, summary.zeus.mean)},
        {"harpe", summary.harpe.mean}}},
      {"deviation",
       {{"zeus", zeus_figure(summary, summary.zeus.deviation)},
        {"harpe", summary.harpe.deviation}}},
      {"zeus_seeds", summary.zeus_seeds},
      {"last_five_over_default",
       {{"energy", summary.last_energy.mean}, {"time", summary.last_time.mean}}}});
  return document;
}

std::size_t seeds_of(const ZeusRun& run) {
  return run.jobs.empty() ? 0 : run.jobs.front().seeds.size();
}

Json run_json(const ZeusRun& run) {
  Json list = Json::array();
  for (const ZeusJob& job : run.jobs) list.push_back(job_json(job, run.has_targets));
  const Means means = means_of(run);
  return {{"gpu", run.gpu},
          {"eta", run.eta},
          {"seeds", seeds_of(run)},
          {"datasets", std::move(list)},
          {"mean_cost_over_oracle", {{"zeus", means.zeus}, {"harpe", means.harpe}}}};
}

/// The job's name, and of every target the target.
std::string name_of(const ZeusJob& job, bool with_target) {
  return with_target ? job.job.dataset + " " + shortest(job.job.job.target_metric)
                     : job.job.dataset;
}

std::string zeus_cell(const Summary& summary) {
  return summary.zeus_seeds > 0 ? shortest(summary.zeus.mean, 4) : "none";
}

std::string run_table(const ZeusRun& run) {
  Table table = Table::of(
      {"cost / oracle", "default", "grid", "Zeus", "Harpe", "deviation", "J last 5", "s last 5"});
  table.columns.push_back({.heading = "Harpe settles on", .align = Align::kLeft});
  for (const ZeusJob& job : run.jobs) {
    const Summary summary = summary_of(job);
    std::string settles;
    for (const auto& [setting, seeds] : settles_on(job, harpe_of)) {
      settles += (settles.empty() ? "" : ", ") + std::to_string(setting.first) + " at " +
                 std::to_string(setting.second) + " W (" + std::to_string(seeds) + ")";
    }
    table.add({name_of(job, run.has_targets), shortest(summary.by_default.mean, 4),
               shortest(summary.grid.mean, 4), zeus_cell(summary), shortest(summary.harpe.mean, 4),
               shortest(summary.harpe.deviation, 4), shortest(summary.last_energy.mean, 3),
               shortest(summary.last_time.mean, 3), settles});
  }
  const Means means = means_of(run);
  table.add({"mean", "", "", shortest(means.zeus, 4), shortest(means.harpe, 4)});
  return headline_of(means) + "\n\n" + table.text(false);
}

/// The mean over the seeds that have it (null: one has not), recurrence by recurrence.
template <class Regret>
std::vector<double> mean_regret(const ZeusJob& job, Regret regret_of_seed) {
  std::vector<double> mean;
  int seeds = 0;
  for (const SeedFigures& seed : job.seeds) {
    const std::vector<double>* regret = regret_of_seed(seed);
    if (regret == nullptr) continue;
    ++seeds;
    mean.resize(regret->size());
    for (std::size_t i = 0; i < regret->size(); ++i) mean[i] += (*regret)[i];
  }
  for (double& value : mean) value /= seeds;
  return mean;
}

RegretChart chart_of(const ZeusJob& job, const std::string& name) {
  const Summary summary = summary_of(job);
  const TracedSize& oracle = job.job.oracle();
  const std::string zeus_beyond =
      summary.zeus_seeds > 0 ? beyond_text(summary.zeus.mean) : "has no figure";
  return {.name = name,
          .caption = "in all, Harpe paid " + beyond_text(summary.harpe.mean) +
                     " than the oracle, Zeus " + zeus_beyond + ", the default " +
                     beyond_text(summary.by_default.mean) + ". The oracle trains with batch size " +
                     std::to_string(oracle.batch_size) + " at " +
                     std::to_string(oracle.limits[oracle.best].watts) + " W.",
          .by_default = mean_regret(job, [](const SeedFigures& s) { return &s.default_regret; }),
          .by_zeus = mean_regret(
              job, [](const SeedFigures& s) { return s.zeus ? &s.zeus->regret : nullptr; }),
          .by_harpe = mean_regret(job, [](const SeedFigures& s) { return &s.harpe.regret; })};
}

std::string title_of(const ZeusRun& run) {
  return run.gpu + ", eta " + shortest(run.eta);
}

}  // namespace

std::string zeus_table(std::span<const ZeusRun> runs) {
  if (runs.size() == 1) return run_table(runs.front());
  std::string text;
  Table means = Table::of({"means", "eta", "Zeus", "Harpe"});
  for (const ZeusRun& run : runs) {
    text += title_of(run) + "\n" + run_table(run) + "\n";
    const Means of_run = means_of(run);
    means.add({run.gpu, shortest(run.eta), shortest(of_run.zeus, 4), shortest(of_run.harpe, 4)});
  }
  return text + means.text(false);
}

std::string zeus_csv(std::span<const ZeusRun> runs) {
  const bool with_target = !runs.empty() && runs.front().has_targets;
  std::string csv = std::string("dataset,") + (with_target ? "target," : "") +
                    "gpu,eta,seed,default,grid,zeus,harpe,harpe_batch_size,harpe_power_limit\n";
  for (const ZeusRun& run : runs) {
    for (const ZeusJob& job : run.jobs) {
      const std::string target = with_target ? shortest(job.job.job.target_metric) + "," : "";
      for (std::size_t i = 0; i < job.seeds.size(); ++i) {
        const SeedFigures& seed = job.seeds[i];
        csv += job.job.dataset + "," + target + run.gpu + "," + shortest(run.eta) + "," +
               std::to_string(i + 1) + "," + shortest(seed.by_default) + "," +
               shortest(seed.by_grid) + "," +
               (seed.zeus ? shortest(seed.zeus->cost_over_oracle) : "") + "," +
               shortest(seed.harpe.cost_over_oracle) + "," + std::to_string(seed.harpe.batch_size) +
               "," + std::to_string(seed.harpe.power_limit) + "\n";
      }
    }
  }
  return csv;
}

std::string zeus_json(std::span<const ZeusRun> runs) {
  if (runs.size() == 1) return json_text(run_json(runs.front()));
  Json list = Json::array();
  for (const ZeusRun& run : runs) list.push_back(run_json(run));
  return json_text(Json{{"runs", std::move(list)}});
}

std::string zeus_page(std::span<const ZeusRun> runs, const ZeusArguments& arguments,
                      const PageSource& source) {
  std::vector<RegretChart> charts;
  for (const ZeusRun& run : runs) {
    for (const ZeusJob& job : run.jobs) {
      const std::string name = name_of(job, run.has_targets);
      charts.push_back(chart_of(job, runs.size() == 1 ? name : name + ", " + title_of(run)));
    }
  }
  std::vector<std::string> etas;
  for (const double eta : arguments.etas) etas.push_back(shortest(eta));
  std::string explanation =
      "Each job is trained again and again, and each time a batch size and a power limit are "
      "chosen "
      "for it. What is paid for a training is its energy and its time, weighed by eta (0: time "
      "alone, 1: energy alone). The oracle is not a way to choose: it knows beforehand which "
      "choice "
      "is the cheapest. A line shows how much more than the oracle a way has paid by then; where "
      "it "
      "rises, the way still tries what costs more, and where it is flat, it has found the best.";
  if (!arguments.from.empty()) {
    explanation += " Harpe knows what was learned on the " + arguments.from + ".";
  }
  return regret_page({.title = "Batch sizes of recurring jobs on the " + joined(arguments.gpus),
                      .subtitle = "A replay of Zeus's traces; mean of " +
                                  std::to_string(arguments.seeds) + " seeds, eta " + joined(etas),
                      .headline = headline_of(means_of(runs)),
                      .explanation = explanation,
                      .charts = std::move(charts),
                      .source = source});
}

}  // namespace harpe
