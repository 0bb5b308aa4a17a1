#include "harpe/zeus/tuning/step_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

constexpr std::int64_t kMostAtOnce = 1 << 20, kMostBehind = 16 << 20;  // bytes
// No step of a training on a GPU is shorter: launching a kernel takes some microseconds.
constexpr Seconds kShortestStep{20e-6};
// A burst is this number of steps in one look, after a silence of this number of looks and this
// time: steps of 1 ms after a validation are 5 per look.
constexpr std::size_t kBurst = 8;
constexpr double kQuietLooks = 10;
constexpr Seconds kQuiet{0.1};
// This number of steps in a look is always a burst; fewer may be chance once.
constexpr std::size_t kSurelyBurst = 256;
constexpr int kEnoughBursts = 2;

std::int64_t change_time(const struct stat& seen) {
  return static_cast<std::int64_t>(seen.st_mtim.tv_sec) * 1'000'000'000 + seen.st_mtim.tv_nsec;
}

}  // namespace

std::vector<StepEvent::Kind> StepParser::add(std::string_view bytes) {
  std::vector<StepEvent::Kind> kinds;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::size_t room = kLongest - line_.size();
    too_long_ = too_long_ || end > room;
    line_.append(bytes.substr(0, std::min(end, room)));
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
    const std::string_view word = trim(line_);
    if (!too_long_ && (word.empty() || word == "step")) {
      kinds.push_back(StepEvent::Kind::kStep);
    } else if (!too_long_ && word == "epoch") {
      kinds.push_back(StepEvent::Kind::kEpochEnd);
    } else {
      ++ignored_;
    }
    restart();
  }
  return kinds;
}

void StepParser::restart() {
  line_.clear();
  too_long_ = false;
}

Result<StepFile> StepFile::create() {
  StepFile file(HARPE_TRY(TemporaryFolder::make("steps")));
  const UniqueFd made(::open(file.path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!made) {
    return Error::io(
        file.path_.string(),
        "cannot be created: " + std::error_code(errno, std::generic_category()).message());
  }
  return file;
}

std::vector<StepEvent> StepFile::poll(Instant now) {
  const Instant before = std::exchange(looked_, now);
  if (before.ns == 0) found_ = now;
  struct stat seen{};
  if (::stat(path_.c_str(), &seen) != 0 || !S_ISREG(seen.st_mode)) {
    if (file_ && !std::exchange(was_removed_, true)) {
      trouble_ = StepTrouble{"the file of steps was removed"};
    }
    return {};
  }
  follow(seen);
  std::vector<StepEvent::Kind> kinds;
  read_to(seen.st_size, kinds);
  refuse_impossible(kinds, now);
  look_for_bursts(kinds.size(), before, now);
  std::vector<StepEvent> events;
  events.reserve(kinds.size());
  const Seconds since = before.ns == 0 ? Seconds{0} : now - before;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(kinds.size());
    events.push_back({kinds[i], now + since * (share - 1)});
  }
  return events;
}

/// Restarts if the file is another one, was truncated, or was overwritten at its length by a
/// program that keeps one line. An append also changes the time before the length, so a change of
/// time is judged at the next look.
void StepFile::follow(const struct stat& seen) {
  const std::int64_t written = change_time(seen);
  const bool same = file_ && device_ == seen.st_dev && inode_ == seen.st_ino;
  const bool is_touched = seen.st_size == offset_ && lines_ == 1 && written != written_ns_;
  const bool was_touched = std::exchange(touched_, is_touched);
  if (same && seen.st_size >= offset_ && !(is_touched && was_touched)) {
    if (!is_touched) written_ns_ = written;
    return;
  }
  if (file_) ++restarts_;
  if (file_ && !same && !was_removed_ && !std::exchange(was_replaced_, true)) {
    trouble_ = StepTrouble{"the file of steps was replaced by another file"};
  }
  offset_ = lines_ = 0;
  touched_ = false;
  written_ns_ = written;
  parser_.restart();
  if (same) return;
  // A file of another type in its place must not block this reader.
  file_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  device_ = seen.st_dev;
  inode_ = seen.st_ino;
}

/// Removes steps beyond the number that fits into the time since the last look that found some.
void StepFile::refuse_impossible(std::vector<StepEvent::Kind>& kinds, Instant now) {
  const double most = (now - found_) / kShortestStep + kSurelyBurst;
  if (static_cast<double>(kinds.size()) <= most) return;
  const auto kept = static_cast<std::size_t>(most);
  refused_ += kinds.size() - kept;
  kinds.resize(kept);
}

void StepFile::look_for_bursts(std::size_t steps, Instant before, Instant now) {
  if (steps == 0) return;
  const Seconds look = before.ns == 0 ? Seconds{0} : now - before;
  const Seconds quiet = (before.ns == 0 ? now : before) - std::exchange(found_, now);
  // A late look finds the steps of its whole time.
  const bool is_burst = steps >= kBurst && quiet > look * kQuietLooks && quiet > kQuiet;
  const bool is_impossible = refused_ > 0 && steps >= kSurelyBurst;
  bursts_ = is_burst ? bursts_ + 1 : 0;
  const bool is_first = !std::exchange(has_steps_, true);
  const bool is_sure = is_first || steps >= kSurelyBurst || bursts_ >= kEnoughBursts;
  if (is_bursty_ || !((is_burst && is_sure) || is_impossible)) return;
  is_bursty_ = true;
  trouble_ = StepTrouble{
      .what = "steps arrive in bursts (" + std::to_string(steps) +
              " lines at once): the command must flush each line as it writes it, for example "
              "print(file=steps, flush=True)",
      .are_steps_timed = false};
}

void StepFile::read_to(std::int64_t size, std::vector<StepEvent::Kind>& kinds) {
  if (!file_ || size <= offset_) return;
  if (size - offset_ > kMostBehind) {
    // The times of this many steps at once are useless; the newest steps are as good.
    skipped_ += static_cast<std::uint64_t>(size - kMostAtOnce - offset_);
    offset_ = size - kMostAtOnce;
    parser_.restart();
  }
  std::vector<char> buffer(1 << 16);
  const std::int64_t end = std::min(size, offset_ + kMostAtOnce);
  while (offset_ < end) {
    const auto wanted =
        std::min<std::int64_t>(end - offset_, static_cast<std::int64_t>(buffer.size()));
    const ssize_t got =
        ::pread(file_.get(), buffer.data(), static_cast<std::size_t>(wanted), offset_);
    if (got <= 0) return;
    offset_ += got;
    lines_ += std::count(buffer.begin(), buffer.begin() + got, '\n');
    const auto more = parser_.add({buffer.data(), static_cast<std::size_t>(got)});
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
}

}  // namespace harpe::zeus
