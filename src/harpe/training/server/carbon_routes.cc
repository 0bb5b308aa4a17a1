#include <utility>

#include "harpe/training/server/job_request.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::training {
namespace {

void respond_when_stored(const JobRequest& asked) {
  asked.context.registry.when_stored(asked.job,
                                     [reply = asked.reply, job = asked.job,
                                      pacer = asked.context.options.carbon](const Status& stored) {
                                       if (!stored.ok())
                                         return reply(net::native_error(stored.error()));
                                       reply(json_text_response(200, carbon_text(pacer, *job)));
                                     });
}

}  // namespace

void give_carbon_sources(const ServerContext& context, const net::Reply& reply) {
  const CarbonPacer* pacer = context.options.carbon;
  reply(json_text_response(200, pacer == nullptr ? R"({"sources": []})" : pacer->sources_shown()));
}

std::string carbon_text(const CarbonPacer* pacer, const HostedJob& job) {
  return pacer == nullptr ? "null" : pacer->shown(job);
}

void handle_job_carbon(const JobRequest& asked) {
  CarbonPacer* pacer = asked.context.options.carbon;
  if (asked.request.method == "GET") {
    return asked.reply(json_text_response(200, carbon_text(pacer, *asked.job)));
  }
  if (pacer == nullptr) {
    return asked.reply(
        net::native_error(422, "invalid_input", "this server has no carbon control"));
  }
  std::optional<CarbonTerms> terms;
  if (asked.request.method == "PUT") {
    Result<CarbonTerms> read = parse_carbon_terms(asked.request.body);
    if (!read.ok()) return asked.reply(net::native_error(read.error()));
    terms = *std::move(read);
  }
  if (const Status set = pacer->set_terms(asked.job, std::move(terms)); !set.ok()) {
    return asked.reply(job_error(set.error()));
  }
  respond_when_stored(asked);
}

}  // namespace harpe::training
