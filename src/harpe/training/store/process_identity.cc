#include "harpe/training/store/process_identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

namespace harpe::training {
namespace {

/// Fields of /proc/PID/stat; see proc(5).
struct ProcessState {
  char state = 0;
  std::int64_t threads = 0;
  std::int64_t started = 0;
};

std::optional<ProcessState> state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field, a name in parentheses, may have any characters.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  ProcessState found;
  rest >> found.state;
  constexpr int kThreads = 20, kStarted = 22;
  for (int field = 4; field <= kStarted; ++field) {
    std::int64_t number = 0;
    if (!(rest >> number)) return std::nullopt;
    if (field == kThreads) found.threads = number;
    if (field == kStarted) found.started = number;
  }
  return found;
}

/// Returns a namespace such as "pid:[4026531836]"; empty if the kernel has no such namespace.
std::string name_space(const char* path) {
  std::array<char, 64> link{};
  const ssize_t size = ::readlink(path, link.data(), link.size());
  return {link.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

}  // namespace

ProcessIdentity ProcessIdentity::own() {
  ProcessIdentity identity;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity.boot;
  identity.namespaces = name_space("/proc/self/ns/pid");
  // Start times are in ticks of the reader's own time namespace.
  if (!identity.namespaces.empty()) identity.namespaces += name_space("/proc/self/ns/time");
  identity.pid = ::getpid();
  if (const auto state = state_of("self")) identity.started = state->started;
  return identity;
}

bool is_proven_gone(const ProcessIdentity& process, const ProcessIdentity& observer) {
  const bool comparable =
      !process.boot.empty() && process.boot == observer.boot && !process.namespaces.empty() &&
      process.namespaces == observer.namespaces && process.pid > 0 && process.started > 0;
  if (!comparable) return false;
  // `kill` is called first, because /proc may hide the processes of other users.
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const auto state = state_of(std::to_string(process.pid));
  if (!state) return false;
  if (state->started != process.started) return true;
  const bool has_ended = state->state == 'Z' || state->state == 'X';
  return has_ended && state->threads <= 1;
}

}  // namespace harpe::training
