#pragma once
/// \file
/// A server of training jobs that a benchmark starts, monitors and stops.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::bench {

/// Resources that a process has used since its start.
struct ProcessUse {
  Seconds cpu{};
  double memory_mib = 0;       ///< resident now
  double most_memory_mib = 0;  ///< resident at its peak
};
ProcessUse use_of(pid_t process);

/// Allows this process and its children `count` file descriptors. The error explains how to raise
/// the limit.
Status allow_descriptors(std::size_t count);

class LoadServer {
 public:
  /// Starts `arguments` and waits until the server prints its address ("listening on
  /// ADDRESS:PORT").
  /// \param nice  of its session and process, as set by the service manager for a service
  static Result<LoadServer> start(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log, int nice);
  LoadServer(LoadServer&& other) noexcept;
  LoadServer& operator=(LoadServer&&) = delete;
  /// Sends SIGTERM, and SIGKILL if the process does not end.
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
