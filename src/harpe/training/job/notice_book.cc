#include "harpe/training/job/notice_book.h"

#include <algorithm>
#include <utility>

#include "harpe/base/ranges_text.h"

namespace harpe {
namespace {

JobNotice notice_of(const std::string& text, const std::set<int>& ranks, std::uint64_t number) {
  return {.number = number,
          .count = static_cast<int>(ranks.size()),
          .ranks = ranges_text(std::vector<int>(ranks.begin(), ranks.end())),
          .text = text};
}

}  // namespace

bool NoticeBook::add(int rank, std::string_view text, Seconds now) {
  auto known = std::ranges::find(entries_, text, &Entry::text);
  if (known == entries_.end()) {
    if (entries_.size() >= kMost) {
      const auto oldest =
          std::ranges::find_if(entries_, [](const Entry& entry) { return entry.fresh.empty(); });
      if (oldest == entries_.end()) return false;
      entries_.erase(oldest);
    }
    entries_.push_back({.text = std::string(text), .ranks = {}, .fresh = {}});
  } else {
    std::rotate(known, known + 1, entries_.end());
  }
  Entry& entry = entries_.back();
  const bool was_said = entry.said && now - *entry.said < kAgain;
  if (!entry.ranks.insert(rank).second && was_said) return true;
  if (entry.fresh.empty()) entry.first = now;
  if (entry.fresh.insert(rank).second) entry.last = now;
  return true;
}

bool NoticeBook::settled(const Entry& entry, Seconds now) const {
  return static_cast<int>(entry.fresh.size()) == ranks_ || now - entry.last >= kSettle ||
         now - entry.first >= kLongestSettle;
}

std::vector<JobNotice> NoticeBook::ask(std::uint64_t heard, bool last, Seconds now) {
  asked_ = now;
  std::erase_if(given_, [&](const JobNotice& one) { return one.number <= heard; });
  for (Entry& entry : entries_) {
    if (entry.fresh.empty() || !(last || settled(entry, now))) continue;
    // Numbers rise, also where another server, or a job of the same id, goes on.
    const double milliseconds = std::max(0.0, now.value) * 1e3;
    newest_ = std::max({newest_ + 1, heard + 1, static_cast<std::uint64_t>(milliseconds)});
    given_.push_back(notice_of(entry.text, entry.fresh, newest_));
    entry.fresh.clear();
    entry.said = now;
  }
  return {given_.begin(), given_.end()};
}

std::vector<JobNotice> NoticeBook::all() const {
  std::vector<JobNotice> notices;
  for (const Entry& entry : entries_) notices.push_back(notice_of(entry.text, entry.ranks, 0));
  return notices;
}

}  // namespace harpe
