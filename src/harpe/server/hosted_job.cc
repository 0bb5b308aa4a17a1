#include "harpe/server/hosted_job.h"

#include <algorithm>

namespace harpe {

JobListener::~JobListener() {
  if (list_ != nullptr) list_->remove(*this);
}

JobListeners::~JobListeners() {
  for (JobListener* listener : all_) listener->list_ = nullptr;
}

void JobListeners::add(JobListener& listener) {
  if (listener.list_ == this) return;
  if (listener.list_ != nullptr) listener.list_->remove(listener);
  listener.list_ = this;
  listener.position_ = all_.size();
  all_.push_back(&listener);
}

void JobListeners::remove(JobListener& listener) {
  if (listener.list_ != this) return;
  all_.back()->position_ = listener.position_;
  all_[listener.position_] = all_.back();
  all_.pop_back();
  listener.list_ = nullptr;
}

void JobListeners::for_each(const std::function<void(JobListener&)>& visit) const {
  // From the end: one that is removed meanwhile leaves its place to one that was visited.
  for (std::size_t i = all_.size(); i > 0; --i) {
    if (i <= all_.size()) visit(*all_[i - 1]);
  }
}

JobListener::Interest JobListeners::interest() const {
  auto strongest = JobListener::Interest::kNone;
  for (const JobListener* listener : all_) strongest = std::max(strongest, listener->interest());
  return strongest;
}

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

}  // namespace harpe
