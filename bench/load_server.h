#pragma once
/// \file
/// A server of training jobs that a measurement starts, watches and ends.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::bench {

/// What a process has used since it began.
struct ProcessUse {
  Seconds cpu{};
  double memory_mib = 0;       ///< resident now
  double most_memory_mib = 0;  ///< resident at its peak
};
ProcessUse use_of(pid_t process);

/// Allows this process and its children so many file descriptors; the error says how to get more.
Status allow_descriptors(std::size_t count);

class LoadServer {
 public:
  /// Starts `arguments` and waits until it says where it listens ("listening on ADDRESS:PORT").
  /// \param nice  of its session and process: what the service manager gives a service
  static Result<LoadServer> start(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log, int nice);
  LoadServer(LoadServer&& other) noexcept;
  LoadServer& operator=(LoadServer&&) = delete;
  /// SIGTERM, and SIGKILL where that does not end it.
  ~LoadServer();

  const std::string& address() const { return address_; }
  int port() const { return port_; }
  pid_t process() const { return process_; }

 private:
  LoadServer() = default;
  pid_t process_ = -1;
  std::string address_;
  int port_ = 0;
};

}  // namespace harpe::bench
