#include "harpe/training/server/job_activity.h"

namespace harpe::training {

const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::kActive:
      return "active";
    case Activity::kIdle:
      return "idle";
    case Activity::kEnded:
      return "ended";
  }
  return "";
}

Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes) {
  if (ended || now - heard >= lifetimes.end_after) return Activity::kEnded;
  return now - heard >= lifetimes.idle_after ? Activity::kIdle : Activity::kActive;
}

}  // namespace harpe::training
