#include "harpe/command/cli/monitor_view.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"

namespace harpe::command {

const char* const kMonitorCsvHeading =
    "time_s,device,name,power_w,energy_j,energy_error_j,source,clock_mhz,memory_clock_mhz,"
    "temperature_c,utilisation,power_limit_w,event_reasons\n";

namespace {

std::string number(const std::optional<double>& value, int decimals) {
  return value ? fixed(*value, decimals) : "-";
}
std::string watts(const std::optional<Watts>& power, int decimals) {
  return power ? fixed(power->value, decimals) : "-";
}
std::string megahertz(const std::optional<Megahertz>& clock) {
  return clock ? std::to_string(clock->value) : "-";
}
std::string energy_or_dash(const EnergyEstimate& energy) {
  return energy.source == EnergySource::kNone ? "-" : energy_text(energy);
}

}  // namespace

std::string fault_word(const Error& error) {
  return error.code == ErrorCode::kUnavailable ? "LOST" : "FAULT";
}

std::optional<Watts> power_now(const Look& look, std::size_t device) {
  const bool is_sensed = device < look.gpus.size() && look.gpus[device].power;
  return is_sensed ? look.gpus[device].power : look.mean[device];
}

GpuView view_of(Gpu& gpu) {
  GpuView view;
  view.power = value_of(gpu.instant_power());
  if (!view.power) view.power = value_of(gpu.average_power());
  view.limit = value_of(gpu.enforced_power_limit());
  if (!view.limit) view.limit = value_of(gpu.power_limit());
  view.clock = value_of(gpu.clock(ClockDomain::kGraphics));
  view.memory_clock = value_of(gpu.clock(ClockDomain::kMemory));
  view.temperature = value_of(gpu.temperature());
  view.utilisation = value_of(gpu.utilisation());
  view.reasons = value_of(gpu.event_reasons());
  return view;
}

std::string monitor_line(const Look& look, const std::string& time_of_day) {
  std::string text = time_of_day;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    text += "  " + device.label();
    if (device.error) {
      text += " " + fault_word(*device.error);
      continue;
    }
    text += " " + watts(power_now(look, i), 1) + " W";
    if (i < look.gpus.size()) text += " " + megahertz(look.gpus[i].clock) + " MHz";
  }
  return text + "  total " + energy_or_dash(total_of(look.window)) + "\n";
}

std::string monitor_csv(const Look& look) {
  std::string text;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    const bool is_gpu = i < look.gpus.size();
    const GpuView view = is_gpu ? look.gpus[i] : GpuView{};
    const auto cell = [](const std::string& value) { return value == "-" ? "" : value; };
    const bool has_energy = device.energy.source != EnergySource::kNone;
    const std::optional<Watts> power = is_gpu && device.error ? view.power : power_now(look, i);
    text += fixed(look.window.time.value, 6) + "," + device.label() + "," + csv_cell(device.name) +
            "," + cell(watts(power, 3)) + "," +
            (has_energy ? fixed(device.energy.energy.value, 6) : "") + "," +
            (error_known(device.energy) ? fixed(device.energy.error.value, 6) : "") + "," +
            csv_cell(std::string(source_name(device.energy.source))) + "," +
            cell(megahertz(view.clock)) + "," + cell(megahertz(view.memory_clock)) + "," +
            cell(number(view.temperature, 1)) + "," + cell(number(view.utilisation, 3)) + "," +
            cell(watts(view.limit, 1)) + "," +
            (view.reasons && view.reasons->bits != 0 ? csv_cell(view.reasons->text()) : "") + "\n";
  }
  return text;
}

Json monitor_json(const Look& look, bool simulated) {
  Json document = energy_json(look.window);
  document["simulated"] = simulated;
  const auto or_null = [](const auto& value) { return value ? Json(value->value) : Json(); };
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    Json& entry = document["devices"][i];
    entry["power_w"] = or_null(look.mean[i]);
    entry["mean_power_since_last_w"] = or_null(look.mean[i]);
    if (i >= look.gpus.size()) continue;
    const GpuView& gpu = look.gpus[i];
    entry["power_w"] = or_null(gpu.power);
    entry["power_limit_w"] = or_null(gpu.limit);
    entry["clock_mhz"] = or_null(gpu.clock);
    entry["memory_clock_mhz"] = or_null(gpu.memory_clock);
    entry["temperature_c"] = gpu.temperature ? Json(*gpu.temperature) : Json();
    entry["utilisation"] = gpu.utilisation ? Json(*gpu.utilisation) : Json();
    entry["event_reasons_now"] = gpu.reasons ? Json(gpu.reasons->text()) : Json();
  }
  return document;
}

namespace {

/// Most bytes that are read of a command line or an environment.
constexpr std::streamsize kMostBytes = 1 << 17;
constexpr std::size_t kLongestProgram = 200;

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

/// Returns "python train.py" for "/usr/bin/python\0train.py\0".
std::string program_of(std::string line) {
  while (!line.empty() && line.back() == '\0') line.pop_back();
  const std::size_t end = std::min(line.find('\0'), line.size());
  const std::size_t folder = line.rfind('/', end);
  if (folder != std::string::npos && folder < end) line.erase(0, folder + 1);
  std::ranges::replace(line, '\0', ' ');
  if (line.size() > kLongestProgram) line.resize(kLongestProgram);
  return line;
}

/// Returns a variable of "NAME=value\0NAME=value\0"; empty if it is missing.
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

}  // namespace harpe::command
