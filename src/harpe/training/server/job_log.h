#pragma once
/// \file
/// The events of jobs: the newest in memory, for those who listen, and all of it in the store.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosting_services.h"

namespace harpe::training {

/// On the loop's thread.
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

}  // namespace harpe::training
