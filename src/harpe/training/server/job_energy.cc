#include "harpe/training/server/job_energy.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/net/http/http_query.h"
#include "harpe/training/server/long_response.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe {
namespace {

/// By the terms in force, else those of the specification; 0: not known.
double tokens_per_iteration(const HostedJob& job) {
  std::optional<CarbonTerms> terms = job.carbon.terms();
  if (!terms && !job.job.spec().carbon.empty()) {
    if (auto read = parse_carbon_terms(job.job.spec().carbon); read.ok()) terms = *std::move(read);
  }
  return terms ? terms->tokens_per_iteration.value_or(0) : 0;
}

}  // namespace

void give_energy(const JobRequest& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"from", "to"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  UtcTime from{0}, to{std::numeric_limits<std::int64_t>::max()};
  for (const auto& [name, time] : {std::pair{"from", &from}, {"to", &to}}) {
    if (!query->find(name)) continue;
    const Result<std::uint32_t> given = query->number(name);
    if (!given.ok()) return asked.reply(native_error(given.error()));
    time->since_1970 = *given;
  }
  std::vector<LedgerRun> runs = asked.job->ledger.runs(asked.job->id, from, to);
  const bool simulated = asked.job->job.status().synthetic;
  const double tokens = tokens_per_iteration(*asked.job);
  for (LedgerRun& run : runs) {
    run.simulated = simulated;
    run.tokens_per_iteration = tokens;
    run.meters = {"GPUs: energies that ranks reported of their iterations"};
    run.notes = {"hosts (CPUs, memory, network) were not measured"};
  }
  asked.context.registry.hosting().aside(
      asked.job->id, [reply = asked.reply, runs = std::move(runs)]() -> std::function<void()> {
        auto text = std::make_shared<const std::string>(ledger_json(runs) + "\n");
        return [reply, text = std::move(text)] { reply(long_response("application/json", text)); };
      });
}

}  // namespace harpe
