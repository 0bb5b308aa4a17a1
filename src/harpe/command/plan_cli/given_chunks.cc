#include "harpe/command/plan_cli/given_chunks.h"

#include <string>

#include "harpe/command/command/quantity_text.h"

namespace harpe {

void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console) {
  const int chunks = schedule.chunks();
  if (!given || *given == chunks) return;
  console.warn("--chunks " + std::to_string(*given) + " is ignored: " + schedule.name + " has " +
               counted(static_cast<std::size_t>(chunks), "chunk") + " a stage");
}

}  // namespace harpe
