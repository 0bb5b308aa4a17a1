#include "harpe/node/agent/saved_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

using Type = JsonValue::Type;
constexpr const char* kFormat = "harpe.agent-state/1";
constexpr std::size_t kMostSavedGpus = 1024;
constexpr double kHighestSavedLimit = 1e6;

std::optional<SavedLock> read_lock(Fields& fields, std::string_view key) {
  const JsonValue* value = fields.any(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == Type::kNull) return SavedLock{};
  const auto is_clock = [](const JsonValue& item) {
    return item.type == Type::kNumber && item.is_integer && item.integer >= 0 &&
           item.integer <= kHighestClock;
  };
  if (value->type != Type::kArray || value->items.size() != 2 ||
      !std::ranges::all_of(value->items, is_clock) ||
      value->items[0].integer > value->items[1].integer) {
    fields.error(key, "expected null or the lowest and the highest clock");
    return std::nullopt;
  }
  return SavedLock{ClockRange{{static_cast<int>(value->items[0].integer)},
                              {static_cast<int>(value->items[1].integer)}}};
}

SavedGpu read_saved_gpu(const JsonValue& value, Diagnostics& diagnostics) {
  Fields fields(value, "a GPU", diagnostics);
  SavedGpu gpu;
  const auto uuid = fields.text("uuid");
  if (!uuid || uuid->empty()) fields.error("uuid", "expected the UUID of a GPU");
  gpu.uuid = uuid.value_or("");
  gpu.holder = fields.text("holder").value_or("");
  if (const auto watts = fields.number("power_limit_w", 0, kHighestSavedLimit)) {
    gpu.power_limit = Watts{*watts};
  }
  gpu.persistence_mode = fields.boolean("persistence_mode");
  gpu.graphics = read_lock(fields, "graphics_clocks_mhz");
  gpu.memory = read_lock(fields, "memory_clocks_mhz");
  fields.finish();
  return gpu;
}

nlohmann::json json_of(const SavedLock& lock) {
  if (!lock.range) return nullptr;
  return {lock.range->lowest.value, lock.range->highest.value};
}

}  // namespace

Result<SavedState> parse_saved_state(std::string_view text, const std::string& file) {
  auto root = HARPE_TRY(parse_json(text, file));
  Diagnostics diagnostics(file);
  Fields fields(root, "the state", diagnostics);
  SavedState state;
  if (fields.text("format") != kFormat) {
    fields.error("format", std::string("expected '") + kFormat + "'");
  }
  const auto boot_id = fields.text("boot_id");
  if (!boot_id || boot_id->empty()) fields.error("boot_id", "expected the kernel's boot id");
  state.boot_id = boot_id.value_or("");
  state.stopped = fields.boolean("stopped").value_or(false);
  if (root.find("gpus") == nullptr) fields.error("gpus", "expected a list");
  for (const JsonValue* value : fields.objects("gpus")) {
    if (state.gpus.size() == kMostSavedGpus) {
      diagnostics.add(value->line, value->column, "no machine has so many GPUs");
      break;
    }
    SavedGpu gpu = read_saved_gpu(*value, diagnostics);
    if (std::ranges::find(state.gpus, gpu.uuid, &SavedGpu::uuid) != state.gpus.end()) {
      diagnostics.add(value->line, value->column, in_quotes(gpu.uuid) + " is there twice");
    }
    state.gpus.push_back(std::move(gpu));
  }
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return state;
}

std::string text_of(const SavedState& state) {
  nlohmann::json gpus = nlohmann::json::array();
  for (const SavedGpu& gpu : state.gpus) {
    nlohmann::json entry = {{"uuid", gpu.uuid}, {"holder", gpu.holder}};
    if (gpu.power_limit) entry["power_limit_w"] = gpu.power_limit->value;
    if (gpu.persistence_mode) entry["persistence_mode"] = *gpu.persistence_mode;
    if (gpu.graphics) entry["graphics_clocks_mhz"] = json_of(*gpu.graphics);
    if (gpu.memory) entry["memory_clocks_mhz"] = json_of(*gpu.memory);
    gpus.push_back(std::move(entry));
  }
  nlohmann::json root = {{"format", kFormat}, {"boot_id", state.boot_id}, {"gpus", gpus}};
  if (state.stopped) root["stopped"] = true;
  // Names come from drivers and clients: what is no UTF-8 must not stop a state from being saved.
  return root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SavedGpu part_of(SavedGpu saved, Controls controls) {
  if (!controls.has(Control::kClocks)) saved.graphics.reset();
  if (!controls.has(Control::kMemoryClocks)) saved.memory.reset();
  if (!controls.has(Control::kPowerLimit)) saved.power_limit.reset();
  if (!controls.has(Control::kPersistenceMode)) saved.persistence_mode.reset();
  return saved;
}

Result<std::string> this_boot_id() {
  auto text = HARPE_TRY(read_file("/proc/sys/kernel/random/boot_id", 4096));
  return std::string(trim(text));
}

Result<StateFile::Opened> StateFile::open(std::unique_ptr<StateStorage> storage,
                                          const std::string& boot_id) {
  const MutexLock lock(mutex_);
  storage_ = std::move(storage);
  state_ = {boot_id, {}};
  Opened opened;
  const auto text = storage_->load();
  auto found = !text.ok() ? Result<SavedState>(text.error())
               : *text    ? parse_saved_state(**text, storage_->name())
                          : Result<SavedState>(state_);
  if (!found.ok()) {
    const auto kept = HARPE_TRY(storage_->set_aside());
    opened.events.push_back(
        "the state file " + storage_->name() + " cannot be used and was kept as " + kept + ": " +
        found.error().text() +
        "; GPUs that a crashed agent left changed, if any, were not restored: compare them with "
        "that file (harpe devices), then harpe clock reset, harpe limit reset");
  } else if (found->boot_id == boot_id) {
    opened.stopped = found->stopped;
    state_.gpus = found->gpus;
    opened.to_restore = found->gpus;
  } else if (!found->gpus.empty()) {
    opened.events.push_back("the machine was restarted since " + storage_->name() +
                            " was written: its drivers have forgotten what had been set on " +
                            std::to_string(found->gpus.size()) + " GPUs; nothing to restore");
  }
  // Where it cannot be written, what is to be restored is restored all the same.
  (void)write();
  return opened;
}

Status StateFile::put(const SavedGpu& gpu) {
  const MutexLock lock(mutex_);
  const SavedState before = state_;
  const auto found = std::ranges::find(state_.gpus, gpu.uuid, &SavedGpu::uuid);
  if (found != state_.gpus.end()) {
    *found = gpu;
  } else {
    state_.gpus.push_back(gpu);
  }
  Status status = write();
  if (!status.ok()) state_ = before;
  return status;
}

Status StateFile::take_out(const std::string& uuid) {
  const MutexLock lock(mutex_);
  const SavedState before = state_;
  if (std::erase_if(state_.gpus, [&](const SavedGpu& gpu) { return gpu.uuid == uuid; }) == 0) {
    return ok_status();
  }
  Status status = write();
  if (!status.ok()) state_ = before;
  return status;
}

std::optional<SavedGpu> StateFile::entry(const std::string& uuid) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(state_.gpus, uuid, &SavedGpu::uuid);
  return found == state_.gpus.end() ? std::nullopt : std::optional(*found);
}

Status StateFile::mark_stopped() {
  const MutexLock lock(mutex_);
  if (storage_ == nullptr) return ok_status();
  state_.stopped = true;
  return write();
}

std::string StateFile::trouble() const {
  const MutexLock lock(mutex_);
  return trouble_;
}

Status StateFile::write() {
  Status status = storage_->replace(text_of(state_));
  trouble_ = status.ok() ? "" : status.error().text();
  return status;
}

}  // namespace harpe
