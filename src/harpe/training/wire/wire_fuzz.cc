// All JSON that ranks and users send to a job. Accepted text reads back the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harpe/training/wire/carbon_terms.h"
#include "harpe/training/wire/wire.h"

namespace {

/// \param write  returns the text of an accepted value
template <class Read, class Write>
void round_trip(std::string_view text, Read read, Write write) {
  const auto value = read(text);
  if (!value.ok()) {
    if (value.error().diagnostics.empty()) std::abort();
    return;
  }
  const std::string written = write(*value);
  const auto again = read(written);
  if (!again.ok() || write(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (static_cast<unsigned char>(data[0] - '0') % 7) {
    case 0:
      round_trip(
          text, [](std::string_view given) { return harpe::training::parse_job_spec(given); },
          harpe::training::job_spec_json);
      if (harpe::training::declared_instructions(text) < 0) std::abort();
      break;
    case 1:
      round_trip(text, harpe::training::parse_rank_registration,
                 harpe::training::rank_registration_json);
      break;
    case 2:
      round_trip(text, harpe::training::parse_iteration_report,
                 harpe::training::iteration_report_json);
      break;
    case 3:
      round_trip(text, harpe::training::parse_rank_response,
                 [](const harpe::training::RankResponse& response) {
                   return harpe::training::rank_response_json(
                       response, harpe::training::assignments_json(response.assignments));
                 });
      break;
    case 4:
      round_trip(text, harpe::parse_objective, harpe::objective_json);
      break;
    case 6:
      round_trip(text, harpe::training::parse_carbon_terms, harpe::training::carbon_terms_json);
      break;
    default:
      round_trip(text, harpe::training::parse_rank_end, harpe::training::rank_end_json);
  }
  return 0;
}
