#pragma once
/// \file
/// A server, and an agent if none is running, for one command alone while it runs: with their own
/// sockets and token, which are removed afterwards.

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/temporary_folder.h"
#include "harpe/base/units.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::command {

/// A child process that ends with this process, however that ends, and by SIGTERM when this object
/// is destroyed. It is in its own process group, so that Ctrl-C of a terminal does not reach it.
/// Its output goes to its log. Not thread-safe.
class HelperProcess {
 public:
  /// Forks, so it must be called before there are threads.
  /// \param log   a new file for both of its output streams
  /// \param body  runs in the process; returns its exit status
  static Result<HelperProcess> start(std::filesystem::path log, const std::function<int()>& body);
  HelperProcess(HelperProcess&& other) noexcept
      : id_(std::exchange(other.id_, -1)), log_(std::move(other.log_)) {}
  HelperProcess& operator=(HelperProcess&&) = delete;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  /// Kills the process if it does not end within some seconds.
  ~HelperProcess();

  bool runs();
  /// Returns the end of its log, for an error that explains why it does not run.
  std::string last_lines() const;

 private:
  HelperProcess(pid_t id, std::filesystem::path log) : id_(id), log_(std::move(log)) {}

  pid_t id_;  ///< -1: the process has ended
  std::filesystem::path log_;
};

/// Calls `holds` every 10 ms until it returns true, for at most `longest`. Returns true if it did.
bool holds_within(Seconds longest, const std::function<bool()>& holds);

struct OwnServerOptions {
  /// Address for ranks; empty: a free port on this machine's loopback. For another address the
  /// network must be trusted, because there is no TLS, and agents must already be running.
  std::string tcp;
  ProfilingOptions profiling;  ///< with `as_is` no agent is started or used
};

/// A server that measures profiles and makes no plans. Not thread-safe.
class OwnServer {
 public:
  /// Starts the processes. Must be called before there are threads. Fails with `kUnavailable` if
  /// one of the processes cannot run, or if there is no agent and this user cannot set clocks.
  static Result<std::unique_ptr<OwnServer>> start(const OwnServerOptions& options);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  /// Sets the environment variables with the addresses of both, for clients in this process and in
  /// its child processes. Must be called before there are threads.
  void set_environment();
  const std::string& url() const { return url_; }
  /// Fails if one of the two has ended, with the end of its log.
  Status check();

 private:
  explicit OwnServer(TemporaryFolder folder) : folder_(std::move(folder)) {}
  Status start_server(const OwnServerOptions& options);
  Status start_agent();

  TemporaryFolder folder_;
  std::string url_, token_;
  bool beyond_this_machine_ = false;    ///< it listens on an address that is not loopback
  bool sets_clocks_ = true;             ///< ranks may request clocks from an agent
  std::filesystem::path clock_socket_;  ///< of its own agent; empty: it has none
  std::optional<HelperProcess> server_, agent_;
};

}  // namespace harpe::command
