#pragma once
/// \file
/// What a job's server and its clients say to each other, as JSON both ways: the specification of a
/// job, registrations and reports of its ranks, the server's responses. docs/openapi.yaml is the
/// contract. Diagnostics carry line and column of the text. Knows nothing of how plans are made,
/// nor of transport.
///
///     const JobSpec spec = HARPE_TRY(parse_job_spec(text));
///     const RankResponse response = HARPE_TRY(parse_rank_response(body));

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/result.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe {
struct JsonValue;
}  // namespace harpe

namespace harpe::training {

Result<JobSpec> parse_job_spec(std::string_view text, Unknown unknown = Unknown::kRefused);
/// The same as a part of a larger document.
Result<JobSpec> read_job_spec(const JsonValue& object, const std::string& file,
                              Unknown unknown = Unknown::kRefused);
/// The words in which all say the same job: a schedule that a generator makes is named, not listed.
std::string job_spec_json(const JobSpec& spec);
/// How many instructions a specification asks for at most, of one that names its schedule; 0 of any
/// other text. Makes nothing of that size.
std::int64_t declared_instructions(std::string_view text);

Result<RankRegistration> parse_rank_registration(std::string_view text);
std::string rank_registration_json(const RankRegistration& registration);

Result<IterationReport> parse_iteration_report(std::string_view text);
std::string iteration_report_json(const IterationReport& report);

/// "{"data", "stage", "tensor", "session"}": a rank whose training has ended in order.
Result<RankEnd> parse_rank_end(std::string_view text);
std::string rank_end_json(const RankEnd& end);

/// A server's response to a rank: the rank's assignments, each with the epoch of the response, and
/// the life and start of the job for which they hold. Members that the response lacks are empty.
struct RankResponse {
  std::optional<int> rank = {};  ///< its number among those of the job
  /// Of the job's newest assignments; 0: there are none yet.
  std::optional<std::uint64_t> version = {};
  std::string incarnation = {};    ///< empty: not said
  std::uint64_t epoch = 0;         ///< 0: not said
  std::uint64_t start = 0;         ///< of training in which the rank holds its place; 0: not said
  std::string specification = {};  ///< digest of the one that was registered; empty: not said
  /// Why an energy of the report counts as not measured; empty: it counts.
  std::string energy_refused = {};
  std::vector<StageAssignment> assignments = {};
};
/// Members that it does not know are left out.
Result<RankResponse> parse_rank_response(std::string_view text);
/// \param assignments  as `assignments_json` writes them, in place of those of `response`: most
/// ranks get the same. Empty: none, the rank knows them.
std::string rank_response_json(const RankResponse& response, std::string_view assignments);
/// A JSON list.
std::string assignments_json(const std::vector<StageAssignment>& assignments);

}  // namespace harpe::training
