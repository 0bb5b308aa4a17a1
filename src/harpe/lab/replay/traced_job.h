#pragma once
/// \file
/// A recurring job in the traces: epochs to target of each batch size, and time and energy of an
/// epoch under each power limit. Zeus's evaluation has the same jobs (NSDI'23, table 1).

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/replay/traces.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::lab {

struct TracedLimit {
  int watts = 0;
  Seconds epoch_time{};
  Joules epoch_energy{};
};

struct TracedSize {
  int batch_size = 0;
  std::vector<std::optional<int>> runs;  ///< epochs to target; nullopt: never reached
  std::vector<TracedLimit> limits;       ///< rising
  std::size_t best = 0;                  ///< position of the cheapest limit

  bool always_converges() const;
  double mean_epochs() const;  ///< of the runs that converged
  /// Returns an epoch in which all limits are profiled: the mean over them.
  TracedLimit profiled() const;
};

/// The number of recurrences that Harpe knows in advance.
struct Horizon {
  bool is_known = false;  ///< each job's own number
  int recurrences = 0;    ///< otherwise this number; 0: unknown
  int of(int own) const { return is_known ? own : recurrences; }
};

struct TracedJob {
  std::string dataset;
  zeus::RecurringJob job;         ///< sizes, default, eta, beta, max_epochs, max_power, recurrences
  std::vector<TracedSize> sizes;  ///< in the order of the sizes of `job`
  std::size_t first = 0;          ///< position of the default size
  /// Does not affect the number that is replayed, `job.recurrences`.
  Horizon horizon = {};

  double epoch_cost(const TracedLimit& limit) const {
    return job.cost(limit.epoch_energy, limit.epoch_time);
  }
  /// Returns one of the job's sizes.
  const TracedSize& size_of(int batch_size) const;
  /// Returns the cost of the cheapest size and limit, among the sizes whose runs all converged.
  double oracle_cost() const;
  const TracedSize& oracle() const;
};

struct TracedDataset {
  const char* name;
  const char* network;
  const char* optimizer;
  double target;
  bool higher_is_better;
  int max_epochs;
  int default_v100, default_a40, default_p100, default_rtx6000;
};
std::span<const TracedDataset> traced_datasets();
/// Returns the job once for each of its targets in the traces, rising.
std::vector<TracedDataset> with_each_target(const Traces& traces, const TracedDataset& dataset);
/// Returns "v100", ...
std::span<const char* const> traced_gpus();

/// Returns the job. Fails with `kInvalidInput` if the traces have no runs of it, or none with its
/// default size that always converges.
Result<TracedJob> traced_job(const Traces& traces, const TracedDataset& dataset,
                             const std::string& gpu, double eta);

}  // namespace harpe::lab
