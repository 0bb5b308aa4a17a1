#pragma once
/// \file
/// Files that a privileged process relies on: others than root and its own user can neither write
/// them nor put something else in their place.
///
/// Of the directories above a file, those in which only owners may rename (sticky, as /tmp) are
/// safe for what they hold. Links on the way must belong to root or to this process's user; a link
/// in the place of the file itself is followed by nothing here.

#include <filesystem>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe::node {

/// What is wrong with a path, one text a place, each with what would help; empty: nothing.
/// \param group_may  directories above that of the file may be written by their group, as /var/log
///                   is on some systems
std::vector<std::string> why_not_trusted(const std::filesystem::path& file, bool group_may = false);

/// Fails with `kNoPermission` where others could put a file of theirs into this directory in place
/// of one of the agent's, such as a socket.
Status check_trusted_directory(const std::filesystem::path& directory);

/// Opens a regular file, made with `mode` where `flags` has O_CREAT, without waiting for what is
/// none (a pipe). Fails with `kNoPermission` where others could change it or put another in its
/// place, `kUnavailable` where the system is short of something (space, open files), `kIo` where it
/// cannot be opened otherwise or is no regular file.
Result<UniqueFd> open_trusted(const std::filesystem::path& file, int flags, unsigned mode = 0600);

/// The whole of such a file; `kIo` above the limit.
Result<std::string> read_trusted(const std::filesystem::path& file, std::size_t limit);

}  // namespace harpe::node
