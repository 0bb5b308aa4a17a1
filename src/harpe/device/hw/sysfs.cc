#include "harpe/device/hw/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "harpe/base/text.h"

namespace harpe::device {
namespace fs = std::filesystem;

std::optional<std::string> read_sysfs(const fs::path& path, int& error) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    error = errno;
    return std::nullopt;
  }
  std::array<char, 4096> buffer{};
  const ssize_t size = ::read(fd, buffer.data(), buffer.size());
  error = size < 0 ? errno : 0;
  ::close(fd);
  if (size < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

std::optional<std::string> read_sysfs(const fs::path& path) {
  int error = 0;
  const auto text = read_sysfs(path, error);
  if (!text) return std::nullopt;
  return std::string(trim(*text));
}

std::optional<std::int64_t> read_sysfs_number(const fs::path& path) {
  const auto text = read_sysfs(path);
  const auto number = text ? parse_integer(*text) : std::nullopt;
  if (!number || *number < 0) return std::nullopt;
  return number;
}

bool may_write(const fs::path& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace harpe::device
