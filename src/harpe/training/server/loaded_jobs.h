#pragma once
/// \file
/// The jobs in memory: what happens to them, and what follows from it.
///
/// On the loop's thread.

#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosting_services.h"
#include "harpe/training/server/job_log.h"

namespace harpe {

/// A job that was read and only looked at stays as it was stored: `act` is what makes it go on.
/// After each event its memory is measured, its events are logged, it is saved where it has to be,
/// and its listeners are called.
class LoadedJobs {
 public:
  /// Both must outlive this.
  LoadedJobs(const HostingServices& services, JobLog& job_log)
      : services_(services), job_log_(job_log) {}

  /// Adds a job, new or read from the store, under its claim.
  void add(const HostedPtr& hosted);
  /// Lets `event` happen to a job, which goes on, and does what follows from it.
  template <class Event>
  auto act(const HostedPtr& hosted, Event event) {
    wake(hosted);
    hosted->touched = true;
    auto outcome = event(services_.time.now());
    follow(hosted);
    return outcome;
  }
  /// Makes a job go on, because a client that takes part listens to it.
  void wake(const HostedPtr& hosted);
  void save(const HostedPtr& hosted);
  /// Writes the summary of a job with the next save.
  void refresh_summary(const Hosted& hosted);
  /// Ends a job that is over, which is already said in it.
  void drop(const HostedPtr& hosted, const Status& why);
  /// Called once a second.
  void tick();

 private:
  void follow(const HostedPtr& hosted);
  void tick(const HostedPtr& hosted);

  const HostingServices& services_;
  JobLog& job_log_;
};

}  // namespace harpe
