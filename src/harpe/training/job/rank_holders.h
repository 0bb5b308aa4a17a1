#pragma once
/// \file
/// The processes that hold the places of a job, by rank. Not thread-safe.
///
/// A request of 64 bytes can declare 262,144 ranks. So places take memory only when a rank
/// registers: `kOfPart` places together, which are also stored together.

#include <cstddef>
#include <string>
#include <vector>

#include "harpe/base/units.h"

namespace harpe {

/// The process that holds the place of a rank.
struct RankHolder {
  std::string session;
  std::string gpu;
  Watts power_limit{};  ///< of the GPU; 0: not stated
  Seconds heard{};
  bool ended = false;       ///< it has said that its training is over
  bool asks_ahead = false;  ///< see `RankRegistration`
  bool registered() const { return !session.empty(); }
};

class RankHolders {
 public:
  /// Places of a part. Part i has the places of ranks from `kOfPart` * i on.
  static constexpr std::size_t kOfPart = 256;

  explicit RankHolders(std::size_t size) : size_(size), parts_((size + kOfPart - 1) / kOfPart) {}

  std::size_t size() const { return size_; }
  std::size_t parts() const { return parts_.size(); }
  /// Number of places that take memory.
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
  std::vector<std::vector<RankHolder>> parts_;  ///< empty: none of its ranks has registered
  std::size_t places_ = 0;
  RankHolder none_;
};

}  // namespace harpe
