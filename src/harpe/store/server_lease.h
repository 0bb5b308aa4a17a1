#pragma once
/// \file
/// When a server may command jobs, and when another may take them: leases that need no common
/// clock.
///
/// Each server of a database has one row there, with a beat that it raises every `beat` seconds. It
/// holds its lease until `lease - margin` after it began to send the last renewal that was
/// acknowledged, by its own clock. Another server may remove the row, with a statement that removes
/// it at this beat alone, once it has itself seen one beat for `lease + margin`, by its clock. A
/// row that was removed never comes back: a renewal that finds none ends the lease at once, and the
/// server joins again with another identity.
///
/// Why no two servers command one job: of the beats that a holder had acknowledged, the last was
/// sent before another server saw it for the first time. From there the holder counts to
/// `lease - margin`, the other one to `lease + margin`, so that the holder is through first as long
/// as their clocks run alike to within margin / lease: 10 %. A renewal that is written after all
/// changes the beat, and the removal then removes nothing. Clocks must go on while a process or its
/// machine sleeps (CLOCK_BOOTTIME); of a virtual machine that is stopped from outside they do not,
/// which is why ranks refuse what comes from an older epoch.
///
/// Pure: no clock, no database. Not thread-safe. O(servers) a look.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe {

/// The same on all servers of a database.
struct LeaseTimes {
  Seconds lease{10};
  Seconds beat{2};    ///< from one renewal to the next
  Seconds margin{1};  ///< for clocks that do not run alike
};

/// What a server reads of another one's row.
struct SeenBeat {
  std::string server;  ///< identity
  std::int64_t beat = 0;
  friend bool operator==(const SeenBeat&, const SeenBeat&) = default;
};

class ServerLease {
 public:
  explicit ServerLease(const LeaseTimes& times) : times_(times) {}

  // The server's own lease.

  /// A renewal, or the first writing of the row, is about to be sent.
  void sending(Instant now) { sent_ = now; }
  /// What was sent last is written.
  void acknowledged();
  /// Whether what was sent last is written is not known: the connection was lost.
  void failed() { sent_.reset(); }
  /// There is no row any more, or it was given up: all that was held is lost.
  void lost();

  bool held(Instant now) const { return until_ && now < *until_; }
  /// When the lease ends unless it is renewed; none: there is none.
  std::optional<Instant> held_until() const { return until_; }
  /// When to renew, as far as nothing fails.
  Instant next_beat(Instant now) const;

  // Those of others.

  /// The rows of all others, as an answer that came at `received` tells.
  void saw(const std::vector<SeenBeat>& all, Instant received);
  /// Whether a row may be removed at this beat, by a statement that is sent from `now` on.
  bool may_remove(const SeenBeat& row, Instant now) const;

 private:
  struct Watched {
    std::int64_t beat = 0;
    Instant since;  ///< when this beat was first seen
  };

  LeaseTimes times_;
  std::optional<Instant> sent_, until_, renewed_;
  std::map<std::string, Watched> others_;
};

}  // namespace harpe
