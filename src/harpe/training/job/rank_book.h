#pragma once
/// \file
/// The holders of a job's places in one start of training. Not thread-safe.

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// The process that holds the place of a rank.
struct RankHolder {
  std::string session;
  std::string gpu;
  Watts power_limit{};  ///< of the GPU; 0: not stated
  Seconds heard{};
  bool ended = false;       ///< true if it has reported that its training is over
  bool asks_ahead = false;  ///< see `RankRegistration`
  bool registered() const { return !session.empty(); }
};

/// The holders of the places of a job, by rank.
///
/// A request of 64 bytes can declare 262,144 ranks. So places take memory only when a rank
/// registers: `kOfPart` places together, which are also stored together.
class RankHolders {
 public:
  /// Places of a part. Part i has the places of ranks from `kOfPart` * i on.
  static constexpr std::size_t kOfPart = 256;

  explicit RankHolders(std::size_t size) : size_(size), parts_((size + kOfPart - 1) / kOfPart) {}

  std::size_t size() const { return size_; }
  std::size_t parts() const { return parts_.size(); }
  /// Returns the number of places that take memory.
  std::size_t places() const { return places_; }
  /// Returns true if the places of the part take memory.
  bool has_part(std::size_t part) const { return !parts_[part].empty(); }

  /// Returns the holder of the place, or an unregistered one if the part takes no memory.
  const RankHolder& operator[](std::size_t rank) const {
    const std::vector<RankHolder>& part = parts_[rank / kOfPart];
    return part.empty() ? none_ : part[rank % kOfPart];
  }
  /// Returns the place to be changed. Its part takes memory from now on.
  RankHolder& place(std::size_t rank) {
    const std::size_t part = rank / kOfPart;
    if (parts_[part].empty()) {
      parts_[part].resize(size_of_part(part));
      places_ += parts_[part].size();
    }
    return parts_[part][rank % kOfPart];
  }

  std::size_t size_of_part(std::size_t part) const {
    return part + 1 < parts_.size() ? kOfPart : size_ - part * kOfPart;
  }

  /// Returns the number of registered ranks that `is` holds for. O(places that take memory).
  template <class Predicate>
  std::size_t count(Predicate is) const {
    std::size_t found = 0;
    for (const std::vector<RankHolder>& part : parts_)
      for (const RankHolder& holder : part) found += holder.registered() && is(holder) ? 1 : 0;
    return found;
  }
  /// Returns true if `is` holds for a registered rank.
  template <class Predicate>
  bool any(Predicate is) const {
    for (const std::vector<RankHolder>& part : parts_)
      for (const RankHolder& holder : part)
        if (holder.registered() && is(holder)) return true;
    return false;
  }

 private:
  std::size_t size_;
  std::vector<std::vector<RankHolder>> parts_;  ///< a part is empty if none of its ranks registered
  std::size_t places_ = 0;
  RankHolder none_;
};

class RankBook {
 public:
  /// \param silence      time without a request after which another process can take the place
  /// \param sets_clocks  if false, ranks may have no clocks, or none in common
  RankBook(JobShape shape, Seconds silence, bool sets_clocks = true);

  struct Entered {
    int rank = 0;
    bool changed = false;       ///< false for a retry
    bool fewer_clocks = false;  ///< true if the ranks of its stage have fewer common clocks now
  };
  /// Gives the place to the rank. The first rank determines the run. Fails with diagnostics if the
  /// job has no such place, or if no clock would be common to all ranks of the stage; with
  /// `kConflict` if another process holds the place.
  Result<Entered> enter(const RankRegistration& registration, Seconds now);

  /// Notes that the rank was heard. Fails unless this session holds the place.
  Status hear(RankCoordinates coordinates, const std::string& session, Seconds now);
  /// Notes that the training of the rank has ended in order, which frees the place. Repeating it is
  /// harmless. Fails unless this session holds the place.
  Status end(RankCoordinates coordinates, const std::string& session);

  const JobShape& shape() const { return shape_; }
  int registered() const { return registered_; }
  bool complete() const { return registered_ == shape_.ranks(); }
  /// Returns the estimated bytes of registered ranks: see `memory_of_ranks`. O(1).
  std::size_t memory() const;
  /// Returns the bytes that this registration may add. O(1).
  std::size_t memory_to_enter(const RankRegistration& registration) const;
  bool is_majority() const { return 2 * registered_ > shape_.ranks(); }
  /// Returns true if all ranks that registered have ended in order.
  bool all_ended() const { return registered_ > 0 && ended_ == registered_; }
  /// Returns places without a rank, at most `most`.
  std::vector<RankCoordinates> missing(std::size_t most) const;
  /// Returns places whose rank has neither ended nor been heard since `since`, at most `most`.
  std::vector<RankCoordinates> silent(Seconds since, std::size_t most) const;
  /// Returns the number of ranks that have neither ended nor been heard since `since`.
  int unheard(Seconds since) const;
  /// Returns true if every rank has ended or was not heard since `since`. O(1) while they train.
  bool all_silent(Seconds since) const;
  /// Returns true if any rank that ever registered has a simulated GPU.
  bool has_simulated() const { return has_simulated_; }
  /// Returns true if all registered ranks request clocks ahead. O(ranks).
  bool asks_ahead() const {
    return !holders_.any([](const Holder& one) { return !one.asks_ahead; });
  }
  /// Returns the clocks that all ranks of the stage have, highest first. Empty before the first
  /// rank registers, and if no clocks are set and the ranks have none in common.
  const std::vector<Megahertz>& clocks(int stage) const { return clocks_[stage]; }

  using Holder = RankHolder;
  const Holder& holder(RankCoordinates coordinates) const {
    return holders_[shape_.index(coordinates)];
  }
  /// Returns true if `session` can take the place now: if it holds the place, the holder has ended
  /// or was silent for too long, or there is no holder.
  bool is_free(RankCoordinates coordinates, const std::string& session, Seconds now) const;
  const std::string& run() const { return run_; }
  /// Counts the silence of all ranks from `now`, because they could not be heard before.
  void count_silence_from(Seconds now) { listening_since_ = now; }

  /// Returns the number of parts in which holders are stored: see `RankHolders::kOfPart`.
  std::size_t parts() const { return holders_.parts(); }
  const RankHolders& holders() const { return holders_; }
  /// Returns the parts that have changed since the last call.
  std::set<std::size_t> take_changed_parts() { return std::exchange(changed_parts_, {}); }
  /// Marks all parts as changed, because those in the store are of other ranks.
  void all_parts_changed();

  /// Restores the content of a snapshot.
  void restore(std::string run, RankHolders holders, std::vector<std::vector<Megahertz>> clocks,
               bool has_simulated);

 private:
  JobShape shape_;
  Seconds silence_;
  bool sets_clocks_;
  Seconds listening_since_ = Seconds{-std::numeric_limits<double>::infinity()};
  std::string run_;
  RankHolders holders_;
  std::vector<std::vector<Megahertz>> clocks_;
  std::size_t clock_count_ = 0;  ///< of all stages
  int registered_ = 0, ended_ = 0;
  bool has_simulated_ = false;
  std::set<std::size_t> changed_parts_;
};

/// Returns a text such as "pipeline 0, stage 1, tensor shard 2".
std::string text(RankCoordinates coordinates);

}  // namespace harpe::training
