#include "harpe/training/server/hosted.h"

#include <algorithm>

namespace harpe::training {

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

JobSummary Hosted::summary() const {
  // A job that was read from the store lacks the summary of its last moments.
  const bool as_stored = asleep() && !stored_summary.empty();
  JobSummary summary{.job = id,
                     .text = as_stored ? stored_summary : summary_text(),
                     .heard = heard().value,
                     .ended = {}};
  if (const auto end = ended()) summary.ended = end->value;
  return summary;
}

}  // namespace harpe::training
