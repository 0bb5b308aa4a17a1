#pragma once
/// \file
/// A process of a command's own beside the one that it runs, such as a server for it alone.

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// Ends with this process, however that ends, and by SIGTERM when it is destroyed. It is in a
/// process group of its own, so that Ctrl-C of a terminal does not reach it; what it prints is in
/// its log. Not thread-safe.
class HelperProcess {
 public:
  /// Forks: call it before there are threads.
  /// \param log   a new file for both of its streams
  /// \param body  what the process does; returns its exit status
  static Result<HelperProcess> start(std::filesystem::path log, const std::function<int()>& body);
  HelperProcess(HelperProcess&& other) noexcept
      : id_(std::exchange(other.id_, -1)), log_(std::move(other.log_)) {}
  HelperProcess& operator=(HelperProcess&&) = delete;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  /// Kills it where it does not end within some seconds.
  ~HelperProcess();

  bool runs();
  /// The end of its log, for an error that says why it does not run.
  std::string last_lines() const;

 private:
  HelperProcess(pid_t id, std::filesystem::path log) : id_(id), log_(std::move(log)) {}

  pid_t id_;  ///< -1: has ended
  std::filesystem::path log_;
};

/// Asks `holds` every 10 ms, for this long at most; whether it held.
bool holds_within(Seconds longest, const std::function<bool()>& holds);

}  // namespace harpe
