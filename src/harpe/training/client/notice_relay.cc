#include "harpe/training/client/notice_relay.h"

#include <algorithm>
#include <utility>

namespace harpe {
namespace {

constexpr Seconds kFirstMinute{60};
constexpr std::size_t kMostTexts = 256;

}  // namespace

NoticeRelay::NoticeRelay(bool is_first, Print print, Clock& clock)
    : is_first_(is_first),
      print_(std::move(print)),
      clock_(clock),
      began_(clock.now()),
      next_ask_(began_),
      local_until_(began_) {}

void NoticeRelay::print(const std::vector<std::string>& lines) const {
  for (const std::string& line : lines) print_(line);
}

void NoticeRelay::say(std::string_view text) {
  const Instant now = clock_.now();
  {
    const MutexLock lock(mutex_);
    if (!is_local(now) && texts_.size() < kMostTexts) {
      texts_.push_back({.text = notice_text(text), .said = now});
      next_ask_ = std::min(next_ask_, now);
      return;
    }
  }
  print({std::string(text)});
}

std::optional<RankNotices> NoticeRelay::due(bool last) {
  const Instant now = clock_.now();
  const MutexLock lock(mutex_);
  if (is_local(now)) return std::nullopt;
  const bool ends = last && !asked_last_;
  if (now < next_ask_ && !ends) return std::nullopt;
  RankNotices notices{.coordinates = {}, .session = {}, .texts = {}, .heard = heard_, .last = last};
  for (Text& one : texts_) {
    if (one.taken || notices.texts.size() >= RankNotices::kMost) continue;
    one.sent = true;
    notices.texts.push_back(one.text);
  }
  asked_last_ = asked_last_ || last;
  if (!is_first_ && notices.texts.empty()) return std::nullopt;
  return notices;
}

void NoticeRelay::answered(const NoticeResponse& response) {
  const Instant now = clock_.now();
  std::vector<std::string> lines;
  {
    const MutexLock lock(mutex_);
    for (const JobNotice& one : response.notices) {
      if (one.number <= heard_) continue;
      heard_ = one.number;
      lines.push_back(one.line(response.ranks));
    }
    if (response.taken && !is_first_) {
      std::erase_if(texts_, [](const Text& own) { return own.sent; });
    }
    for (Text& own : texts_) {
      own.taken = own.taken || (own.sent && response.taken);
      own.sent = false;
    }
    for (const JobNotice& one : response.notices) {
      std::erase_if(texts_, [&](const Text& own) { return own.taken && own.text == one.text; });
    }
    const bool busy = !texts_.empty() || !lines.empty() || now - began_ < kFirstMinute;
    next_ask_ = now + (!is_first_ ? kRetry : busy ? kBusy : kQuiet);
  }
  print(lines);
}

void NoticeRelay::failed(bool unsupported) {
  const Instant now = clock_.now();
  std::vector<std::string> lines;
  {
    const MutexLock lock(mutex_);
    for (Text& own : texts_) own.sent = false;
    next_ask_ = now + kRetry;
    if (unsupported) {
      local_until_ = now + kUnsupported;
      for (const Text& own : texts_) lines.push_back(own.text);
      texts_.clear();
    }
  }
  print(lines);
}

void NoticeRelay::tick(bool registered) {
  const Instant now = clock_.now();
  std::vector<std::string> lines;
  {
    const MutexLock lock(mutex_);
    registered_ = registered;
    const Seconds patience = is_first_ && !registered ? kFirstPatience : kPatience;
    std::erase_if(texts_, [&](const Text& own) {
      if (now - own.said < patience || own.sent) return false;
      lines.push_back(own.text);
      return true;
    });
  }
  print(lines);
}

Instant NoticeRelay::next() const {
  const MutexLock lock(mutex_);
  const Instant now = clock_.now();
  if (is_local(now)) return local_until_;
  if (texts_.empty() && !is_first_) return now + kUnsupported;
  Instant next = registered_ ? next_ask_ : now + kUnsupported;
  const Seconds patience = is_first_ && !registered_ ? kFirstPatience : kPatience;
  for (const Text& own : texts_) next = std::min(next, own.said + patience);
  return next;
}

void NoticeRelay::finish() {
  std::vector<std::string> lines;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    for (const Text& own : texts_) lines.push_back(own.text);
    texts_.clear();
  }
  print(lines);
}

}  // namespace harpe
