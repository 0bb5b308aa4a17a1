#pragma once
/// \file
/// The certificate authorities that TLS trusts if the user names none. libcurl knows their path on
/// the system that it was built for; on other systems the file is searched for.
///
/// Thread safety: any. Complexity: checks for the existence of a few files.

#include <filesystem>
#include <span>
#include <string>

namespace harpe::net {

/// Returns the files in which systems keep their authorities, the most common first.
std::span<const char* const> usual_authority_files();

/// Returns `built_in` (may be null) if it exists, otherwise the first of the others that exists;
/// empty if none does, and libcurl uses its default.
std::string authorities_among(const char* built_in, std::span<const char* const> others);

/// Returns the file for `CURLOPT_CAINFO`: the user's, otherwise by the rule above; empty: libcurl's
/// default.
std::string authorities_file(const std::filesystem::path& of_user);

}  // namespace harpe::net
