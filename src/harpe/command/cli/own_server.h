#pragma once
/// \file
/// A server, and where none is there an agent, that one command has to itself while it runs: with
/// sockets and a token of their own, and nothing left of them afterwards.

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

struct OwnServerOptions {
  /// Where ranks reach it; empty: a free port of this machine's loopback. Elsewhere the network has
  /// to be trusted, as there is no TLS, and agents are there already.
  std::string tcp;
  ProfilingOptions profiling;  ///< with `as_is` no agent is started or asked for
};

/// The server measures profiles and makes no plans. Not thread-safe.
class OwnServer {
 public:
  /// Before there are threads. `kUnavailable`: one of the processes cannot run, or there is no
  /// agent and this user could not set clocks by one either.
  static Result<std::unique_ptr<OwnServer>> start(const OwnServerOptions& options);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  /// Sets the variables that tell this process's clients, and the programs that it starts, where
  /// both are. Call it before there are threads.
  void set_environment();
  const std::string& url() const { return url_; }
  /// Fails where one of both has ended, with what it said last.
  Status check();

 private:
  explicit OwnServer(TemporaryFolder folder) : folder_(std::move(folder)) {}
  Status start_server(const OwnServerOptions& options);
  Status start_agent();

  TemporaryFolder folder_;
  std::string url_, token_;
  bool beyond_this_machine_ = false;    ///< it listens there
  bool sets_clocks_ = true;             ///< ranks may ask an agent for clocks
  std::filesystem::path clock_socket_;  ///< of its own agent; empty: there is another
  std::optional<HelperProcess> server_, agent_;
};

}  // namespace harpe::command
