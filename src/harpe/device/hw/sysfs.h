#pragma once
/// \file
/// Reading of small files in sysfs, where Linux shows its devices.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace harpe::device {

/// Reads a file of sysfs, at most a page. Sets `error` to the errno of a failure, 0 otherwise.
std::optional<std::string> read_sysfs(const std::filesystem::path& path, int& error);
/// Reads a file of sysfs and trims the text; nullopt on any failure.
std::optional<std::string> read_sysfs(const std::filesystem::path& path);
/// Reads a nonnegative integer; nullopt on any failure.
std::optional<std::int64_t> read_sysfs_number(const std::filesystem::path& path);
/// Returns true if this process has permission to write the file. Does not write.
bool may_write(const std::filesystem::path& path);

}  // namespace harpe::device
