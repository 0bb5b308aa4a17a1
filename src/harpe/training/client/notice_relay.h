#pragma once
/// \file
/// What a rank has to say to the people who train. It goes to the server, which has the job's first
/// rank say it once for all ranks (wire/rank_notices.h). Nothing is lost: what the server does not
/// take, or takes too long for, the rank says itself.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/training/wire/rank_notices.h"

namespace harpe {

/// `say` is for any thread, the rest for the one that talks to the server.
class NoticeRelay {
 public:
  using Print = std::function<void(const std::string&)>;
  /// A text that the server has not taken is said by the rank after so long.
  static constexpr Seconds kPatience{30};
  /// The same of the first rank as long as it is not registered: a server that is not there, or
  /// refuses, is to be known soon, and by one line.
  static constexpr Seconds kFirstPatience{1};
  /// Between two questions: of texts that wait; of the first rank in the first minute and where
  /// there is something new; else.
  static constexpr Seconds kRetry{2}, kBusy{1}, kQuiet{10};
  /// A server that knows nothing of notices is not asked for so long.
  static constexpr Seconds kUnsupported{600};

  /// \param is_first  all coordinates of the rank are 0
  NoticeRelay(bool is_first, Print print, Clock& clock);
  /// Says what is left.
  ~NoticeRelay() { finish(); }
  NoticeRelay(const NoticeRelay&) = delete;
  NoticeRelay& operator=(const NoticeRelay&) = delete;

  void say(std::string_view text) HARPE_EXCLUDES(mutex_);

  /// What the server is to be told and asked now; none: nothing. Coordinates and session are the
  /// caller's to fill in. \param last  the rank ends
  std::optional<RankNotices> due(bool last) HARPE_EXCLUDES(mutex_);
  /// To what `due` gave last.
  void answered(const NoticeResponse& response) HARPE_EXCLUDES(mutex_);
  void failed(bool unsupported) HARPE_EXCLUDES(mutex_);
  /// Says what has waited for too long. \param registered  the server knows the rank
  void tick(bool registered) HARPE_EXCLUDES(mutex_);
  /// When `due` or `tick` has something to do.
  Instant next() const HARPE_EXCLUDES(mutex_);
  /// The server is not asked any more: says what it has not.
  void finish() HARPE_EXCLUDES(mutex_);

 private:
  struct Text {
    std::string text;
    Instant said;
    bool sent = false;   ///< in the question that is on its way
    bool taken = false;  ///< by the server, of the first rank, which is to say it
  };
  bool is_local(Instant now) const HARPE_REQUIRES(mutex_) { return ended_ || now < local_until_; }
  /// With the lock held what is to be said is only gathered: `print_` is the user's.
  void print(const std::vector<std::string>& lines) const;

  const bool is_first_;
  const Print print_;
  Clock& clock_;
  const Instant began_;

  mutable Mutex mutex_;
  std::vector<Text> texts_ HARPE_GUARDED_BY(mutex_);  ///< that were not said
  std::uint64_t heard_ HARPE_GUARDED_BY(mutex_) = 0;
  Instant next_ask_ HARPE_GUARDED_BY(mutex_), local_until_ HARPE_GUARDED_BY(mutex_);
  bool registered_ HARPE_GUARDED_BY(mutex_) = false, asked_last_ HARPE_GUARDED_BY(mutex_) = false;
  bool ended_ HARPE_GUARDED_BY(mutex_) = false;
};

}  // namespace harpe
