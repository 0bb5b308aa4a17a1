#pragma once
/// \file
/// Which certificate authorities TLS trusts where the user names none. libcurl knows the place of
/// the system that it was built for; a program that is carried to another finds theirs.
/// Thread safety: any. Complexity: a look at some files.

#include <filesystem>
#include <span>
#include <string>

namespace harpe::net {

/// Where systems keep them in one file, the most widespread first.
std::span<const char* const> usual_authority_files();

/// `built_in` (may be null) if it is there, else the first of the others that is; empty: none is,
/// and libcurl does what it would.
std::string authorities_among(const char* built_in, std::span<const char* const> others);

/// The file for `CURLOPT_CAINFO`: the user's, else by the rule above; empty: leave it to libcurl.
std::string authorities_file(const std::filesystem::path& of_user);

}  // namespace harpe::net
