#pragma once
/// \file
/// The jobs in memory, the events that change them, and the effects of these events.
///
/// On the loop's thread.

#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosting_services.h"
#include "harpe/training/server/job_log.h"

namespace harpe::training {

/// A job that was read from the store stays as it was stored until `act` or `wake`. After each
/// event the job's memory is measured, its log entries are written, it is saved if it must be, and
/// its listeners are called.
class LoadedJobs {
 public:
  /// Both must outlive this.
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
  /// Wakes a job because a client that takes part listens to it.
  void wake(const HostedPtr& hosted);
  void save(const HostedPtr& hosted);
  /// Writes the summary of a job with the next save.
  void refresh_summary(const Hosted& hosted);
  /// Removes a job from memory after it was marked as deleted, moved or unloaded. Calls all who
  /// wait for it with `why`.
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
