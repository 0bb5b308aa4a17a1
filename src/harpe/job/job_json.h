#pragma once
/// \file
/// Jobs, ranks, reports and orders as JSON, the form in which clients send and get them. The shapes
/// are in docs/openapi.yaml. Faults carry line and column of the text.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/result.h"
#include "harpe/job/job.h"

namespace harpe {

struct JsonValue;

Result<JobSpec> parse_job_spec(std::string_view text, Unknown unknown = Unknown::kFault);
/// The same as a part of a larger document.
Result<JobSpec> read_job_spec(const JsonValue& object, const std::string& file,
                              Unknown unknown = Unknown::kFault);
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

/// \param now  by the job's clock, to which "for_s" is added; \param wall  the same moment in
/// seconds since 1970, in which "until" is given
Result<Straggler> parse_straggler(std::string_view text, int pipeline, Seconds now, Seconds wall);

std::string orders_json(const std::vector<StageOrders>& orders);

/// What a server answers to a rank, as far as it is there: its orders, each with the epoch of the
/// answer, and by which life and start of the job they hold.
struct RankAnswer {
  std::string incarnation;    ///< empty: not told
  std::uint64_t epoch = 0;    ///< 0: not told
  std::uint64_t start = 0;    ///< of training in which the rank holds its place; 0: not told
  std::string specification;  ///< digest of the one that was registered; empty: not told
  std::vector<StageOrders> orders;
};
/// A list of orders, or an object with some of these members among whatever else.
Result<RankAnswer> parse_rank_answer(std::string_view text);

/// Where a job stands: phase, progress, stragglers, predictions, savings. \param shown  a time of
/// the job's clock in seconds since 1970
std::string job_status_json(const Job& job, const std::function<Seconds(Seconds)>& shown);

}  // namespace harpe
