#include "harpe/command/plan_cli/given_chunks.h"

#include <string>

namespace harpe {

void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console) {
  const int chunks = schedule.chunks();
  if (!given || *given == chunks) return;
  console.warn("--chunks " + std::to_string(*given) + " is ignored: " + schedule.name + " has " +
               std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks") + " a stage");
}

}  // namespace harpe
