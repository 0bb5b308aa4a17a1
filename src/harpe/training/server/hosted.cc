#include "harpe/training/server/hosted.h"

namespace harpe {

JobSummary Hosted::summary() const {
  // What it says of its last moments is not in one that was read any more.
  const bool as_stored = asleep() && !stored_summary.empty();
  JobSummary summary{.job = id,
                     .text = as_stored ? stored_summary : summary_text(),
                     .heard = heard().value,
                     .ended = {}};
  if (const auto end = ended()) summary.ended = end->value;
  return summary;
}

}  // namespace harpe
