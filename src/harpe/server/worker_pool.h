#pragma once
/// \file
/// `Workers` that are threads.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harpe/server/workers.h"

namespace harpe {

class WorkerPool final : public Workers {
 public:
  static std::unique_ptr<Workers> make(const Options& options);
  explicit WorkerPool(const Options& options);
  ~WorkerPool() override;

  void run(const std::string& owner, std::function<void()> work, Size size) override;
  void finish() override;
  std::size_t waiting(const std::string& owner) const override;

 private:
  struct Piece {
    std::function<void()> work;
    Size size;
  };
  struct Owner {
    std::deque<Piece> pieces;
    bool busy = false;  ///< one of its pieces is being done
  };
  using Owners = std::map<std::string, Owner>;

  void serve(bool only_small);
  /// The owner whose turn it is, of those with a piece that this thread may take; `turns_.end()`:
  /// none has.
  std::deque<Owners::iterator>::iterator next(bool only_small);

  const int nice_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Owners owners_;                       ///< with something to do, or busy
  std::deque<Owners::iterator> turns_;  ///< with something to do and not busy
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace harpe
