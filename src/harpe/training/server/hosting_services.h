#pragma once
/// \file
/// The options of a server's hosting (hosting.h), and what its parts share.

#include <cstddef>
#include <functional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/server/job_activity.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/loop_work.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/server/worker_pool.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

struct HostingOptions {
  /// Jobs at once, in memory or stored. Where more come, those that ended first go.
  std::size_t most_jobs = 100'000;
  std::size_t most_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory
  JobLifetimes lifetimes = {};
  MachineClocks clocks = MachineClocks::system();
  /// Where other servers of the same store reach this one; empty: there are none.
  std::string url = {};
  MakeWorkers make_workers = WorkerPool::make;
};

/// Outlives the parts that use it.
struct HostingServices {
  const HostingOptions& options;
  const std::function<void(const std::string&)>& log;
  Clock& clock;
  const ServiceClock& time;
  Store* store;  ///< null: nothing survives or is shared, and jobs never leave memory
  HostedTable& table;
  const JobActivities& activities;
  JobSaver& saver;
  SideWorkers& readers;
};

}  // namespace harpe::training
