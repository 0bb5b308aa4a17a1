#include "harpe/node/agent/http_lease_body.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"

namespace harpe {
namespace {

constexpr double kLongestDuration = 365.0 * 24 * 3600;
constexpr double kMostWatts = 100'000;
constexpr std::size_t kMostLeasedGpus = 1024;
constexpr std::size_t kLongestLeaseName = 128;

/// Runs `read(fields, diagnostics, object)` over the object in `body`.
template <class Value, class Read>
Result<Value> read_body(std::string_view body, Read read) {
  JsonValue document = HARPE_TRY(parse_json(body.empty() ? "{}" : body, "body"));
  if (document.type != JsonValue::Type::kObject) return Error::invalid("body: expected an object");
  Diagnostics diagnostics("body");
  Fields fields(document, "the body", diagnostics);
  Value value = read(fields, diagnostics, document);
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return value;
}

std::vector<int> read_gpus(Fields& fields) {
  std::vector<int> gpus;
  const JsonValue* list = fields.any("gpus");
  if (list == nullptr || list->type != JsonValue::Type::kArray || list->items.empty() ||
      list->items.size() > kMostLeasedGpus) {
    fields.error("gpus", "expected a list of GPU indices such as \"gpus\": [0, 1]");
    return gpus;
  }
  for (const JsonValue& item : list->items) {
    if (!item.is_integer || item.integer < 0 || item.integer > 1'000'000) {
      fields.error("gpus", "a GPU index is a whole number from 0");
      return gpus;
    }
    gpus.push_back(static_cast<int>(item.integer));
  }
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  return gpus;
}

Seconds read_duration(Fields& fields, bool needed) {
  const auto duration = fields.number("duration_s", 0.001, kLongestDuration);
  if (!duration && needed && fields.any("duration_s") == nullptr) {
    fields.error("duration_s", "is missing");
  }
  return Seconds{duration.value_or(60)};
}

Controls read_controls(Fields& fields) {
  const JsonValue* list = fields.any("controls");
  if (list == nullptr) return {};
  Controls controls = Controls::none();
  if (list->type == JsonValue::Type::kArray) {
    for (const JsonValue& item : list->items) {
      const auto control = control_named(item.string);
      if (!control) {
        controls = Controls::none();
        break;
      }
      controls.add({*control});
    }
  }
  if (controls.empty()) {
    fields.error("controls",
                 "expected a list of clocks, memory_clocks, power_limit, persistence_mode");
  }
  return controls;
}

std::optional<Setting> read_clock_lock(Fields& fields, const char* key, ClockDomain domain) {
  const auto range = fields.range(key, 0, kHighestClock);
  if (!range) return std::nullopt;
  return Setting{.kind = Setting::Kind::kLockClocks,
                 .domain = domain,
                 .clocks = {{static_cast<int>(range->first)}, {static_cast<int>(range->second)}}};
}

std::optional<Setting> read_reset(Fields& fields, const char* key, Setting setting) {
  const auto reset = fields.boolean(key);
  if (!reset) return std::nullopt;
  if (!*reset) fields.error(key, "can only be true");
  return setting;
}

}  // namespace

Result<LeaseRequest> parse_lease_body(std::string_view body) {
  return read_body<LeaseRequest>(body, [](Fields& fields, Diagnostics&, const JsonValue&) {
    LeaseRequest request;
    request.gpus = read_gpus(fields);
    request.duration = read_duration(fields, false);
    request.ends_with_process = fields.boolean("ends_with_process").value_or(true);
    request.controls = read_controls(fields);
    request.name = fields.text("name").value_or("");
    if (request.name.size() > kLongestLeaseName) {
      fields.error("name", "a name has at most " + std::to_string(kLongestLeaseName) + " bytes");
    }
    return request;
  });
}

Result<Seconds> parse_renew_body(std::string_view body) {
  return read_body<Seconds>(body, [](Fields& fields, Diagnostics&, const JsonValue&) {
    return read_duration(fields, true);
  });
}

Result<SettingBody> parse_setting_body(std::string_view body) {
  return read_body<SettingBody>(
      body, [](Fields& fields, Diagnostics& diagnostics, const JsonValue& object) {
        SettingBody read;
        read.gpus = read_gpus(fields);
        const std::size_t errors_before = diagnostics.count();
        std::vector<std::optional<Setting>> found;
        found.push_back(read_clock_lock(fields, "lock_clocks_mhz", ClockDomain::kGraphics));
        found.push_back(read_clock_lock(fields, "lock_memory_clocks_mhz", ClockDomain::kMemory));
        found.push_back(
            read_reset(fields, "reset_clocks",
                       {.kind = Setting::Kind::kResetClocks, .domain = ClockDomain::kGraphics}));
        found.push_back(
            read_reset(fields, "reset_memory_clocks",
                       {.kind = Setting::Kind::kResetClocks, .domain = ClockDomain::kMemory}));
        found.push_back(
            read_reset(fields, "reset_power_limit", {.kind = Setting::Kind::kResetPowerLimit}));
        if (const auto watts = fields.number("power_limit_w", 0, kMostWatts)) {
          found.emplace_back(Setting{.kind = Setting::Kind::kPowerLimit, .limit = Watts{*watts}});
        }
        if (const auto enabled = fields.boolean("persistence_mode")) {
          found.emplace_back(Setting{.kind = Setting::Kind::kPersistenceMode, .enabled = *enabled});
        }
        std::erase_if(found, [](const auto& setting) { return !setting; });
        if (found.size() == 1) {
          read.setting = *found.front();
        } else if (diagnostics.count() == errors_before) {
          diagnostics.add(object.line, object.column,
                          "expected exactly one of lock_clocks_mhz, lock_memory_clocks_mhz, "
                          "reset_clocks, reset_memory_clocks, power_limit_w, reset_power_limit, "
                          "persistence_mode");
        }
        return read;
      });
}

}  // namespace harpe
