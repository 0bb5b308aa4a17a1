#include "harpe/node/agent/node_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {
namespace {

constexpr std::size_t kMostStateBytes = 4 << 20;
constexpr std::size_t kMostEvents = 100;

}  // namespace

void AgentEvents::add(const std::string& text) {
  const MutexLock lock(mutex_);
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  events_.push_back(text);
  if (on_event_) on_event_(text);
}

std::vector<std::string> AgentEvents::all() const {
  const MutexLock lock(mutex_);
  return events_;
}

void AgentEvents::silence() {
  const MutexLock lock(mutex_);
  on_event_ = nullptr;
}

Status NodeState::open(const std::filesystem::path& file, const Devices& devices,
                       AgentEvents& events) {
  HARPE_TRY(take_locks(file, devices));
  auto boot_id = HARPE_TRY(this_boot_id());
  constexpr std::size_t kLeast = 4096;
  auto opened = HARPE_TRY(file_.open(
      make_file_storage(file, kLeast + devices.gpus.size() * kStateBytesPerGpu), boot_id));
  for (const std::string& text : opened.events) events.add(text);
  to_restore_ = std::move(opened.to_restore);
  last_stopped_ = opened.stopped;
  std::error_code ignored;
  const auto own = std::filesystem::weakly_canonical(file, ignored);
  for (const std::filesystem::path& other : gpu_locks_.last_states) {
    if (std::filesystem::weakly_canonical(other, ignored) != own)
      HARPE_TRY(adopt_entries(other, boot_id, devices, events));
  }
  if (const Status named = name_state(gpu_locks_, file); !named.ok()) {
    events.add(named.error().text() + "; where this agent is killed, and the next has another " +
               "state file, that one does not restore what this one left");
  }
  if (const std::string trouble = file_.trouble(); !trouble.empty()) {
    events.add("the state file cannot be written, and nothing is set until it can: " + trouble);
  }
  return ok_status();
}

/// Two agents would undo each other's settings.
Status NodeState::take_locks(const std::filesystem::path& file, const Devices& devices) {
  auto state = lock_file(file.string() + ".lock", "the state file " + file.string());
  if (!state.ok()) {
    Error error = std::move(state).error();
    if (error.code == ErrorCode::kIo) {
      error.diagnostics.push_back(
          {.message = "the agent needs a directory of its own to write its state to"});
    }
    return error;
  }
  lock_ = *std::move(state);
  gpu_locks_ = HARPE_TRY(lock_gpus(devices.gpus));
  return ok_status();
}

/// Takes over the entries of these GPUs from the state file of a killed agent, so that this agent
/// restores them. Fails if a running agent has that file.
Status NodeState::adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                                const Devices& devices, AgentEvents& events) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return ok_status();
  }
  const auto text = read_trusted(file, kMostStateBytes);
  auto found =
      text.ok() ? parse_saved_state(*text, file.string()) : Result<SavedState>(text.error());
  if (!found.ok()) {
    events.add("the state file " + file.string() + " of the agent that had these GPUs before " +
               "cannot be used: " + found.error().text() + "; what it left changed, if anything, " +
               "is not restored: compare the GPUs with that file (harpe devices)");
    return ok_status();
  }
  std::erase_if(found->gpus, [&](const SavedGpu& saved) {
    return std::ranges::none_of(
        devices.gpus, [&](const auto& gpu) { return gpu->identity().uuid == saved.uuid; });
  });
  if (found->boot_id != boot_id || found->gpus.empty()) return ok_status();
  const auto lock = lock_file(file.string() + ".lock", "the state file " + file.string() +
                                                           ", which says what GPU " +
                                                           found->gpus[0].uuid + " had before");
  if (!lock.ok() && lock.error().code == ErrorCode::kConflict) return lock.error();
  if (!lock.ok()) {  // such as on a path that is read-only for this agent
    for (const SavedGpu& saved : found->gpus) {
      const bool is_new = !file_.entry(saved.uuid).has_value();
      if (is_new && file_.put(saved).ok()) to_restore_.push_back(saved);
    }
    events.add("restores what " + file.string() + " says of its GPUs, but cannot take it out of " +
               "that file: " + lock.error().text());
    return ok_status();
  }
  StateFile other;
  HARPE_TRY(other.open(make_file_storage(file, text->size()), boot_id));
  for (const SavedGpu& saved : found->gpus) {
    // An entry in both files was copied by an agent that was killed before it removed the original.
    const bool is_known = file_.entry(saved.uuid).has_value();
    if (!is_known) to_restore_.push_back(saved);
    if (is_known || file_.put(saved).ok()) (void)other.take_out(saved.uuid);
  }
  events.add("took over from " + file.string() + ", the state file of an agent that was killed: " +
             std::to_string(found->gpus.size()) + " of these GPUs");
  return ok_status();
}

}  // namespace harpe::node
