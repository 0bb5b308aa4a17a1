#pragma once
/// \file
/// The events of jobs: the newest in memory, for those who listen, and all of it in the store.

#include <cstdint>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// On the loop's thread but for `read`.
class JobLog {
 public:
  /// \param store  null: what is in memory is all there is; all must outlive this
  JobLog(Store* store, JobSaver& saver, const ServiceClock& time)
      : store_(store), saver_(saver), time_(time) {}

  void add(const HostedPtr& hosted, HostedEffects::Event event);
  /// Whether what is in memory is all there is, so that nothing has to be read.
  bool is_in_memory() const { return store_ == nullptr; }
  /// The first `limit` events after a sequence number, of those in memory.
  static std::vector<LoggedEvent> newest(const Hosted& hosted, std::int64_t after, int limit);
  /// Of those in the store. From any thread.
  Result<std::vector<LoggedEvent>> read(const std::string& id, std::int64_t after, int limit) const;

 private:
  Store* store_;
  JobSaver& saver_;
  const ServiceClock& time_;
};

}  // namespace harpe
