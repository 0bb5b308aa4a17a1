#pragma once
/// \file
/// A request for a job, and responses that several routes share. Include it only in `.cc` files.

#include <string>
#include <string_view>
#include <utility>

#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/api.h"

namespace harpe::training {

/// One request for one job.
struct JobRequest {
  ServerContext& context;
  net::HttpRequest& request;
  const net::Reply& reply;
  JobPtr job;
  std::string rest;         ///< the path after the job: "/ranks"
  bool may_decide = false;  ///< the client may take over the job: see `RankRegistration::take_over`
};

inline net::HttpResponse not_found(const std::string& what) {
  return net::native_error(404, "not_found", what);
}

inline net::HttpResponse no_such_job(const std::string& id) {
  return not_found("there is no job " + id +
                   ": no rank has registered it yet, or its name is another one");
}

inline net::HttpResponse json_text_response(int status, std::string text) {
  return {.status = status, .content_type = "application/json", .body = std::move(text)};
}

/// Returns the response for an error of the job: 422 if a well-formed request does not fit the job.
inline net::HttpResponse job_error(const Error& error) {
  if (error.code != ErrorCode::kInvalidInput) return net::native_error(error);
  return net::native_error(422, name_of(error.code), error.text());
}

// Routes of carbon control: the sources of this server, and the terms of a job.

inline constexpr std::string_view kCarbonSourcesPath = "/v1/carbon";
/// The path after the job.
inline constexpr std::string_view kCarbonOfJob = "/carbon";

void give_carbon_sources(const ServerContext& context, const net::Reply& reply);
/// Handles GET, PUT and DELETE of a job's terms.
void handle_job_carbon(const JobRequest& asked);
/// Returns the member "carbon" of a job's status, in JSON; "null" without terms.
std::string carbon_text(const CarbonPacer* pacer, const HostedJob& job);

}  // namespace harpe::training
