#include "harpe/training/server/revisions.h"

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
  // Also where what was written before is in the store though its response was lost.
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

}  // namespace harpe::training
