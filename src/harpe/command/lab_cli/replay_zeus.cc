#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/regret_page.h"
#include "harpe/command/lab_cli/zeus_runs.h"
#include "harpe/report/report.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::command {
namespace {

/// Returns the figures of one way for a seed; null if there are none.
using FiguresOf = const lab::WayFigures* (*)(const lab::SeedFigures&);
const lab::WayFigures* zeus_of(const lab::SeedFigures& seed) {
  return seed.zeus ? &*seed.zeus : nullptr;
}
const lab::WayFigures* harpe_of(const lab::SeedFigures& seed) {
  return &seed.harpe;
}

/// Returns the settled batch sizes and limits with their numbers of seeds, most frequent first.
std::vector<std::pair<std::pair<int, int>, int>> settles_on(const ZeusJob& job, FiguresOf way) {
  std::map<std::pair<int, int>, int> counts;
  for (const lab::SeedFigures& seed : job.seeds) {
    if (const lab::WayFigures* figures = way(seed)) {
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
  lab::Spread by_default, grid, zeus, harpe;
  lab::Spread last_energy, last_time;
  int zeus_seeds = 0;  ///< number of seeds in `zeus`
};

Summary summary_of(const ZeusJob& job) {
  const auto spread = [&job](auto value) {
    std::vector<double> values;
    for (const lab::SeedFigures& seed : job.seeds) values.push_back(value(seed));
    return lab::spread_of(values);
  };
  std::vector<double> zeus;
  for (const lab::SeedFigures& seed : job.seeds) {
    if (seed.zeus) zeus.push_back(seed.zeus->cost_over_oracle);
  }
  return {.by_default = spread([](const lab::SeedFigures& s) { return s.by_default; }),
          .grid = spread([](const lab::SeedFigures& s) { return s.by_grid; }),
          .zeus = lab::spread_of(zeus),
          .harpe = spread([](const lab::SeedFigures& s) { return s.harpe.cost_over_oracle; }),
          .last_energy = spread([](const lab::SeedFigures& s) { return s.harpe.last_energy; }),
          .last_time = spread([](const lab::SeedFigures& s) { return s.harpe.last_time; }),
          .zeus_seeds = static_cast<int>(zeus.size())};
}

/// Means over all jobs of some runs; Zeus's over the jobs with a figure of at least one seed.
struct Means {
  double zeus = 0, harpe = 0;
  std::size_t jobs = 0, zeus_jobs = 0;  ///< number of jobs in each mean
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
  return {.zeus = lab::spread_of(zeus).mean,
          .harpe = lab::spread_of(harpe).mean,
          .jobs = harpe.size(),
          .zeus_jobs = zeus.size()};
}
Means means_of(const ZeusRun& run) {
  return means_of(std::span(&run, 1));
}

/// Returns the part of a cost beyond the oracle's: "1.5 % more", "130 % more", "0.2 % less".
std::string beyond_text(double cost_over_oracle) {
  const double percent = 100 * (cost_over_oracle - 1);
  return grouped(std::abs(percent), std::abs(percent) < 100 ? 1 : 0) +
         (percent < 0 ? " % less" : " % more");
}

/// Returns the result in one sentence.
std::string headline_of(const Means& means) {
  if (means.jobs == 0) return "No job was replayed.";
  std::string text = "Harpe pays " + beyond_text(means.harpe) +
                     " than an oracle that knows the best choice from "
                     "the start";
  if (means.zeus_jobs > 0) text += "; Zeus pays " + beyond_text(means.zeus);
  return text + " (mean of " + std::to_string(means.jobs) +
         (means.jobs == 1 ? " job)." : " jobs).");
}

/// Returns the figure; null if no seed has one.
Json zeus_figure(const Summary& summary, double figure) {
  return summary.zeus_seeds > 0 ? Json(figure) : Json();
}

Json job_json(const ZeusJob& job, bool with_target) {
  const Summary summary = summary_of(job);
  const lab::TracedSize& oracle = job.job.oracle();
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
  Json document = {{"gpu", run.gpu},
                   {"eta", run.eta},
                   {"seeds", seeds_of(run)},
                   {"datasets", std::move(list)},
                   {"mean_cost_over_oracle", {{"zeus", means.zeus}, {"harpe", means.harpe}}}};
  if (run.has_targets) document["targets_left_out"] = run.left_out;
  return document;
}

/// Returns the job's name, with its target if runs have several targets.
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
  std::string text = headline_of(means) + "\n\n" + table.text(false);
  if (!run.left_out.empty()) {
    text += "\nLeft out, because the default batch size does not always reach it: ";
    for (const std::string& target : run.left_out)
      text += (&target == &run.left_out.front() ? "" : ", ") + target;
    text += ".\n";
  }
  return text;
}

/// Returns the mean over the seeds with a regret (null if there is none), recurrence by recurrence.
template <class Regret>
std::vector<double> mean_regret(const ZeusJob& job, Regret regret_of_seed) {
  std::vector<double> mean;
  int seeds = 0;
  for (const lab::SeedFigures& seed : job.seeds) {
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
  const lab::TracedSize& oracle = job.job.oracle();
  const std::string zeus_beyond =
      summary.zeus_seeds > 0 ? beyond_text(summary.zeus.mean) : "has no figure";
  return {
      .name = name,
      .caption = "in all, Harpe paid " + beyond_text(summary.harpe.mean) +
                 " than the oracle, Zeus " + zeus_beyond + ", the default " +
                 beyond_text(summary.by_default.mean) + ". The oracle trains with batch size " +
                 std::to_string(oracle.batch_size) + " at " +
                 std::to_string(oracle.limits[oracle.best].watts) + " W.",
      .by_default = mean_regret(job, [](const lab::SeedFigures& s) { return &s.default_regret; }),
      .by_zeus = mean_regret(
          job, [](const lab::SeedFigures& s) { return s.zeus ? &s.zeus->regret : nullptr; }),
      .by_harpe = mean_regret(job, [](const lab::SeedFigures& s) { return &s.harpe.regret; })};
}

std::string title_of(const ZeusRun& run) {
  return run.gpu + ", eta " + shortest(run.eta);
}

/// Returns a table for each run, with a table of their means if there are several.
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

/// Returns one line for each job and seed.
std::string zeus_csv(std::span<const ZeusRun> runs) {
  const bool with_target = !runs.empty() && runs.front().has_targets;
  std::string csv = std::string("dataset,") + (with_target ? "target," : "") +
                    "gpu,eta,seed,default,grid,zeus,harpe,harpe_batch_size,harpe_power_limit\n";
  for (const ZeusRun& run : runs) {
    for (const ZeusJob& job : run.jobs) {
      const std::string target = with_target ? shortest(job.job.job.target_metric) + "," : "";
      for (std::size_t i = 0; i < job.seeds.size(); ++i) {
        const lab::SeedFigures& seed = job.seeds[i];
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

/// Returns a document with `gpu`, `eta`, `seeds`, `datasets` and `mean_cost_over_oracle` if there
/// is one run, otherwise a document whose `runs` are such documents.
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
      "Each job is trained many times, and each time a batch size and a power limit are chosen for "
      "it. The cost of a training is its energy and its time, weighted by eta (0: only time, 1: "
      "only energy). The oracle is not a real method: it knows the cheapest choice in advance. A "
      "line shows how much more than the oracle a method has paid so far. Where the line rises, "
      "the method still tries more expensive choices; where it is flat, it has found the best.";
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

constexpr int kMostSeeds = 10'000;
constexpr int kMostRecurrences = 1'000'000;
constexpr double kMostOfConstant = 10;

Result<Outcome> run_groups(const ZeusArguments& arguments, Console& console) {
  if (!arguments.from.empty() || !arguments.out.empty() || arguments.targets) {
    return Error::invalid("--groups cannot be combined with --from, --out or --targets");
  }
  if (arguments.gpus.size() > 1 || arguments.etas.size() > 1) {
    return Error::invalid("--groups needs exactly one GPU and one eta");
  }
  return replay_groups(arguments, console);
}

/// Returns the sources of the page: the traces, with their digests.
PageSource page_source(const Commands& commands, const ZeusArguments& arguments) {
  constexpr std::array<std::string_view, 2> kOutputs = {"--csv", "--out"};
  PageSource source{.program = program_version(commands),
                    .command = commands.command_line(kOutputs),
                    .documentation = "man harpe-replay-zeus, or harpe replay zeus --help."};
  const auto add = [&](const std::filesystem::path& file) {
    source.inputs.emplace_back(file.filename().string(), file_digest(file));
  };
  add(train_file(arguments.directory));
  for (const std::string& gpu : arguments.gpus) add(power_file(arguments.directory, gpu));
  return source;
}

Result<Outcome> run_zeus(const ZeusArguments& arguments, const Commands& commands,
                         Console& console) {
  for (const std::string& file : {arguments.csv, arguments.out}) {
    if (!file.empty()) HARPE_TRY(check_writable(file));
  }
  if (!arguments.groups.empty()) return run_groups(arguments, console);
  const std::vector<ZeusRun> runs = HARPE_TRY(replay_zeus_jobs(arguments, console));
  Outcome outcome{.text = zeus_table(runs), .json = zeus_json(runs)};
  if (!arguments.csv.empty()) {
    keep_result(arguments.csv, zeus_csv(runs), console, outcome);
  }
  if (!arguments.out.empty()) {
    keep_result(arguments.out, zeus_page(runs, arguments, page_source(commands, arguments)),
                console, outcome);
  }
  return outcome;
}

Result<std::string> parse_gpu(std::string_view text) {
  for (const char* gpu : lab::traced_gpus()) {
    if (text == gpu) return std::string(text);
  }
  return Error::invalid("expected v100, a40, p100 or rtx6000");
}

Result<lab::Horizon> parse_horizon(std::string_view text) {
  if (text == "unknown") return lab::Horizon{};
  if (text == "known") return lab::Horizon{.is_known = true};
  const Result<int> count = parse_count(text, 1, kMostRecurrences);
  if (!count.ok()) return Error::invalid("expected unknown, known or a number of recurrences");
  return lab::Horizon{.recurrences = *count};
}

/// The constants that --prior sets, by the names of their members.
constexpr std::array kPriorConstants = {
    std::pair{"epochs_slope", &zeus::PayBackPrior::epochs_slope},
    std::pair{"epochs_slope_deviation", &zeus::PayBackPrior::epochs_slope_deviation},
    std::pair{"epochs_bend", &zeus::PayBackPrior::epochs_bend},
    std::pair{"epochs_bend_deviation", &zeus::PayBackPrior::epochs_bend_deviation},
    std::pair{"epochs_waviness", &zeus::PayBackPrior::epochs_waviness},
    std::pair{"epochs_scatter", &zeus::PayBackPrior::epochs_scatter},
    std::pair{"run_deviation", &zeus::PayBackPrior::run_deviation},
    std::pair{"doubt", &zeus::PayBackPrior::doubt},
    std::pair{"cost_slope_deviation", &zeus::PayBackPrior::cost_slope_deviation},
    std::pair{"cost_bend", &zeus::PayBackPrior::cost_bend},
    std::pair{"cost_bend_deviation", &zeus::PayBackPrior::cost_bend_deviation},
    std::pair{"cost_waviness", &zeus::PayBackPrior::cost_waviness},
    std::pair{"cost_scatter", &zeus::PayBackPrior::cost_scatter},
    std::pair{"failure", &zeus::PayBackPrior::failure},
    std::pair{"knowledge", &zeus::PayBackPrior::knowledge},
};

Result<zeus::PayBackPrior> parse_prior(std::string_view text) {
  const auto name_of = [](const auto& constant) { return std::string_view(constant.first); };
  zeus::PayBackPrior prior;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = std::min(one.find('='), one.size());
    const auto found = std::ranges::find(kPriorConstants, one.substr(0, equals), name_of);
    const auto value = parse_number(one.substr(std::min(equals + 1, one.size())));
    if (found == kPriorConstants.end() || !value || !(*value > 0 && *value <= kMostOfConstant)) {
      return Error::invalid(
          in_quotes(one) +
          " is not NAME=NUMBER with a constant of PayBackPrior and a number above 0 up to 10");
    }
    prior.*found->second = *value;
    if (comma == std::string_view::npos) return prior;
    text.remove_prefix(comma + 1);
  }
}

/// Parses values between commas. Fails if a value occurs twice.
template <class Parse>
auto parse_each(std::string_view text, Parse parse)
    -> Result<std::vector<std::decay_t<decltype(*parse(text))>>> {
  std::vector<std::decay_t<decltype(*parse(text))>> values;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    values.push_back(HARPE_TRY(parse(one)));
    if (std::ranges::count(values, values.back()) > 1) {
      return Error::invalid(in_quotes(one) + " is given twice");
    }
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> parse_gpus(std::string_view text) {
  if (text == "all")
    return std::vector<std::string>(lab::traced_gpus().begin(), lab::traced_gpus().end());
  return parse_each(text, parse_gpu);
}

}  // namespace

void add_replay_zeus_command(Commands& commands, CLI::App& replay) {
  const auto arguments = std::make_shared<ZeusArguments>();
  CLI::App& app = commands.add(
      replay, "zeus",
      "choose batch sizes of recurring jobs, over Zeus's traces\n"
      "Runs the six jobs of Zeus's evaluation again and again, with the default, a grid search, "
      "Zeus's choice and Harpe's, and prints the cost of each divided by the cost of an oracle "
      "that knows the best batch size and power limit. Harpe starts with the prior of a server, "
      "which was chosen on these jobs. With several GPUs or weights, --json has a list \"runs\"; "
      "each entry has the form of a single run.",
      "harpe replay zeus traces --gpu v100 --seeds 20\n"
      "harpe replay zeus traces --gpu all --eta 0,0.5,1 --csv seeds.csv\n"
      "harpe replay zeus traces --gpu all --targets --seeds 100\n"
      "harpe replay zeus traces --gpu a40 --from v100 --out regret.html",
      [arguments, &commands](Console& console) { return run_zeus(*arguments, commands, console); });
  app.add_option("DIR", arguments->directory,
                 "Folder of summary_train.csv and summary_power_<gpu>.csv")
      ->type_name("DIR")
      ->required()
      ->group("Arguments");
  add_parsed(app, "--gpu", "GPU,...",
             "One or more of v100 (default), a40, p100 and rtx6000; or all for these four",
             arguments->gpus, parse_gpus);
  add_parsed(app, "--from", "GPU",
             "GPU on which the same jobs ran before: Harpe knows their epochs to target",
             arguments->from, parse_gpu);
  add_text(app, "--groups", "FILE",
           "Table of jobs that overlap, in place of one job after the other, with the columns "
           "group, start_time, end_time, dataset and runtime_ratio; for one GPU and eta",
           arguments->groups);
  add_parsed(app, "--seeds", "COUNT", "Seeds 1 to COUNT (default 20)", arguments->seeds,
             count_within(1, kMostSeeds));
  add_parsed(app, "--eta", "SHARE,...", "Weights of energy, 0 to 1 (default 0.5)", arguments->etas,
             [](std::string_view text) { return parse_each(text, parse_share); });
  app.add_flag("--targets", arguments->targets,
               "Replay each job with every target in summary_train.csv that its default batch size "
               "always reaches (default: the target of Zeus's evaluation)");
  add_parsed(app, "--horizon", "unknown|known|COUNT",
             "Number of recurrences that Harpe knows in advance: none (unknown, default), each "
             "job's own (known), or COUNT for all",
             arguments->horizon, parse_horizon);
  add_parsed(app, "--prior", "NAME=VALUE,...",
             "Constants of Harpe's prior in place of a server's (members of PayBackPrior in "
             "pay_back.h), to judge them",
             arguments->prior, parse_prior);
  add_text(app, "--csv", "FILE", "CSV file with a row for each job and seed", arguments->csv);
  add_text(app, "--out", "FILE",
           "HTML page of the regret of each method, with a chart for each job", arguments->out);
}

}  // namespace harpe::command
