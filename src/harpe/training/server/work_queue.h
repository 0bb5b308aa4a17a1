#pragma once
/// \file
/// What `Workers` have to do, and in which order.
///
/// Work of one owner is done in the order in which it came, one piece at a time; owners take turns.
/// Not thread-safe. O(owners) to take a small piece past large ones, else O(log owners).

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "harpe/training/server/workers.h"

namespace harpe::training {

class WorkQueue {
 public:
  struct Piece {
    std::string owner;
    std::function<void()> work;
  };

  void add(const std::string& owner, std::function<void()> work, Workers::Size size) {
    Owner& one = owners_[owner];
    one.waiting.push_back({std::move(work), size});
    if (one.waiting.size() == 1 && !one.is_busy) turns_.push_back(owner);
  }
  /// Whether there is a piece to take; \param only_small  that is small
  bool has(bool only_small) const { return next(only_small) != turns_.end(); }
  /// A piece, which there is. Its owner has no turn until it is `done`.
  Piece take(bool only_small) {
    const auto turn = next(only_small);
    Piece piece{.owner = *turn, .work = {}};
    turns_.erase(turn);
    Owner& owner = owners_.at(piece.owner);
    piece.work = std::move(owner.waiting.front().work);
    owner.waiting.pop_front();
    owner.is_busy = true;
    return piece;
  }
  void done(const std::string& owner) {
    const auto at = owners_.find(owner);
    at->second.is_busy = false;
    if (at->second.waiting.empty()) {
      owners_.erase(at);
    } else {
      turns_.push_back(owner);
    }
  }
  /// Forgets what nothing has taken.
  void clear() {
    turns_.clear();
    std::erase_if(owners_, [](const auto& owner) { return !owner.second.is_busy; });
    for (auto& [name, owner] : owners_) owner.waiting.clear();
  }

  /// Whether nothing waits and nothing is being done.
  bool empty() const { return owners_.empty(); }
  /// Pieces of one owner that wait.
  std::size_t waiting(const std::string& owner) const {
    const auto at = owners_.find(owner);
    return at == owners_.end() ? 0 : at->second.waiting.size();
  }

 private:
  struct Waiting {
    std::function<void()> work;
    Workers::Size size;
  };
  struct Owner {
    std::deque<Waiting> waiting;
    bool is_busy = false;  ///< one of its pieces is being done
  };

  std::deque<std::string>::const_iterator next(bool only_small) const {
    if (!only_small) return turns_.begin();
    return std::ranges::find_if(turns_, [this](const std::string& owner) {
      return owners_.at(owner).waiting.front().size == Workers::Size::kSmall;
    });
  }

  std::map<std::string, Owner> owners_;  ///< with something to do, or busy
  std::deque<std::string> turns_;        ///< with something to do and not busy
};

}  // namespace harpe::training
