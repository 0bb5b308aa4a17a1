#pragma once
/// \file
/// Files that a privileged process trusts: only root and its own user can write or replace them.
///
/// A directory above a file may be writable by others if only owners may rename its entries
/// (sticky, as /tmp). Symbolic links in the path must belong to root or to this process's user. A
/// symbolic link as the file itself is never followed.

#include <filesystem>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe::node {

/// Returns the reasons why a path is not trusted, one text per place with a remedy; empty if none.
/// \param group_may  true if directories above the file's directory may be writable by their group,
///                   as /var/log is on some systems
std::vector<std::string> why_not_trusted(const std::filesystem::path& file, bool group_may = false);

/// Fails with `kNoPermission` if other users could replace a file of the agent in this directory,
/// such as a socket.
Status check_trusted_directory(const std::filesystem::path& directory);

/// Opens a regular file; creates it with `mode` if `flags` has O_CREAT. Never blocks on a pipe.
/// Fails with `kNoPermission` if other users could change or replace it, with `kUnavailable` if the
/// system lacks a resource (space, open files), else with `kIo`, also if it is no regular file.
Result<UniqueFd> open_trusted(const std::filesystem::path& file, int flags, unsigned mode = 0600);

/// Returns the content of such a file. Fails with `kIo` if it is larger than `limit` bytes.
Result<std::string> read_trusted(const std::filesystem::path& file, std::size_t limit);

}  // namespace harpe::node
