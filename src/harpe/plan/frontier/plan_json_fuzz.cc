// A plan that parses can be written, parses back the same, and can be replayed and checked safely.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/frontier/verify.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = harpe::parse_plan_json(text, "f");
  if (!plan.ok()) {
    require(!plan.error().diagnostics.empty());
    return 0;
  }
  const std::string json = harpe::plan_json(*plan);
  const auto again = harpe::parse_plan_json(json, "f");
  require(again.ok() && again->instructions == plan->instructions);
  require(again->transfers == plan->transfers && again->placement == plan->placement);
  require(again->iteration_time == plan->iteration_time);
  require(harpe::plan_json(*again) == json);

  const harpe::Verification found = harpe::verify_plan(*plan, harpe::Profile(), nullptr);
  const auto prediction = harpe::predict(*plan, harpe::Profile(), {});
  // A plan that the verifier accepts can be replayed, and takes no longer than claimed.
  if (found.diagnostics.empty()) {
    require(prediction.ok());
    require(prediction->iteration_time.value <= plan->iteration_time.value * (1 + 1e-6) + 1e-6);
  }
  (void)plan->clock_changes();
  (void)harpe::zeus_plan(*plan);
  return 0;
}
