#pragma once
/// \file
/// JSON of the messages between a job's server and its clients, in both directions: the
/// specification of a job, registrations and reports of its ranks, responses of the server.
/// docs/openapi.yaml is the contract. Diagnostics have line and column. This file depends neither
/// on planning nor on transport.
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
/// Reads a specification that is part of a larger document.
Result<JobSpec> read_job_spec(const JsonValue& object, const std::string& file,
                              Unknown unknown = Unknown::kRefused);
/// Returns the canonical text of a specification. It names a generated schedule instead of listing
/// its instructions.
std::string job_spec_json(const JobSpec& spec);
/// Returns an upper bound on the instructions of a specification that names its schedule; 0 for any
/// other text. Allocates nothing of that size.
std::int64_t declared_instructions(std::string_view text);

Result<RankRegistration> parse_rank_registration(std::string_view text);
std::string rank_registration_json(const RankRegistration& registration);

Result<IterationReport> parse_iteration_report(std::string_view text);
std::string iteration_report_json(const IterationReport& report);

/// Parses "{"data", "stage", "tensor", "session"}": a rank whose training has ended in order.
Result<RankEnd> parse_rank_end(std::string_view text);
std::string rank_end_json(const RankEnd& end);

/// A server's response to a rank: the rank's assignments, each with the epoch of the response, and
/// the life and start of the job for which they hold. Members that the response lacks are empty.
struct RankResponse {
  std::optional<int> rank = {};  ///< its number among the ranks of the job
  /// Version of the job's newest assignments; 0 if there are none yet.
  std::optional<std::uint64_t> version = {};
  std::string incarnation = {};    ///< empty if not stated
  std::uint64_t epoch = 0;         ///< 0 if not stated
  std::uint64_t start = 0;         ///< start in which the rank holds its place; 0 if not stated
  std::string specification = {};  ///< digest of the registered one; empty if not stated
  /// Why an energy of the report counts as not measured; empty if all count.
  std::string energy_refused = {};
  std::vector<StageAssignment> assignments = {};
};
/// Parses a response. Unknown members are ignored.
Result<RankResponse> parse_rank_response(std::string_view text);
/// Returns the text of a response.
/// \param assignments  a text of `assignments_json`, which replaces those of `response`, since most
///                     ranks get the same one; empty if the rank has them already
std::string rank_response_json(const RankResponse& response, std::string_view assignments);
/// Returns a JSON list.
std::string assignments_json(const std::vector<StageAssignment>& assignments);

}  // namespace harpe::training
