// Any bytes from a server: events in pieces, and the assignments and errors in them.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/event_reader.h"
#include "harpe/training/client/server_session.h"
#include "harpe/training/wire/wire.h"

namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

Events read(std::string_view text, std::size_t piece) {
  Events events;
  harpe::training::EventReader reader;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto status =
        reader.add(text.substr(at, piece), [&](const harpe::training::EventReader::Event& event) {
          events.emplace_back(event.name, event.data);
        });
    if (!status.ok()) break;
  }
  return events;
}

void check_assignments(const std::string& text) {
  const auto response = harpe::training::parse_rank_response(text);
  if (!response.ok()) return;
  // A response that was read can be written and read back.
  const auto again = harpe::training::parse_rank_response(harpe::training::rank_response_json(
      *response, harpe::training::assignments_json(response->assignments)));
  if (!again.ok() || again->assignments.size() != response->assignments.size()) std::abort();
  harpe::training::AssignmentBook book(4);
  for (const harpe::training::StageAssignment& one : response->assignments) {
    if (!book.add(one).ok()) continue;
    const harpe::training::StageAssignment* kept = book.of_version(one.version);
    if (kept != nullptr && kept->clocks.size() != 4) std::abort();
  }
  for (const std::int64_t iteration : {INT64_MIN, std::int64_t{0}, INT64_MAX}) {
    const harpe::training::StageAssignment* holds = book.in_force(iteration);
    if (holds != nullptr && holds->from_iteration > iteration) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Events whole = read(text, text.size() + 1);
  if (read(text, 1) != whole || read(text, 7) != whole) std::abort();
  for (const auto& [name, event] : whole) check_assignments(event);
  check_assignments(text);
  const std::string message = harpe::training::error_message({400, text, {}});
  if (message.empty() || message.find('\n') != std::string::npos) std::abort();
  return 0;
}
