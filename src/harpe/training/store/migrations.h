#pragma once
/// \file
/// How the tables came to be: one ordered list of steps, the same for both databases. A step that
/// was ever in a release is never changed; what must be different is a further step at the end.

#include <span>
#include <string>

#include "harpe/base/result.h"

namespace harpe::training {

struct Migration {
  const char* sqlite;      ///< statements, run in one transaction with the new version's number
  const char* postgresql;  ///< the same
};

/// Step i brings a database from version i to version i + 1; an empty database has version 0.
std::span<const Migration> migrations();

/// The refusal of a database whose version is above what this program knows.
Error newer_schema(const std::string& database, int version, std::size_t known);

}  // namespace harpe::training
