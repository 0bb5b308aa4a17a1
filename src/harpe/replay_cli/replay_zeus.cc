#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/command/json_output.h"
#include "harpe/command/options.h"
#include "harpe/command/quantity_text.h"
#include "harpe/replay/comparison.h"
#include "harpe/replay_cli/regret_page.h"
#include "harpe/replay_cli/replay_cli.h"
#include "harpe/replay_cli/replay_groups.h"

namespace harpe {
namespace {

constexpr int kMostSeeds = 10'000;

struct ZeusArguments {
  std::string directory, gpu = "v100", from, csv, out, groups;
  int seeds = 20;
  double eta = 0.5;
  bool shipped = false;  ///< the prior that was chosen on all datasets
};

/// One dataset: its job, that of the GPU that was there before, and what each seed gave.
struct Dataset {
  TracedJob job;
  std::optional<TracedJob> before;
  PayBackPrior prior;
  std::vector<SeedFigures> seeds;
};

Result<std::vector<Dataset>> read_datasets(const ZeusArguments& arguments) {
  const Traces traces = HARPE_TRY(read_traces(arguments.directory, arguments.gpu));
  std::optional<Traces> before;
  if (!arguments.from.empty()) {
    before = HARPE_TRY(read_traces(arguments.directory, arguments.from));
  }
  std::vector<Dataset> datasets;
  for (const TracedDataset& dataset : traced_datasets()) {
    Dataset& one = datasets.emplace_back();
    one.job = HARPE_TRY(traced_job(traces, dataset, arguments.gpu, arguments.eta));
    if (before) {
      one.before = HARPE_TRY(traced_job(*before, dataset, arguments.from, arguments.eta));
    }
    if (!arguments.shipped) one.prior = held_out_prior(dataset.name);
    one.seeds.resize(static_cast<std::size_t>(arguments.seeds));
  }
  return datasets;
}

Status run_seed(Dataset& dataset, std::size_t index) {
  const std::uint64_t seed = index + 1;
  std::vector<KnownEpochs> known;
  if (dataset.before) {
    // Another seed: the runs of the other GPU were not these.
    const Recurrences recurrences =
        HARPE_TRY(recur_by_harpe(*dataset.before, ~seed, dataset.prior));
    known = known_epochs(recurrences);
  }
  dataset.seeds[index] = HARPE_TRY(compare_seed(dataset.job, seed, dataset.prior, known));
  return ok_status();
}

/// All seeds of all datasets, by as many threads as there are processors.
Status run_all(std::vector<Dataset>& datasets, std::size_t seeds, Console& console) {
  std::atomic<std::size_t> next{0}, ended{0};
  const std::size_t count = datasets.size() * seeds;
  std::vector<Status> statuses(count, ok_status());  // each its own: no lock
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      statuses[i] = run_seed(datasets[i % datasets.size()], i / datasets.size());
      ++ended;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  ProgressBar progress(console, "replaying");
  while (ended < count) {
    progress.update(static_cast<double>(ended) / static_cast<double>(count));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  threads.clear();
  for (Status& status : statuses) HARPE_TRY(std::move(status));
  return ok_status();
}

template <class Value>
std::vector<double> column(const Dataset& dataset, Value value) {
  std::vector<double> values;
  for (const SeedFigures& seed : dataset.seeds) values.push_back(value(seed));
  return values;
}

/// The settings of all seeds, most frequent first.
std::vector<std::pair<std::pair<int, int>, int>> settles_on(const Dataset& dataset,
                                                            WayFigures SeedFigures::* way) {
  std::map<std::pair<int, int>, int> counts;
  for (const SeedFigures& seed : dataset.seeds) {
    ++counts[{(seed.*way).batch_size, (seed.*way).power_limit}];
  }
  std::vector<std::pair<std::pair<int, int>, int>> list(counts.begin(), counts.end());
  std::ranges::sort(list, {}, [](const auto& one) { return std::pair(-one.second, one.first); });
  return list;
}

Json settles_json(const Dataset& dataset, WayFigures SeedFigures::* way) {
  Json list = Json::array();
  for (const auto& [setting, seeds] : settles_on(dataset, way)) {
    list.push_back(
        {{"batch_size", setting.first}, {"power_limit_w", setting.second}, {"seeds", seeds}});
  }
  return list;
}

struct Summary {
  Spread by_default, grid, zeus, harpe;
  Spread last_energy, last_time;
};

Summary summary_of(const Dataset& dataset) {
  const auto spread = [&dataset](auto value) { return spread_of(column(dataset, value)); };
  return {.by_default = spread([](const SeedFigures& s) { return s.by_default; }),
          .grid = spread([](const SeedFigures& s) { return s.by_grid; }),
          .zeus = spread([](const SeedFigures& s) { return s.zeus.cost_over_oracle; }),
          .harpe = spread([](const SeedFigures& s) { return s.harpe.cost_over_oracle; }),
          .last_energy = spread([](const SeedFigures& s) { return s.harpe.last_energy; }),
          .last_time = spread([](const SeedFigures& s) { return s.harpe.last_time; })};
}

Json dataset_json(const Dataset& dataset, const Summary& summary) {
  const TracedSize& oracle = dataset.job.oracle();
  return {
      {"dataset", dataset.job.dataset},
      {"gpu", dataset.job.job.gpu_model},
      {"default_batch_size", dataset.job.job.default_batch_size},
      {"recurrences", dataset.job.job.recurrences},
      {"oracle",
       {{"batch_size", oracle.batch_size}, {"power_limit_w", oracle.limits[oracle.best].watts}}},
      {"settles_on",
       {{"zeus", settles_json(dataset, &SeedFigures::zeus)},
        {"harpe", settles_json(dataset, &SeedFigures::harpe)}}},
      {"cost_over_oracle",
       {{"default", summary.by_default.mean},
        {"grid", summary.grid.mean},
        {"zeus", summary.zeus.mean},
        {"harpe", summary.harpe.mean}}},
      {"deviation", {{"zeus", summary.zeus.deviation}, {"harpe", summary.harpe.deviation}}},
      {"last_five_over_default",
       {{"energy", summary.last_energy.mean}, {"time", summary.last_time.mean}}}};
}

std::string row_text(const std::vector<std::string>& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t width = i == 0 ? 13 : i + 1 == cells.size() ? 0 : 9;
    const std::string pad(width > cells[i].size() ? width - cells[i].size() : 0, ' ');
    text += i == 0 ? cells[i] + pad : "  " + pad + cells[i];
  }
  return text + "\n";
}

/// The mean over seeds, recurrence by recurrence.
template <class Regret>
std::vector<double> mean_regret(const Dataset& dataset, Regret regret_of_seed) {
  std::vector<double> mean;
  for (const SeedFigures& seed : dataset.seeds) {
    const std::vector<double>& regret = regret_of_seed(seed);
    mean.resize(regret.size());
    for (std::size_t i = 0; i < regret.size(); ++i) {
      mean[i] += regret[i] / static_cast<double>(dataset.seeds.size());
    }
  }
  return mean;
}

std::string page_of(const ZeusArguments& arguments, const std::vector<Dataset>& datasets) {
  std::vector<RegretChart> charts;
  for (const Dataset& dataset : datasets) {
    const Summary summary = summary_of(dataset);
    const TracedSize& oracle = dataset.job.oracle();
    charts.push_back(
        {.name = dataset.job.dataset,
         .caption = "cost over the oracle's (" + std::to_string(oracle.batch_size) + " at " +
                    std::to_string(oracle.limits[oracle.best].watts) + " W): default " +
                    shortest(summary.by_default.mean, 4) + ", Zeus " +
                    shortest(summary.zeus.mean, 4) + ", Harpe " + shortest(summary.harpe.mean, 4),
         .by_default = mean_regret(
             dataset, [](const SeedFigures& s) -> const auto& { return s.default_regret; }),
         .by_zeus = mean_regret(dataset,
                                [](const SeedFigures& s) -> const auto& { return s.zeus.regret; }),
         .by_harpe = mean_regret(
             dataset, [](const SeedFigures& s) -> const auto& { return s.harpe.regret; })});
  }
  std::string subtitle =
      "What was paid beyond an oracle that knows the best batch size and power "
      "limit, in trainings of the oracle, up to each recurrence. Mean of " +
      std::to_string(arguments.seeds) + " seeds, eta " + shortest(arguments.eta) +
      "; a replay of Zeus's traces.";
  if (!arguments.from.empty()) {
    subtitle += " Harpe knows what was learned on the " + arguments.from + ".";
  }
  return regret_page("Batch sizes of recurring jobs on the " + arguments.gpu, subtitle, charts);
}

Result<Outcome> run_groups(const ZeusArguments& arguments, Console& console) {
  if (!arguments.from.empty() || !arguments.out.empty()) {
    return Error::invalid("--groups goes with neither --from nor --out");
  }
  return replay_groups({.groups = arguments.groups,
                        .directory = arguments.directory,
                        .gpu = arguments.gpu,
                        .csv = arguments.csv,
                        .seeds = arguments.seeds,
                        .eta = arguments.eta,
                        .shipped = arguments.shipped},
                       console);
}

Result<Outcome> run_zeus(const ZeusArguments& arguments, Console& console) {
  if (!arguments.groups.empty()) return run_groups(arguments, console);
  std::vector<Dataset> datasets = HARPE_TRY(read_datasets(arguments));
  HARPE_TRY(run_all(datasets, static_cast<std::size_t>(arguments.seeds), console));
  Json list = Json::array();
  std::string text = row_text({"cost / oracle", "default", "grid", "Zeus", "Harpe", "deviation",
                               "J last 5", "s last 5", "Harpe settles on"});
  std::string csv = "dataset,gpu,seed,default,grid,zeus,harpe,harpe_batch_size,harpe_power_limit\n";
  double zeus = 0, harpe = 0;
  for (const Dataset& dataset : datasets) {
    const Summary summary = summary_of(dataset);
    list.push_back(dataset_json(dataset, summary));
    zeus += summary.zeus.mean / static_cast<double>(datasets.size());
    harpe += summary.harpe.mean / static_cast<double>(datasets.size());
    std::string settles;
    for (const auto& [setting, seeds] : settles_on(dataset, &SeedFigures::harpe)) {
      settles += (settles.empty() ? "" : ", ") + std::to_string(setting.first) + " at " +
                 std::to_string(setting.second) + " W (" + std::to_string(seeds) + ")";
    }
    text += row_text({dataset.job.dataset, shortest(summary.by_default.mean, 4),
                      shortest(summary.grid.mean, 4), shortest(summary.zeus.mean, 4),
                      shortest(summary.harpe.mean, 4), shortest(summary.harpe.deviation, 4),
                      shortest(summary.last_energy.mean, 3), shortest(summary.last_time.mean, 3),
                      settles});
    for (std::size_t i = 0; i < dataset.seeds.size(); ++i) {
      const SeedFigures& seed = dataset.seeds[i];
      csv += dataset.job.dataset + "," + arguments.gpu + "," + std::to_string(i + 1) + "," +
             shortest(seed.by_default) + "," + shortest(seed.by_grid) + "," +
             shortest(seed.zeus.cost_over_oracle) + "," + shortest(seed.harpe.cost_over_oracle) +
             "," + std::to_string(seed.harpe.batch_size) + "," +
             std::to_string(seed.harpe.power_limit) + "\n";
    }
  }
  text += row_text({"mean", "", "", shortest(zeus, 4), shortest(harpe, 4), "", "", "", ""});
  if (!arguments.csv.empty()) HARPE_TRY(write_file(arguments.csv, csv));
  if (!arguments.out.empty()) HARPE_TRY(write_file(arguments.out, page_of(arguments, datasets)));
  const Json document = {{"gpu", arguments.gpu},
                         {"eta", arguments.eta},
                         {"seeds", arguments.seeds},
                         {"datasets", std::move(list)},
                         {"mean_cost_over_oracle", {{"zeus", zeus}, {"harpe", harpe}}}};
  return Outcome{.text = text, .json = json_text(document)};
}

Result<std::string> parse_gpu(std::string_view text) {
  for (const char* gpu : traced_gpus()) {
    if (text == gpu) return std::string(text);
  }
  return Error::invalid("expected v100, a40, p100 or rtx6000");
}

}  // namespace

void add_replay_zeus_command(Commands& commands, CLI::App& replay) {
  const auto arguments = std::make_shared<ZeusArguments>();
  CLI::App& app = commands.add(
      replay, "zeus",
      "choose batch sizes of recurring jobs, over Zeus's traces\n"
      "Runs the six jobs of Zeus's evaluation again and again, with the default, a grid, Zeus's "
      "choice and Harpe's, and says what each costs over an oracle that knows the best batch size "
      "and limit. What Harpe believes beforehand of a job was chosen on the other five.",
      "harpe replay zeus traces --gpu v100 --seeds 20\n"
      "harpe replay zeus traces --gpu a40 --from v100 --out regret.html",
      [arguments](Console& console) { return run_zeus(*arguments, console); });
  app.add_option("DIR", arguments->directory,
                 "Where summary_train.csv and summary_power_<gpu>.csv are")
      ->type_name("DIR")
      ->required()
      ->group("Arguments");
  add_parsed(app, "--gpu", "GPU", "v100 (default), a40, p100 or rtx6000", arguments->gpu,
             parse_gpu);
  add_parsed(app, "--from", "GPU",
             "GPU on which the same jobs have recurred before: Harpe knows their epochs to target",
             arguments->from, parse_gpu);
  add_text(app, "--groups", "FILE",
           "Jobs that overlap, in place of one after the other: a table with the columns group, "
           "start_time, end_time, dataset and runtime_ratio",
           arguments->groups);
  add_parsed(app, "--seeds", "COUNT", "Seeds 1 to COUNT (default 20)", arguments->seeds,
             [](std::string_view text) { return parse_count(text, 1, kMostSeeds); });
  add_parsed(app, "--eta", "SHARE", "Weight of energy, 0 to 1 (default 0.5)", arguments->eta,
             parse_share);
  app.add_flag("--shipped", arguments->shipped,
               "Believe beforehand what was chosen on all six jobs, as a server does");
  add_text(app, "--csv", "FILE", "Every seed of every job, as a table", arguments->csv);
  add_text(app, "--out", "FILE", "The regret of each way, as a page with a picture for each job",
           arguments->out);
}

}  // namespace harpe
