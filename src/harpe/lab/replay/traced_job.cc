#include "harpe/lab/replay/traced_job.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace harpe::lab {
namespace {

constexpr std::array<TracedDataset, 6> kDatasets{{
    {"cifar100", "shufflenetv2", "adadelta", 0.60, true, 100, 1024, 1024, 1024, 1024},
    {"imagenet", "resnet50", "adadelta", 0.65, true, 100, 256, 256, 128, 256},
    {"squad", "bert_base_uncased", "adamw", 84, true, 6, 32, 32, 24, 32},
    {"librispeech", "deepspeech2", "adamw", 40, false, 16, 192, 192, 72, 128},
    {"movielens-1m", "ncf", "adam", 0.41, true, 100, 1024, 1024, 1024, 1024},
    {"sentiment140", "bert_base_uncased", "adamw", 0.84, true, 10, 128, 128, 64, 128},
}};
constexpr std::array<const char*, 4> kGpus{"v100", "a40", "p100", "rtx6000"};

int default_size(const TracedDataset& dataset, const std::string& gpu) {
  if (gpu == "a40") return dataset.default_a40;
  if (gpu == "p100") return dataset.default_p100;
  if (gpu == "rtx6000") return dataset.default_rtx6000;
  return dataset.default_v100;
}

bool is_of(const TraceKey& key, const TracedDataset& dataset) {
  return key.dataset == dataset.name && key.network == dataset.network &&
         key.optimizer == dataset.optimizer;
}

std::vector<TracedSize> traced_sizes(const Traces& traces, const TracedDataset& dataset) {
  std::map<int, TracedSize> sizes;
  for (const TrainRow& row : traces.train) {
    if (!is_of(row.key, dataset) || row.target_metric != dataset.target) continue;
    sizes[row.key.batch_size].runs.push_back(row.target_epoch);
  }
  for (const PowerRow& row : traces.power) {
    if (!is_of(row.key, dataset) || !sizes.contains(row.key.batch_size)) continue;
    sizes[row.key.batch_size].limits.push_back(
        {row.power_limit, row.epoch_time, row.average_power * row.epoch_time});
  }
  std::vector<TracedSize> with_both;
  for (auto& [batch_size, size] : sizes) {
    if (size.limits.empty()) continue;
    size.batch_size = batch_size;
    std::ranges::sort(size.limits, {}, &TracedLimit::watts);
    with_both.push_back(std::move(size));
  }
  return with_both;
}

/// Returns the cheapest limit; of equals the highest, as Zeus chooses it.
std::size_t cheapest_limit(const TracedJob& job, const TracedSize& size) {
  std::size_t best = size.limits.size() - 1;
  for (std::size_t i = best; i-- > 0;) {
    if (job.epoch_cost(size.limits[i]) < job.epoch_cost(size.limits[best])) best = i;
  }
  return best;
}

}  // namespace

bool TracedSize::always_converges() const {
  return std::ranges::all_of(runs, [](const auto& run) { return run.has_value(); });
}

double TracedSize::mean_epochs() const {
  double sum = 0, count = 0;
  for (const auto& run : runs) {
    if (!run) continue;
    sum += *run;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

TracedLimit TracedSize::profiled() const {
  TracedLimit mean;
  const auto count = static_cast<double>(limits.size());
  for (const TracedLimit& limit : limits) {
    mean.epoch_time += limit.epoch_time / count;
    mean.epoch_energy += limit.epoch_energy / count;
  }
  return mean;
}

const TracedSize& TracedJob::size_of(int batch_size) const {
  return sizes[static_cast<std::size_t>(std::ranges::find(job.batch_sizes, batch_size) -
                                        job.batch_sizes.begin())];
}

const TracedSize& TracedJob::oracle() const {
  const auto cost = [this](const TracedSize& size) {
    return size.mean_epochs() * epoch_cost(size.limits[size.best]);
  };
  const TracedSize* best = &sizes[first];
  for (const TracedSize& size : sizes) {
    if (size.always_converges() && cost(size) < cost(*best)) best = &size;
  }
  return *best;
}

double TracedJob::oracle_cost() const {
  const TracedSize& best = oracle();
  return best.mean_epochs() * epoch_cost(best.limits[best.best]);
}

std::span<const TracedDataset> traced_datasets() {
  return kDatasets;
}

std::vector<TracedDataset> with_each_target(const Traces& traces, const TracedDataset& dataset) {
  std::set<double> targets;
  for (const TrainRow& row : traces.train) {
    if (is_of(row.key, dataset)) targets.insert(row.target_metric);
  }
  std::vector<TracedDataset> list;
  for (const double target : targets) list.emplace_back(dataset).target = target;
  return list;
}

std::span<const char* const> traced_gpus() {
  return kGpus;
}

Result<TracedJob> traced_job(const Traces& traces, const TracedDataset& dataset,
                             const std::string& gpu, double eta) {
  TracedJob traced{.dataset = dataset.name, .job = {}, .sizes = traced_sizes(traces, dataset)};
  zeus::RecurringJob& job = traced.job;
  job.id = job.id_prefix = dataset.name;
  job.gpu_model = gpu;
  job.gpus = 1;
  job.eta = eta;
  job.target_metric = dataset.target;
  job.higher_is_better = dataset.higher_is_better;
  job.max_epochs = dataset.max_epochs;
  job.default_batch_size = default_size(dataset, gpu);
  std::map<int, int> limits;
  for (const TracedSize& size : traced.sizes) {
    job.batch_sizes.push_back(size.batch_size);
    for (const TracedLimit& limit : size.limits) ++limits[limit.watts];
  }
  const auto first = std::ranges::find(job.batch_sizes, job.default_batch_size);
  if (first == job.batch_sizes.end() ||
      !traced.sizes[static_cast<std::size_t>(first - job.batch_sizes.begin())].always_converges()) {
    return Error::invalid("the traces have no batch size " +
                          std::to_string(job.default_batch_size) + " of " + traced.dataset +
                          " on " + gpu + " that always converges: it is the job's default");
  }
  traced.first = static_cast<std::size_t>(first - job.batch_sizes.begin());
  job.max_power.value = limits.rbegin()->first;
  job.recurrences = static_cast<int>(2 * job.batch_sizes.size() * limits.size());
  for (TracedSize& size : traced.sizes) size.best = cheapest_limit(traced, size);
  return traced;
}

}  // namespace harpe::lab
