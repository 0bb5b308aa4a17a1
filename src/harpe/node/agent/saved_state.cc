#include "harpe/node/agent/saved_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {

namespace fs = std::filesystem;

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

constexpr std::size_t kLargest = 4 << 20;
constexpr std::size_t kBlock = 4096;

/// Returns the first free name for a damaged file; if all 100 are used, the last is overwritten.
fs::path aside(const fs::path& path) {
  constexpr int kMost = 100;
  fs::path name;
  std::error_code error;
  for (int i = 1; i <= kMost; ++i) {
    name = path;
    name += ".damaged-" + std::to_string(i);
    if (!fs::exists(fs::symlink_status(name, error))) break;
  }
  return name;
}

class FileStorage final : public StateStorage {
 public:
  FileStorage(fs::path path, std::size_t reserve)
      : path_(std::move(path)), spare_(path_.string() + ".spare"), reserve_(reserve) {}

  std::string name() const override { return path_.string(); }

  Result<std::optional<std::string>> load() override {
    struct stat status{};
    if (::lstat(path_.c_str(), &status) != 0 && errno == ENOENT) {
      return std::optional<std::string>();
    }
    auto text = HARPE_TRY(read_trusted(path_, kLargest));
    return std::optional(std::move(text));
  }

  Status replace(std::string_view text) override {
    struct stat status{};
    if (::lstat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      return Error::io(path_.string(), "is not a regular file");
    }
    std::string padded(text);
    padded.resize(std::max(reserve_, (text.size() + kBlock - 1) / kBlock * kBlock), '\n');
    HARPE_TRY(write_spare(padded));
    if (::renameat2(AT_FDCWD, spare_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      return ok_status();
    }
    // There is no file to exchange with yet, or this file system cannot exchange files.
    if (::rename(spare_.c_str(), path_.c_str()) != 0) return failure(path_, "cannot write");
    // The next text needs space too; writing it returns the error if there is none.
    (void)open_spare(padded.size());
    return ok_status();
  }

  Result<std::string> set_aside() override {
    const fs::path kept = aside(path_);
    if (::rename(path_.c_str(), kept.c_str()) != 0) {
      return failure(path_, "is damaged and cannot be moved aside");
    }
    return kept.string();
  }

 private:
  static Error failure(const fs::path& path, const char* what) {
    return Error::io(path.string(),
                     std::string(what) + ": " + std::generic_category().message(errno));
  }

  /// Opens the second file and reserves space for `bytes` bytes.
  Result<UniqueFd> open_spare(std::size_t bytes) const {
    auto spare = open_trusted(spare_, O_WRONLY | O_CREAT);
    if (!spare.ok()) {
      // An untrusted file there is not the agent's.
      ::unlink(spare_.c_str());
      spare = open_trusted(spare_, O_WRONLY | O_CREAT | O_EXCL);
    }
    if (!spare.ok()) return spare;
    const bool taken = ::fallocate(spare->get(), 0, 0, static_cast<off_t>(bytes)) == 0;
    if (!taken && errno != EOPNOTSUPP) return failure(spare_, "cannot reserve space");
    return spare;
  }

  Status write_spare(std::string_view text) const {
    const auto spare = HARPE_TRY(open_spare(text.size()));
    const off_t size = static_cast<off_t>(text.size());
    while (!text.empty()) {
      const ssize_t written = ::write(spare.get(), text.data(), text.size());
      if (written < 0 && errno != EINTR) return failure(spare_, "cannot write");
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::ftruncate(spare.get(), size) != 0 || ::fchmod(spare.get(), S_IRUSR | S_IWUSR) != 0) {
      return failure(spare_, "cannot write");
    }
    if (::fsync(spare.get()) != 0) return failure(spare_, "cannot flush to the disk");
    return ok_status();
  }

  const fs::path path_, spare_;
  const std::size_t reserve_;
};

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
      diagnostics.add(value->line, value->column, "more GPUs than a machine can have");
      break;
    }
    SavedGpu gpu = read_saved_gpu(*value, diagnostics);
    if (std::ranges::find(state.gpus, gpu.uuid, &SavedGpu::uuid) != state.gpus.end()) {
      diagnostics.add(value->line, value->column, in_quotes(gpu.uuid) + " is given twice");
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
  // Drivers and clients set names: invalid UTF-8 must not prevent a state from being saved.
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
                            " was written, which reset the settings of " +
                            std::to_string(found->gpus.size()) + " GPUs; nothing to restore");
  }
  // If the file cannot be written, settings are restored nevertheless.
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

std::unique_ptr<StateStorage> make_file_storage(fs::path path, std::size_t reserve) {
  return std::make_unique<FileStorage>(std::move(path), reserve);
}

}  // namespace harpe::node
