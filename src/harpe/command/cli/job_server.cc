#include "harpe/command/cli/job_server.h"

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/response_error.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/options.h"
#include "harpe/net/http_client/percent_encoded.h"
#include "harpe/net/http_client/token_file.h"
#include "harpe/training/client/event_reader.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::command {
namespace {

constexpr Seconds kTimeout{30};
constexpr Seconds kStep{0.2};

std::string given_or_variable(const std::string& given, const char* variable) {
  if (!given.empty()) return given;
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : value;
}

Error refusal(const net::HttpResult& response) {
  Error error = response_error(response.status, response.body, "the server");
  if (response.status == 401 && !error.diagnostics.empty()) {
    error.diagnostics.front().message += " (give a token: --token-file FILE, or HARPE_TOKEN)";
  }
  return error;
}

}  // namespace

void add_server_options(CLI::App& app, ServerArguments& arguments) {
  add_text(app, "--server", "URL",
           std::string("Server (default: HARPE_SERVER, then ") + kDefaultServer + ")",
           arguments.url);
  add_text(app, "--token-file", "FILE",
           "File with the token (default: the token in HARPE_TOKEN, then HARPE_TOKEN_FILE)",
           arguments.token_file);
  add_text(app, "--ca-file", "FILE",
           "Certificates to trust instead of the system's (default: HARPE_CA_FILE)",
           arguments.ca_file);
}

void add_job_argument(CLI::App& app, std::string& job) {
  add_argument(app, "JOB", "Id of the job", job);
}

Result<std::string> job_path(const std::string& id) {
  if (is_job_id(id)) return "/v1/jobs/" + id;
  return Error::invalid("expected a job's id of letters, digits and . _ - +, got " + in_quotes(id));
}

Result<JobServer> JobServer::open(const ServerArguments& arguments) {
  net::HttpLinkOptions options;
  options.server = given_or_variable(arguments.url, "HARPE_SERVER");
  if (options.server.empty()) options.server = kDefaultServer;
  options.ca_file = given_or_variable(arguments.ca_file, "HARPE_CA_FILE");
  options.timeout = kTimeout;
  options.trusted_network = given_or_variable({}, "HARPE_INSECURE") == "1";
  if (arguments.token_file.empty()) options.token = given_or_variable({}, "HARPE_TOKEN");
  if (options.token.empty()) {
    // Read from the file, so that a long watch uses a token renewed in the meantime.
    options.token_file = given_or_variable(arguments.token_file, "HARPE_TOKEN_FILE");
    HARPE_TRY(net::TokenFile({}, options.token_file).read());
  }
  std::string url = options.server;
  std::unique_ptr<net::HttpLink> link = HARPE_TRY(net::HttpLink::open(std::move(options)));
  return JobServer(std::move(link), std::move(url));
}

Result<std::string> JobServer::ask_text(const std::string& method, const std::string& path,
                                        std::string body) {
  std::optional<net::HttpResult> response;
  link_->send(method, path, std::move(body),
              [&](net::HttpResult got) { response = std::move(got); });
  while (!response) link_->step(kStep);
  if (response->status == 0) return silent(response->failure);
  if (response->status >= 400) return refusal(*response);
  return std::move(response->body);
}

Error JobServer::silent(const std::string& why) const {
  const bool is_untrusted = why.find("certificate") != std::string::npos;
  return Error::of(ErrorCode::kUnavailable,
                   "the server at " + url_ + " does not respond: " + why +
                       (is_untrusted ? " (--ca-file or HARPE_CA_FILE names certificates to trust)"
                                     : " (is `harpe serve` running there? --server URL selects "
                                       "another server; with TLS, the URL begins with https://)"));
}

Status JobServer::follow(
    const std::string& path,
    const std::function<bool(std::string_view event, std::string_view data)>& on,
    const std::function<bool()>& stop) {
  training::EventReader reader;
  bool going = true;
  std::optional<net::HttpResult> end;
  Status read = ok_status();
  bool begun = false;
  link_->listen(
      path,
      [&](std::string_view bytes) {
        begun = true;
        Status added = reader.add(bytes, [&](const training::EventReader::Event& event) {
          going = going && on(event.name, event.data);
        });
        if (!added.ok()) read = std::move(added);
      },
      [&](net::HttpResult response) { end = std::move(response); });
  while (going && read.ok() && !end && !stop()) link_->step(kStep);
  link_->stop_listening();
  if (!read.ok()) return read;
  if (!going || !end) return ok_status();
  if (end->status >= 400) return refusal(*end);
  if (!begun) return silent(end->failure);
  return Error::of(ErrorCode::kUnavailable,
                   "the connection to the server at " + url_ + " has ended");
}

Result<Json> ask_for_pages(JobServer& server, const std::string& path) {
  Json all = Json::object({{"jobs", Json::array()}});
  for (std::string after;;) {
    const std::string response =
        HARPE_TRY(server.ask_text("GET", path + (after.empty() ? "" : "&after=" + after)));
    const Json page = json_or_discarded(response);
    if (!page.is_object() || !page.contains("jobs") || !page["jobs"].is_array()) return all;
    for (const Json& job : page["jobs"]) all["jobs"].push_back(job);
    if (page.contains("unreachable")) all["unreachable"] = page["unreachable"];
    const auto next = page.find("next");
    if (next == page.end() || !next->is_string()) return all;
    std::string encoded = net::percent_encoded(next->get<std::string>());
    if (encoded == after) return all;
    after = std::move(encoded);
  }
}

Error with_near_job(Error error, JobServer& server, const std::string& job) {
  const bool is_unknown = error.code == ErrorCode::kNotFound && !error.diagnostics.empty() &&
                          error.diagnostics.front().message.starts_with("there is no job " + job);
  if (!is_unknown) return error;
  const Result<Json> all = ask_for_pages(server, "/v1/jobs?activity=active,idle,ended");
  if (!all.ok()) return error;
  std::vector<std::string> names;
  for (const Json& one : (*all)["jobs"]) names.push_back(text_in(one, "id"));
  std::string& message = error.diagnostics.front().message;
  if (const std::optional<std::string> near = nearest(job, names)) {
    message += " (did you mean '" + *near + "'?)";
  } else if (!names.empty()) {
    message += " (harpe job list --all lists the jobs of the server)";
  }
  return error;
}

Result<std::string> ask_of_job(JobServer& server, const std::string& job, const std::string& method,
                               const std::string& below, std::string body) {
  const std::string path = HARPE_TRY(job_path(job));
  Result<std::string> response = server.ask_text(method, path + below, std::move(body));
  if (response.ok()) return response;
  return with_near_job(std::move(response).error(), server, job);
}

}  // namespace harpe::command
