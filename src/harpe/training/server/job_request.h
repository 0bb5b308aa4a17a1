#pragma once
/// \file
/// One request for one job, and the responses that several routes have. Only for `.cc` files.

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
  std::string rest;         ///< of the path, after the job: "/ranks"
  bool may_decide = false;  ///< the client may take the job over: see `RankRegistration::take_over`
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

/// What the job makes of a request whose form is right: what does not fit it is 422.
inline net::HttpResponse job_error(const Error& error) {
  if (error.code != ErrorCode::kInvalidInput) return net::native_error(error);
  return net::native_error(422, name_of(error.code), error.text());
}

// Routes of carbon control: what this server offers, and by which terms a job moves.

inline constexpr std::string_view kCarbonSourcesPath = "/v1/carbon";
/// Of a path, after the job.
inline constexpr std::string_view kCarbonOfJob = "/carbon";

void give_carbon_sources(const ServerContext& context, const net::Reply& reply);
/// GET, PUT and DELETE of a job's terms.
void handle_job_carbon(const JobRequest& asked);
/// The member "carbon" of a job's status, in JSON; "null" where it has no terms.
std::string carbon_text(const CarbonPacer* pacer, const HostedJob& job);

}  // namespace harpe::training
