#include "harpe/command/cli/node_use.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/node/node_client/agent_client.h"

namespace harpe::command {
namespace {

/// The longest command line and environment that are read.
constexpr std::streamsize kMostBytes = 1 << 17;
constexpr std::size_t kLongestProgram = 200;
constexpr Seconds kPatience{1};

std::string beginning_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(static_cast<std::size_t>(kMostBytes), '\0');
  stream.read(text.data(), kMostBytes);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

std::string name_of_user(uid_t user) {
  std::array<char, 4096> text{};
  passwd entry{};
  passwd* found = nullptr;
  const bool known =
      ::getpwuid_r(user, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? found->pw_name : std::to_string(user);
}

/// "python train.py" of "/usr/bin/python\0train.py\0".
std::string program_of(std::string line) {
  while (!line.empty() && line.back() == '\0') line.pop_back();
  const std::size_t end = std::min(line.find('\0'), line.size());
  const std::size_t folder = line.rfind('/', end);
  if (folder != std::string::npos && folder < end) line.erase(0, folder + 1);
  std::ranges::replace(line, '\0', ' ');
  if (line.size() > kLongestProgram) line.resize(kLongestProgram);
  return line;
}

/// Of "NAME=value\0NAME=value\0".
std::string variable_in(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) {
      return std::string(entry.substr(name.size() + 1));
    }
    environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
  }
  return {};
}

std::string job_of(std::string_view environment) {
  std::string job = variable_in(environment, "HARPE_JOB");
  if (job.empty()) job = variable_in(environment, "SLURM_JOB_NAME");
  if (job.empty()) job = variable_in(environment, "SLURM_JOB_ID");
  return job;
}

void add_gpu(GpuUser& user, int gpu) {
  const auto place = std::ranges::lower_bound(user.gpus, gpu);
  if (place == user.gpus.end() || *place != gpu) user.gpus.insert(place, gpu);
}

using Processes = std::function<std::map<int, std::vector<std::int64_t>>()>;

class NodeUseWatch final : public UseWatch {
 public:
  NodeUseWatch(std::map<std::string, int> uuids, Processes processes, Seconds every)
      : uuids_(std::move(uuids)),
        processes_(std::move(processes)),
        every_(every),
        thread_([this] { watch(); }) {}
  ~NodeUseWatch() override {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  std::vector<GpuUser> users() const override {
    const MutexLock lock(mutex_);
    return users_;
  }

 private:
  void watch() {
    MutexLock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      std::vector<GpuUser> now = gpu_users(processes_(), leases());
      lock.lock();
      users_ = std::move(now);
      if (!ends_) {
        changed_.wait_for(mutex_, std::chrono::duration<double>(every_.value),
                          [this]() HARPE_REQUIRES(mutex_) { return ends_; });
      }
    }
  }

  /// None where there is no agent.
  std::vector<node::Lease> leases() const {
    std::vector<node::Lease> found;
    Result<node::AgentClient> agent = node::AgentClient::connect(node::agent_socket(""), kPatience);
    if (!agent.ok()) return found;
    const Result<std::vector<GpuIdentity>> gpus = agent->gpus();
    if (!gpus.ok()) return found;
    for (const GpuIdentity& gpu : *gpus) {
      const auto ours = uuids_.find(gpu.uuid);
      if (ours == uuids_.end()) continue;
      const Result<std::vector<node::Lease>> holders = agent->holders(gpu.index);
      if (!holders.ok()) continue;
      for (node::Lease lease : *holders) {
        lease.gpus = {ours->second};
        found.push_back(std::move(lease));
      }
    }
    return found;
  }

  const std::map<std::string, int> uuids_;
  const Processes processes_;
  const Seconds every_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<GpuUser> users_ HARPE_GUARDED_BY(mutex_);
  bool ends_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace

GpuUser process_of(std::int64_t pid, const std::filesystem::path& proc) {
  GpuUser process;
  process.pid = pid;
  const std::filesystem::path folder = proc / std::to_string(pid);
  struct stat owner{};
  if (::stat(folder.c_str(), &owner) != 0) return process;
  process.user = name_of_user(owner.st_uid);
  process.program = program_of(beginning_of(folder / "cmdline"));
  if (process.program.empty()) process.program = trim(beginning_of(folder / "comm"));
  process.job = job_of(beginning_of(folder / "environ"));
  return process;
}

std::vector<GpuUser> gpu_users(const std::map<int, std::vector<std::int64_t>>& processes,
                               const std::vector<node::Lease>& leases,
                               const std::filesystem::path& proc) {
  std::map<std::int64_t, GpuUser> found;
  const auto user_of = [&](std::int64_t pid) -> GpuUser& {
    const auto [entry, is_new] = found.try_emplace(pid);
    if (is_new) entry->second = process_of(pid, proc);
    return entry->second;
  };
  for (const auto& [gpu, pids] : processes) {
    for (const std::int64_t pid : pids) add_gpu(user_of(pid), gpu);
  }
  for (const node::Lease& lease : leases) {
    GpuUser& user = user_of(lease.pid);
    for (const int gpu : lease.gpus) add_gpu(user, gpu);
    if (user.user.empty()) user.user = name_of_user(static_cast<uid_t>(lease.uid));
    // A lease may outlive the process that took it.
    if (user.program.empty()) user.program = lease.name;
    if (!user.lease.empty() && user.lease != node::text_of(lease.controls)) user.lease += ", ";
    if (!user.lease.ends_with(node::text_of(lease.controls)))
      user.lease += node::text_of(lease.controls);
  }
  std::vector<GpuUser> users;
  for (auto& [pid, user] : found) users.push_back(std::move(user));
  std::ranges::sort(users, {}, [](const GpuUser& user) {
    return std::pair(user.gpus.empty() ? -1 : user.gpus.front(), user.pid);
  });
  return users;
}

std::unique_ptr<UseWatch> UseWatch::start(std::map<std::string, int> uuids, Processes processes,
                                          Seconds every) {
  return std::make_unique<NodeUseWatch>(std::move(uuids), std::move(processes), every);
}

}  // namespace harpe::command
