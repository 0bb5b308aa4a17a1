#include "harpe/device/measure/energy_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

std::string column(const DeviceEnergy& device) {
  std::string name = lower(device.label());
  std::erase(name, ' ');
  return name;
}

Status write_all(int file, const std::string& text, const std::filesystem::path& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return Error::io(path.string(), std::strerror(errno));  // NOLINT(*-mt-unsafe)
    done += static_cast<std::size_t>(wrote);
  }
  return ok_status();
}

}  // namespace

std::string energy_log_heading(const WindowEnergy& window) {
  std::string text = "start_time,window_name,elapsed_time";
  for (const DeviceEnergy& device : window.devices) text += "," + column(device) + "_energy";
  for (const DeviceEnergy& device : window.devices) text += "," + column(device) + "_error";
  return text + "\n";
}

std::string energy_log_row(const WindowEnergy& window) {
  std::string text =
      fixed(window.started_at, 6) + "," + csv_cell(window.name) + "," + fixed(window.time.value, 6);
  const auto cell = [](const DeviceEnergy& device, Joules value) {
    return device.energy.source == EnergySource::kNone ? std::string() : fixed(value.value, 3);
  };
  for (const DeviceEnergy& device : window.devices) {
    text += "," + cell(device, device.energy.energy);
  }
  for (const DeviceEnergy& device : window.devices) {
    // The amount of missing energy is unknown.
    text += "," + (device.energy.missing.value > 0 ? "" : cell(device, device.energy.error));
  }
  return text + "\n";
}

Status EnergyLog::append(const WindowEnergy& window) {
  const std::string heading = energy_log_heading(window);
  std::string text = energy_log_row(window);
  std::error_code error;
  if (std::filesystem::exists(path_, error) && std::filesystem::file_size(path_, error) > 0) {
    const std::string before = HARPE_TRY(read_file(path_));
    if (!before.starts_with(heading)) {
      return Error::io(path_.string(),
                       "has the columns of other devices; name another file, or move this one");
    }
    if (!before.ends_with('\n')) text = "\n" + text;  // the last row was cut short
  } else {
    text = heading + text;
  }
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return Error::io(path_.string(), std::strerror(errno));  // NOLINT(*-mt-unsafe)
  Status status = write_all(file, text, path_);
  if (::close(file) != 0 && status.ok()) {
    status = Error::io(path_.string(), std::strerror(errno));  // NOLINT(*-mt-unsafe)
  }
  return status;
}

}  // namespace harpe
