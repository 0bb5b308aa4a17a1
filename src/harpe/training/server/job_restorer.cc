#include "harpe/training/server/job_restorer.h"

#include <algorithm>
#include <optional>

#include "harpe/base/json_text.h"
#include "harpe/training/server/job_saver.h"

namespace harpe::training {
namespace {

/// "format" of a JSON object; empty where it has none. Builds nothing else of the text.
std::string format_of(const std::string& state) {
  using Json = nlohmann::json;
  std::string format;
  bool is_next = false;
  const auto look = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key) {
      is_next = depth == 1 && value == "format";
      return depth > 0;
    }
    if (event == Json::parse_event_t::value && std::exchange(is_next, false) && value.is_string()) {
      format = value.get<std::string>();
    }
    return depth == 0;
  };
  [[maybe_unused]] const Json nothing = Json::parse(state, look, false);
  return format;
}

}  // namespace

Result<HostedPtr> JobRestorer::restore(Store& store, const std::string& id, Seconds now) const {
  const Result<std::optional<StoredJob>> stored = store.job(id);
  if (!stored.ok()) return store_failure("the job cannot be read now", stored.error());
  if (!*stored) return HostedPtr();
  if (kinds_.empty()) return Error::of(ErrorCode::kInternal, "this server reads no kind of job");
  const std::string format = format_of((*stored)->state);
  auto kind =
      std::ranges::find_if(kinds_, [&](const auto& one) { return format.starts_with(one.first); });
  if (kind == kinds_.end()) kind = kinds_.begin();
  HostedPtr hosted = HARPE_TRY(kind->second(store, **stored, now));
  hosted->saving.revisions = Revisions::of_stored((*stored)->revision);
  return hosted;
}

}  // namespace harpe::training
