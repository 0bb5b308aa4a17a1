#include "harpe/command/lab_cli/zeus_runs.h"

#include <algorithm>
#include <cstddef>

#include "harpe/base/text.h"
#include "harpe/command/command/on_all_processors.h"
#include "harpe/command/input/input_file.h"

namespace harpe::command {
namespace {

// Over all jobs, GPUs and eta: with a page, a seed of a job uses about 5 kB.
constexpr std::size_t kMostSeedsInAll = 240'000;

Result<ZeusJob> read_job(const ZeusArguments& arguments, const lab::Traces& traces,
                         const std::optional<lab::Traces>& before,
                         const lab::TracedDataset& dataset, const std::string& gpu, double eta) {
  ZeusJob one{
      .job = HARPE_TRY(lab::traced_job(traces, dataset, gpu, eta)), .before = {}, .seeds = {}};
  one.job.horizon = arguments.horizon;
  if (before) {
    one.before = HARPE_TRY(lab::traced_job(*before, dataset, arguments.from, eta));
    one.before->horizon = arguments.horizon;
  }
  return one;
}

Result<ZeusRun> read_jobs(const ZeusArguments& arguments, const lab::Traces& traces,
                          const std::optional<lab::Traces>& before, const std::string& gpu,
                          double eta) {
  ZeusRun run{.gpu = gpu, .eta = eta, .has_targets = arguments.targets, .jobs = {}};
  for (const lab::TracedDataset& dataset : lab::traced_datasets()) {
    if (!arguments.targets) {
      run.jobs.push_back(HARPE_TRY(read_job(arguments, traces, before, dataset, gpu, eta)));
      continue;
    }
    for (const lab::TracedDataset& one : lab::with_each_target(traces, dataset)) {
      Result<ZeusJob> job = read_job(arguments, traces, before, one, gpu, eta);
      // A target that the default does not always reach defines no job of these traces.
      if (job.ok()) {
        run.jobs.push_back(*std::move(job));
      } else {
        run.left_out.push_back(std::string(one.name) + " " + shortest(one.target));
      }
    }
  }
  if (run.jobs.empty()) {
    return Error::invalid("the traces have no job on " + gpu + " whose default always converges");
  }
  return run;
}

Result<std::vector<ZeusRun>> read_runs(const ZeusArguments& arguments) {
  std::optional<lab::Traces> before;
  if (!arguments.from.empty()) {
    before = HARPE_TRY(read_traces(arguments.directory, arguments.from));
  }
  std::vector<ZeusRun> runs;
  for (const std::string& gpu : arguments.gpus) {
    const lab::Traces traces = HARPE_TRY(read_traces(arguments.directory, gpu));
    for (const double eta : arguments.etas) {
      runs.push_back(HARPE_TRY(read_jobs(arguments, traces, before, gpu, eta)));
    }
  }
  return runs;
}

Status run_seed(ZeusJob& job, std::size_t index, const zeus::PayBackPrior& prior,
                bool with_regret) {
  const std::uint64_t seed = index + 1;
  std::vector<zeus::KnownEpochs> known;
  if (job.before) {
    // Another seed, since the runs on the other GPU were different runs.
    const lab::Recurrences recurrences = HARPE_TRY(lab::recur_by_harpe(*job.before, ~seed, prior));
    known = lab::known_epochs(recurrences);
  }
  lab::SeedFigures figures = HARPE_TRY(lab::compare_seed(job.job, seed, prior, known));
  if (!with_regret) {
    figures.default_regret = figures.harpe.regret = {};
    if (figures.zeus) figures.zeus->regret = {};
  }
  job.seeds[index] = std::move(figures);
  return ok_status();
}

/// Runs all seeds of all jobs, on as many threads as there are processors.
Status run_all(const std::vector<ZeusJob*>& jobs, const ZeusArguments& arguments,
               Console& console) {
  const auto seeds = static_cast<std::size_t>(arguments.seeds);
  const bool with_regret = !arguments.out.empty();
  const std::size_t count = jobs.size() * seeds;
  std::vector<Status> statuses(count, ok_status());  // one per task: no lock
  ProgressBar progress(console, "replaying");
  on_all_processors(
      count,
      [&](std::size_t i) {
        statuses[i] =
            run_seed(*jobs[i % jobs.size()], i / jobs.size(), arguments.prior, with_regret);
      },
      [&](double share) { progress.update(share); });
  for (Status& status : statuses) HARPE_TRY(std::move(status));
  return ok_status();
}

}  // namespace

std::filesystem::path train_file(const std::filesystem::path& directory) {
  return plain_or_gz(directory / "summary_train.csv");
}

std::filesystem::path power_file(const std::filesystem::path& directory, const std::string& gpu) {
  return plain_or_gz(directory / ("summary_power_" + gpu + ".csv"));
}

Result<lab::Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu) {
  const std::filesystem::path train = train_file(directory);
  const std::filesystem::path power = power_file(directory, gpu);
  lab::Traces traces;
  const std::string train_text = HARPE_TRY(read_input_file(train));
  const std::string power_text = HARPE_TRY(read_input_file(power));
  traces.train = HARPE_TRY(lab::parse_train_rows(train_text, train.string()));
  traces.power = HARPE_TRY(lab::parse_power_rows(power_text, power.string()));
  return traces;
}

Result<std::vector<ZeusRun>> replay_zeus_jobs(const ZeusArguments& arguments, Console& console) {
  const auto seeds = static_cast<std::size_t>(arguments.seeds);
  std::vector<ZeusRun> runs = HARPE_TRY(read_runs(arguments));
  std::vector<ZeusJob*> jobs;
  for (ZeusRun& run : runs) {
    for (ZeusJob& job : run.jobs) jobs.push_back(&job);
  }
  if (seeds * jobs.size() > kMostSeedsInAll) {
    return Error::invalid("expected at most " + std::to_string(kMostSeedsInAll / jobs.size()) +
                          " seeds for " + std::to_string(jobs.size()) +
                          " jobs over all GPUs, eta and targets");
  }
  for (ZeusJob* job : jobs) job->seeds.resize(seeds);
  HARPE_TRY(run_all(jobs, arguments, console));
  return runs;
}

}  // namespace harpe::command
