#include "harpe/training/server/hosted.h"

#include <algorithm>

#include "harpe/base/check.h"

namespace harpe::training {
Revisions Revisions::of_stored(std::int64_t revision) {
  Revisions revisions;
  revisions.newest_ = revisions.stored_ = revision;
  revisions.in_store_ = true;
  return revisions;
}

void Revisions::change() {
  ++newest_;
  differs_ = true;
}

std::int64_t Revisions::write() {
  HARPE_CHECK(differs_, "a revision has one content: what has not changed is not written again");
  // A higher revision even if the last write was stored but its response was lost.
  ++newest_;
  HARPE_CHECK(newest_ > stored_ && newest_ > in_flight_.value_or(stored_),
              "a revision that is written is higher than all before");
  in_flight_ = newest_;
  differs_ = false;
  return newest_;
}

void Revisions::failed(std::int64_t revision) {
  HARPE_CHECK(in_flight_ == revision, "what fails to be written was being written");
  in_flight_.reset();
  differs_ = true;
}

void Revisions::written(std::int64_t revision) {
  const bool was_written = in_flight_ == revision || (in_store_ && stored_ == revision);
  HARPE_CHECK(was_written, "the store has no revision that was not written");
  HARPE_CHECK(revision >= stored_, "what is stored never goes back");
  if (in_flight_ == revision) in_flight_.reset();
  stored_ = revision;
  in_store_ = true;
}

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
  // From the end: a listener that is removed in `visit` is replaced by one that was visited.
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
  // A job read from the store cannot summarise its last moments, so the stored summary is used.
  const bool as_stored = asleep() && !stored_summary.empty();
  JobSummary summary{.job = id,
                     .text = as_stored ? stored_summary : summary_text(),
                     .heard = heard().value,
                     .ended = {}};
  if (const auto end = ended()) summary.ended = end->value;
  return summary;
}

}  // namespace harpe::training
