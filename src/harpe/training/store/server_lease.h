#pragma once
/// \file
/// Leases of servers, without a common clock: they decide when a server may command jobs and when
/// another may take them over.
///
/// Each server of a database has one row there, with a beat that it raises every `beat` seconds.
/// The server holds its lease until `lease - margin` after it began to send the last acknowledged
/// renewal, by its own clock. Another server may remove the row once it has seen the same beat for
/// `lease + margin` by its own clock; its statement removes the row only at this beat. A removed
/// row never returns: a renewal that does not find the row ends the lease at once, and the server
/// joins again under another identity.
///
/// Why no two servers command one job: the last acknowledged beat of a holder was sent before
/// another server saw it for the first time. From there the holder counts to `lease - margin` and
/// the other server to `lease + margin`, so the holder stops first if the rates of their clocks
/// agree to within margin / lease: 10 %. A renewal that is written in spite of its lost response
/// changes the beat, and the removal then removes nothing. Clocks must continue while a process or
/// its machine sleeps (CLOCK_BOOTTIME). They do not in a virtual machine that is paused from
/// outside, so ranks refuse commands of an older epoch.
///
/// Pure: no clock, no database. It returns the statement to send and receives the result. Not
/// thread-safe. O(servers) per look.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe::training {

/// The times of leases; equal on all servers of a database.
struct LeaseTimes {
  Seconds lease{10};
  Seconds beat{2};    ///< from one renewal to the next
  Seconds margin{1};  ///< for differences between clock rates
};

/// One server's view of another server's row.
struct SeenBeat {
  std::string server;  ///< its name
  std::int64_t beat = 0;
  bool gone = false;  ///< its process has provably ended
};

/// A statement to send to the database; at most one is in progress.
struct LeaseStep {
  enum class Kind : unsigned char {
    kJoin,    ///< write a row for `server`
    kRenew,   ///< raise the beat of `server`, if it has a row
    kLook,    ///< read the rows of all servers except `server`
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

  /// Returns the next statement to send at `now`; then report its result below. Returns nullopt if
  /// there is nothing to send before `wake`.
  std::optional<LeaseStep> next(Instant now);
  Instant wake(Instant now) const {
    return renewed_ ? std::max(now, *renewed_ + times_.beat) : now;
  }

  // Results of the last statement.

  /// \param found  true if the row of the statement existed
  void written(bool found);
  /// \param all  rows that were read \param received  time of the response
  void looked(const std::vector<SeenBeat>& all, Instant received);
  /// Records that the result is unknown because the connection was lost.
  void failed() { step_.reset(); }

  bool held(Instant now) const { return until_ && now < *until_; }
  /// Returns the end of the lease unless it is renewed; nullopt if there is no lease.
  std::optional<Instant> held_until() const { return until_; }
  /// Returns the name of this server; empty after losing its lease, until it joins again.
  const std::string& server() const { return server_; }
  /// Rises when all earlier claims are lost for good. Starts at 1.
  std::uint64_t tenure() const { return tenure_; }

  /// Returns true if a row may be removed at this beat, by a statement sent at `now` or later.
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
  std::optional<LeaseStep> step_;  ///< the statement without a result yet
  Instant sent_;                   ///< when it was sent
  std::optional<Instant> until_, renewed_;
  bool look_due_ = false;
  std::vector<SeenBeat> to_remove_;
  std::map<std::string, Watched> others_;
};

}  // namespace harpe::training
