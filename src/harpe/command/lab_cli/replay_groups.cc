
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/zeus_runs.h"
#include "harpe/lab/replay/comparison.h"
#include "harpe/lab/replay/concurrent_recurrences.h"

namespace harpe::command {
namespace {

/// Costs relative to the oracle's.
struct Costs {
  double by_default = 0, zeus = 0, harpe = 0;
};

/// Figures of one group, as means over seeds.
struct GroupFigures {
  std::string name, dataset;
  std::size_t jobs = 0;
  double overlapping = 0;  ///< share of the jobs that began while others were in flight
  Costs costs = {};
};

/// By dataset. An error names a dataset that the traces do not have.
using TracedJobs = std::map<std::string, lab::TracedJob>;

Result<TracedJobs> traced_jobs(const std::vector<lab::JobGroup>& groups,
                               const ZeusArguments& arguments) {
  const lab::Traces traces = HARPE_TRY(read_traces(arguments.directory, arguments.gpus.front()));
  TracedJobs jobs;
  for (const lab::JobGroup& group : groups) {
    if (jobs.contains(group.dataset)) continue;
    const auto known = lab::traced_datasets();
    const auto dataset = std::ranges::find(known, group.dataset, &lab::TracedDataset::name);
    if (dataset == known.end()) {
      return Error::invalid(arguments.groups + ": group " + in_quotes(group.name) +
                            " has the dataset " + in_quotes(group.dataset) +
                            ", which is not in the traces");
    }
    lab::TracedJob job = HARPE_TRY(
        lab::traced_job(traces, *dataset, arguments.gpus.front(), arguments.etas.front()));
    job.horizon = arguments.horizon;
    jobs.emplace(group.dataset, std::move(job));
  }
  return jobs;
}

Result<double> cost_over_oracle(const lab::TracedJob& job, const lab::JobGroup& group,
                                lab::BatchSizeWay way, std::uint64_t seed,
                                const zeus::PayBackPrior& prior) {
  const lab::ConcurrentRecurrences all =
      HARPE_TRY(lab::recur_concurrently(job, group, way, seed, prior));
  return all.cost / lab::oracle_cost(job, group);
}

Result<Costs> costs_of(const lab::TracedJob& job, const lab::JobGroup& group, std::uint64_t seed,
                       const zeus::PayBackPrior& prior) {
  const auto by = [&](lab::BatchSizeWay way) {
    return cost_over_oracle(job, group, way, seed, prior);
  };
  return Costs{.by_default = HARPE_TRY(by(lab::BatchSizeWay::kDefault)),
               .zeus = HARPE_TRY(by(lab::BatchSizeWay::kZeus)),
               .harpe = HARPE_TRY(by(lab::BatchSizeWay::kHarpe))};
}

/// Returns the share of jobs that overlapped with earlier ones in the cluster.
double overlapping_share(const lab::JobGroup& group) {
  double count = 0;
  Seconds latest{-1};
  for (const lab::GroupedJob& job : group.jobs) {
    count += latest > job.start ? 1 : 0;
    latest = std::max(latest, job.end);
  }
  return count / static_cast<double>(group.jobs.size());
}

Json costs_json(const Costs& costs) {
  return {{"default", costs.by_default}, {"zeus", costs.zeus}, {"harpe", costs.harpe}};
}

/// Returns a table of means over the groups of each dataset, then over the datasets.
std::string table_of(const std::vector<GroupFigures>& groups, Costs& mean) {
  std::map<std::string, std::vector<const GroupFigures*>> by_dataset;
  for (const GroupFigures& group : groups) by_dataset[group.dataset].push_back(&group);
  Table table =
      Table::of({"cost / oracle", "groups", "jobs", "overlap", "default", "Zeus", "Harpe"});
  for (const auto& [dataset, members] : by_dataset) {
    GroupFigures sum;
    for (const GroupFigures* one : members) {
      const double share = 1.0 / static_cast<double>(members.size());
      sum.jobs += one->jobs;
      sum.overlapping += share * one->overlapping;
      sum.costs.by_default += share * one->costs.by_default;
      sum.costs.zeus += share * one->costs.zeus;
      sum.costs.harpe += share * one->costs.harpe;
    }
    table.add({dataset, std::to_string(members.size()), std::to_string(sum.jobs),
               shortest(100 * sum.overlapping, 0) + " %", shortest(sum.costs.by_default, 4),
               shortest(sum.costs.zeus, 4), shortest(sum.costs.harpe, 4)});
    const double share = 1.0 / static_cast<double>(by_dataset.size());
    mean.by_default += share * sum.costs.by_default;
    mean.zeus += share * sum.costs.zeus;
    mean.harpe += share * sum.costs.harpe;
  }
  table.add({"mean", "", "", "", shortest(mean.by_default, 4), shortest(mean.zeus, 4),
             shortest(mean.harpe, 4)});
  return table.text(false);
}

struct SyntheticArguments {
  std::string out;
  lab::SyntheticGroups shape;
  int seed = 1;
};

Result<Outcome> write_synthetic(const SyntheticArguments& arguments) {
  const std::vector<lab::JobGroup> groups =
      lab::synthetic_groups(static_cast<std::uint64_t>(arguments.seed), arguments.shape);
  const std::string origin = "Synthetic groups of recurring jobs, seed " +
                             std::to_string(arguments.seed) + ": invented, not from a real cluster";
  HARPE_TRY(write_file(arguments.out, lab::job_groups_csv(groups, origin)));
  return Outcome{
      .text = "wrote " + std::to_string(groups.size()) + " synthetic groups of " +
              std::to_string(arguments.shape.jobs) + " jobs to " + arguments.out + "\n",
      .json = json_text({{"groups", groups.size()},
                         {"jobs", groups.size() * static_cast<std::size_t>(arguments.shape.jobs)},
                         {"synthetic", true},
                         {"seed", arguments.seed}})};
}

}  // namespace

Result<Outcome> replay_groups(const ZeusArguments& arguments, Console& console) {
  const std::string text = HARPE_TRY(read_input_file(arguments.groups));
  const std::vector<lab::JobGroup> groups =
      HARPE_TRY(lab::parse_job_groups(text, arguments.groups));
  if (groups.empty()) return Error::invalid(arguments.groups + " has no jobs");
  const TracedJobs jobs = HARPE_TRY(traced_jobs(groups, arguments));
  std::vector<GroupFigures> figures;
  std::string csv = "group,dataset,gpu,seed,jobs,default,zeus,harpe\n";
  Json list = Json::array();
  ProgressBar progress(console, "replaying");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const lab::JobGroup& group = groups[i];
    const lab::TracedJob& job = jobs.at(group.dataset);
    GroupFigures& one = figures.emplace_back();
    one = {.name = group.name, .dataset = group.dataset, .jobs = group.jobs.size()};
    one.overlapping = overlapping_share(group);
    for (int seed = 1; seed <= arguments.seeds; ++seed) {
      // Groups of the same dataset have different runs.
      const Costs costs = HARPE_TRY(
          costs_of(job, group, mixed(static_cast<std::uint64_t>(seed), 0, i), arguments.prior));
      one.costs.by_default += costs.by_default / arguments.seeds;
      one.costs.zeus += costs.zeus / arguments.seeds;
      one.costs.harpe += costs.harpe / arguments.seeds;
      csv += csv_cell(group.name) + "," + group.dataset + "," + arguments.gpus.front() + "," +
             std::to_string(seed) + "," + std::to_string(one.jobs) + "," +
             shortest(costs.by_default) + "," + shortest(costs.zeus) + "," + shortest(costs.harpe) +
             "\n";
    }
    list.push_back({{"group", group.name},
                    {"dataset", group.dataset},
                    {"jobs", one.jobs},
                    {"overlapping", one.overlapping},
                    {"cost_over_oracle", costs_json(one.costs)}});
    progress.update(static_cast<double>(i + 1) / static_cast<double>(groups.size()));
  }
  Costs mean;
  const std::string table = table_of(figures, mean);
  Outcome outcome{.text = table,
                  .json = json_text({{"gpu", arguments.gpus.front()},
                                     {"eta", arguments.etas.front()},
                                     {"seeds", arguments.seeds},
                                     {"groups", std::move(list)},
                                     {"mean_cost_over_oracle", costs_json(mean)}})};
  if (!arguments.csv.empty()) keep_result(arguments.csv, csv, console, outcome);
  return outcome;
}

void add_replay_groups_command(Commands& commands, CLI::App& replay) {
  const auto arguments = std::make_shared<SyntheticArguments>();
  CLI::App& app = commands.add(
      replay, "groups",
      "write synthetic groups of recurring jobs that overlap\n"
      "For `harpe replay zeus --groups` if there is no trace of a cluster: a few groups of each of "
      "its six jobs, with start times of a Poisson process and log-normal run times. The first "
      "line of the file states that the groups are synthetic.",
      "harpe replay groups --out groups.csv --in-flight 2\n"
      "harpe replay zeus traces --groups groups.csv",
      [arguments](Console&) { return write_synthetic(*arguments); });
  add_text(app, "--out", "FILE", "CSV file of the groups", arguments->out)->required();
  add_parsed(app, "--groups", "COUNT", "Groups per dataset (default 4)",
             arguments->shape.groups_per_dataset, count_within(1, 1000));
  add_parsed(app, "--jobs", "COUNT", "Jobs per group (default 60)", arguments->shape.jobs,
             count_within(1, 10'000));
  add_parsed(app, "--in-flight", "JOBS",
             "Mean number of running jobs per group, 0.01 to 100 (default 1)",
             arguments->shape.in_flight, [](std::string_view text) -> Result<double> {
               const auto value = parse_number(text);
               if (value && *value >= 0.01 && *value <= 100) return *value;
               return Error::invalid("expected a number from 0.01 to 100");
             });
  add_parsed(app, "--seed", "NUMBER", "Seed (default 1)", arguments->seed,
             count_within(0, 1'000'000'000));
}

}  // namespace harpe::command
