#pragma once
/// \file
/// The small files in which Linux shows its devices.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace harpe::device {

/// Reads a file of sysfs, at most a page. `error` is the errno of a failure, 0 otherwise.
std::optional<std::string> read_sysfs(const std::filesystem::path& path, int& error);
/// The same where the reason does not matter; trimmed.
std::optional<std::string> read_sysfs(const std::filesystem::path& path);
/// A whole number, not negative.
std::optional<std::int64_t> read_sysfs_number(const std::filesystem::path& path);
/// Whether this process may write the file: asks the file system, writes nothing.
bool may_write(const std::filesystem::path& path);

}  // namespace harpe::device
