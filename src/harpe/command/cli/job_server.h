#pragma once
/// \file
/// Client of the training server, for commands.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "harpe/base/json.h"
#include "harpe/base/result.h"
#include "harpe/command/command/json_output.h"
#include "harpe/net/http_client/http_link.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe::command {

class Commands;

/// Address of the server, and the credentials of the command.
struct ServerArguments {
  std::string url;  ///< empty: HARPE_SERVER, then the default
  /// Empty: the token in HARPE_TOKEN, otherwise the file in HARPE_TOKEN_FILE.
  std::string token_file;
  std::string ca_file;  ///< empty: HARPE_CA_FILE, if it is set
};

inline constexpr const char* kDefaultServer = "http://127.0.0.1:7787";

/// Adds --server, --token-file and --ca-file.
void add_server_options(CLI::App& app, ServerArguments& arguments);

/// Adds the argument JOB.
void add_job_argument(CLI::App& app, std::string& job);

/// Returns "/v1/jobs/ID". Fails with `kInvalidInput` if no job can have that id.
Result<std::string> job_path(const std::string& id);

/// Adds `harpe job watch`.
void add_job_watch_command(Commands& commands, CLI::App& job);
/// Adds `harpe job wait`.
void add_job_wait_command(Commands& commands, CLI::App& job);
/// Adds `harpe job plan`.
void add_job_plan_command(Commands& commands, CLI::App& job);

/// Adds `harpe job carbon`.
void add_job_carbon_command(Commands& commands, CLI::App& job);

/// A connection to the server. Errors of the server keep their message; if it does not respond,
/// requests fail with `kUnavailable`. Not thread-safe.
class JobServer {
 public:
  static Result<JobServer> open(const ServerArguments& arguments);

  /// Sends a request. Returns the body of the response.
  Result<std::string> ask_text(const std::string& method, const std::string& path,
                               std::string body = {});

  /// Passes each event ("assignments", "log", ...) with its data to `on` until `on` returns false
  /// or `stop` returns true. Fails with `kUnavailable` if the stream ends before.
  Status follow(const std::string& path,
                const std::function<bool(std::string_view event, std::string_view data)>& on,
                const std::function<bool()>& stop);

 private:
  explicit JobServer(std::unique_ptr<net::HttpLink> link, std::string url)
      : link_(std::move(link)), url_(std::move(url)) {}
  /// Returns the error of a request without a response.
  Error silent(const std::string& why) const;

  std::unique_ptr<net::HttpLink> link_;
  std::string url_;
};

/// Returns all pages of a list as one.
/// \param path  with a query: "/v1/jobs?activity=active"
Result<Json> ask_for_pages(JobServer& server, const std::string& path);

/// Returns the error; if the server does not know the job, with the name of a similar job.
Error with_near_job(Error error, JobServer& server, const std::string& job);

/// Calls `JobServer::ask_text` with a path below the job's path. Fails with the errors of
/// `with_near_job`.
Result<std::string> ask_of_job(JobServer& server, const std::string& job, const std::string& method,
                               const std::string& below, std::string body = {});

}  // namespace harpe::command
