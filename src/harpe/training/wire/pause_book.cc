#include "harpe/training/wire/pause_book.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace harpe::training {
namespace {

constexpr std::size_t kMostEntries = 16;

}  // namespace

void PauseBook::take(const StageAssignment& assignment) {
  const auto age = [](const auto& one) { return std::pair(one.epoch, one.version); };
  if (!entries_.empty() && assignment.epoch < entries_.back().epoch) return;
  const auto position = std::ranges::lower_bound(entries_, age(assignment), {}, age);
  if (position != entries_.end() && age(*position) == age(assignment)) return;
  const std::optional<PauseRequest>& pause = assignment.pause;
  if (pause && assignment.from_iteration <= looked_ && !knows(*pause)) follow(*pause);
  const auto hides = [&](const Entry& newer) { return newer.from <= assignment.from_iteration; };
  if (std::any_of(position, entries_.end(), hides)) return;
  const auto added = entries_.insert(position, Entry{.epoch = assignment.epoch,
                                                     .version = assignment.version,
                                                     .from = assignment.from_iteration,
                                                     .pause = assignment.pause});
  const std::int64_t from = added->from;
  const auto hidden = std::remove_if(entries_.begin(), added,
                                     [from](const Entry& older) { return from <= older.from; });
  entries_.erase(hidden, added);
  if (entries_.size() > kMostEntries) entries_.erase(entries_.begin());
}

const PauseBook::Entry* PauseBook::in_force(std::int64_t iteration) const {
  for (std::size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].from <= iteration) return &entries_[i];
  return nullptr;
}

bool PauseBook::knows(const PauseRequest& pause) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return entry.pause && entry.pause->number == pause.number;
  });
}

std::optional<PauseRequest> PauseBook::before(std::int64_t iteration) {
  looked_ = iteration;
  const Entry* holds = in_force(iteration);
  if (holds == nullptr || !holds->pause || holds->pause->number <= followed_) return std::nullopt;
  return holds->pause;
}

bool PauseBook::lasts(const PauseRequest& pause, std::int64_t iteration) const {
  const auto asks = [&](const Entry* entry) {
    return entry != nullptr && entry->pause && entry->pause->number == pause.number;
  };
  return asks(in_force(iteration)) && asks(&entries_.back());
}

}  // namespace harpe::training
