#pragma once
/// \file
/// Threads that work for many, by turns: nothing that one of them asks for makes another wait for
/// longer than one piece of work takes, and large pieces leave a thread to small ones.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace harpe::training {

/// Thread-safe.
class Workers {
 public:
  struct Options {
    int threads = 1;  ///< at least 1
    /// Of those, how many take small pieces alone; fewer than `threads`.
    int for_small = 0;
    /// How far others of this machine go first: `nice`.
    int nice = 0;
  };
  enum class Size : unsigned char { kSmall, kLarge };

  /// Forgets what has not begun and waits for what has.
  virtual ~Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Work of one owner (a job's id, say) is done in the order in which it came, one piece at a
  /// time; owners take turns.
  virtual void run(const std::string& owner, std::function<void()> work,
                   Size size = Size::kSmall) = 0;
  /// Waits until all that was given has been done, and takes no more.
  virtual void finish() = 0;
  /// Pieces of one owner that have not begun.
  virtual std::size_t waiting(const std::string& owner) const = 0;

 protected:
  Workers() = default;
};

using MakeWorkers = std::function<std::unique_ptr<Workers>(const Workers::Options&)>;

}  // namespace harpe::training
