#pragma once
/// \file
/// The training server, as commands ask it.

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

/// Where the server is and who asks.
struct ServerArguments {
  std::string url;         ///< empty: HARPE_SERVER, then the default
  std::string token_file;  ///< empty: HARPE_TOKEN holds the token itself
  std::string ca_file;     ///< empty: HARPE_CA_FILE
};

inline constexpr const char* kDefaultServer = "http://127.0.0.1:7787";

/// --server, --token-file, --ca-file.
void add_server_options(CLI::App& app, ServerArguments& arguments);

/// The argument JOB.
void add_job_argument(CLI::App& app, std::string& job);

/// "/v1/jobs/ID"; `kInvalidInput` where no job may be called so.
Result<std::string> job_path(const std::string& id);

/// `harpe job watch`.
void add_job_watch_command(Commands& commands, CLI::App& job);
/// `harpe job wait`.
void add_job_wait_command(Commands& commands, CLI::App& job);
/// `harpe job plan`.
void add_job_plan_command(Commands& commands, CLI::App& job);

/// `harpe job carbon`.
void add_job_carbon_command(Commands& commands, CLI::App& job);

/// One conversation with the server. Errors of the server keep their message; a server that does
/// not respond is `kUnavailable`. Not thread-safe.
class JobServer {
 public:
  static Result<JobServer> open(const ServerArguments& arguments);

  /// Sends a request. Returns the body of the response.
  Result<std::string> ask_text(const std::string& method, const std::string& path,
                               std::string body = {});

  /// Hands over each event ("assignments", "log", ...) with its data until `on` returns false or
  /// `stop` says so. `kUnavailable` where the stream ends otherwise.
  Status follow(const std::string& path,
                const std::function<bool(std::string_view event, std::string_view data)>& on,
                const std::function<bool()>& stop);

 private:
  explicit JobServer(std::unique_ptr<net::HttpLink> link, std::string url)
      : link_(std::move(link)), url_(std::move(url)) {}
  /// What to say where nothing responded.
  Error silent(const std::string& why) const;

  std::unique_ptr<net::HttpLink> link_;
  std::string url_;
};

/// Returns all pages of a list as one.
/// \param path  with a query: "/v1/jobs?activity=active"
Result<Json> ask_for_pages(JobServer& server, const std::string& path);

/// An error as it is; one by which the server knows no such job, with which one may be meant.
Error with_near_job(Error error, JobServer& server, const std::string& job);

/// `JobServer::ask_text` below a job's path, with such errors.
Result<std::string> ask_of_job(JobServer& server, const std::string& job, const std::string& method,
                               const std::string& below, std::string body = {});

}  // namespace harpe::command
