#pragma once
/// \file
/// The jobs in memory, the events that change them, and the effects of these events.
///
/// Used on the loop's thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Options of a server's hosting (hosting.h).
struct HostingOptions {
  /// Limit on jobs in memory or stored. Above it, the jobs that ended first are removed.
  std::size_t most_jobs = 100'000;
  std::size_t most_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory
  JobLifetimes lifetimes = {};
  MachineClocks clocks = MachineClocks::system();
  /// URL at which other servers of the same store reach this one; empty if there are none.
  std::string url = {};
  MakeWorkers make_workers = WorkerPool::make;
};

/// Objects that the parts of hosting share. Outlives them.
struct HostingServices {
  const HostingOptions& options;
  const std::function<void(const std::string&)>& log;
  Clock& clock;
  const ServiceClock& time;
  Store* store;  ///< null if nothing is stored or shared; jobs then never leave memory
  HostedTable& table;
  const JobActivities& activities;
  JobSaver& saver;
  SideWorkers& readers;
};

/// The events of jobs: the newest are in memory, for clients that listen, and all are in the store.
/// Used on the loop's thread.
class JobLog {
 public:
  /// \param services  must outlive this
  explicit JobLog(const HostingServices& services) : services_(services) {}

  void add(const HostedPtr& hosted, HostedEffects::Event event);
  /// Reads the first `limit` events of a job after a sequence number.
  void read(const HostedPtr& hosted, std::int64_t after, int limit,
            std::function<void(Result<std::vector<LoggedEvent>>)> done);

 private:
  const HostingServices& services_;
};

/// The jobs in memory. A job that was read from the store keeps its stored state until `act` or
/// `wake`. After each event the job's memory is measured, its log entries are written, it is saved
/// if necessary, and its listeners are called.
class LoadedJobs {
 public:
  /// Both arguments must outlive this object.
  LoadedJobs(const HostingServices& services, JobLog& job_log)
      : services_(services), job_log_(job_log) {}

  /// Adds a job, new or read from the store, under its claim.
  void add(const HostedPtr& hosted);
  /// Applies `event` to a job, which is awake from then on, and handles its effects.
  template <class Event>
  auto act(const HostedPtr& hosted, Event event) {
    wake(hosted);
    hosted->touched = true;
    auto outcome = event(services_.time.now());
    follow(hosted);
    return outcome;
  }
  /// Wakes a job because a client that takes part in it is listening.
  void wake(const HostedPtr& hosted);
  void save(const HostedPtr& hosted);
  /// Writes the summary of a job with the next save.
  void refresh_summary(const Hosted& hosted);
  /// Removes a job from memory after it was marked as deleted, moved or unloaded. Calls the
  /// callbacks that wait for it with `why`.
  void drop(const HostedPtr& hosted, const Status& why);
  /// Called once a second.
  void tick();

 private:
  void follow(const HostedPtr& hosted);
  void tick(const HostedPtr& hosted);

  const HostingServices& services_;
  JobLog& job_log_;
};

}  // namespace harpe::training
