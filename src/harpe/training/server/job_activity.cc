#include "harpe/training/server/job_activity.h"

#include <array>

namespace harpe::training {

const char* name_of(Activity activity) {
  constexpr std::array kNames = {"active", "idle", "ended"};
  return kNames.at(static_cast<std::size_t>(activity));
}

Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes) {
  if (ended || now - heard >= lifetimes.end_after) return Activity::kEnded;
  return now - heard >= lifetimes.idle_after ? Activity::kIdle : Activity::kActive;
}

}  // namespace harpe::training
