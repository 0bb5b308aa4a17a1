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
/// Pure: no clock, no database; it says what to send, and is given what came of it. Not
/// thread-safe. O(servers) a look.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe::training {

/// The same on all servers of a database.
struct LeaseTimes {
  Seconds lease{10};
  Seconds beat{2};    ///< from one renewal to the next
  Seconds margin{1};  ///< for clocks that do not run alike
};

/// What a server reads of another one's row.
struct SeenBeat {
  std::string server;  ///< its name
  std::int64_t beat = 0;
  bool gone = false;  ///< its process has provably ended
};

/// What a server sends to the database, one at a time.
struct LeaseStep {
  enum class Kind : unsigned char {
    kJoin,    ///< write a row for `server`
    kRenew,   ///< raise the beat of `server`, if it has a row
    kLook,    ///< read the rows of all but `server`
    kRemove,  ///< remove the row of `server`, if it is at `beat`
  };
  Kind kind = Kind::kJoin;
  std::string server;
  std::int64_t beat = 0;
};

class ServerLease {
 public:
  /// \param new_name  a name that no server has had
  ServerLease(const LeaseTimes& times, std::function<std::string()> new_name)
      : times_(times), new_name_(std::move(new_name)) {}

  /// What is to be sent, from `now` on; then tell its outcome. Nothing: nothing before `wake`.
  std::optional<LeaseStep> next(Instant now);
  Instant wake(Instant now) const {
    return renewed_ ? std::max(now, *renewed_ + times_.beat) : now;
  }

  // Outcomes of what was sent last.

  /// \param found  whether there was the row that it was about
  void written(bool found);
  /// All rows that were read, by a response that came at `received`.
  void looked(const std::vector<SeenBeat>& all, Instant received);
  /// It is not known whether it was written: the connection was lost.
  void failed() { step_.reset(); }

  bool held(Instant now) const { return until_ && now < *until_; }
  /// When the lease ends unless it is renewed; none: there is none.
  std::optional<Instant> held_until() const { return until_; }
  /// The name of this server; empty: it has lost its lease, and has not joined again yet.
  const std::string& server() const { return server_; }
  /// Rises when all that was claimed before is lost for good. From 1.
  std::uint64_t tenure() const { return tenure_; }

  /// Whether a row may be removed at this beat, by a statement that is sent from `now` on.
  bool may_remove(const SeenBeat& row, Instant now) const;

 private:
  struct Watched {
    std::int64_t beat = 0;
    Instant since;  ///< when this beat was first seen
  };
  LeaseStep send(LeaseStep::Kind kind, const std::string& server, Instant now);
  void hold();

  LeaseTimes times_;
  std::function<std::string()> new_name_;
  std::string server_;
  std::uint64_t tenure_ = 1;
  std::optional<LeaseStep> step_;  ///< whose outcome is not known yet
  Instant sent_;                   ///< that one
  std::optional<Instant> until_, renewed_;
  bool look_due_ = false;
  std::vector<SeenBeat> to_remove_;
  std::map<std::string, Watched> others_;
};

}  // namespace harpe::training
