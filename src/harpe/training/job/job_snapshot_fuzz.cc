// Any texts from a store: a job (its state, its specification and a part of its ranks, with a
// record separator between them), or its plans. Damaged texts are refused. An accepted job can be
// written, read again and continued.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harpe/training/job/job.h"

namespace {

harpe::training::JobTexts texts_of(std::string_view text) {
  constexpr char kSeparator = '\x1e';
  const auto take = [&text] {
    const std::string_view part = text.substr(0, text.find(kSeparator));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    return std::string(part);
  };
  harpe::training::JobTexts texts{.state = take()};
  texts.parts[harpe::training::kSpecificationPart] = take();
  if (!text.empty()) texts.parts["ranks 0"] = take();
  return texts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plans = harpe::plan::PlanTable::parse(text, "plans");
  if (plans.ok()) {
    const std::string written = plans->json();
    const auto again = harpe::plan::PlanTable::parse(written, "plans");
    if (!again.ok() || again->json() != written) std::abort();
    const auto stored = harpe::plan::PlanTable::parse(plans->stored_text(), "plans");
    if (!stored.ok() || stored->json() != written) std::abort();
    return 0;
  }
  constexpr harpe::Seconds kNow{1.8e9};
  auto job = harpe::training::Job::read(texts_of(text), {}, kNow);
  if (!job.ok()) return 0;
  (void)job->status();
  job->go_on(kNow);
  job->tick(kNow + harpe::Seconds{1});
  (void)job->take_effects();
  (void)job->status();
  for (int stage = 0; stage < job->spec().shape.stages; ++stage) (void)job->assignments(0, stage);
  if (!harpe::training::Job::read(job->texts(), {}, kNow).ok()) std::abort();
  return 0;
}
