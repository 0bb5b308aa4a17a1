#pragma once
/// \file
/// The responses that docs/openapi.yaml documents, for the fuzz target.

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/training/server/api.h"

namespace harpe::training {

inline void require(bool holds, const char* what, const std::string& detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n%s\n", what, detail.c_str());
  std::abort();
}

inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

inline std::vector<std::string_view> parts_of(std::string_view path) {
  return split(path.substr(1), '/');
}

struct Operation {
  std::string method;
  std::vector<std::string_view> path;  ///< parts; "{job}" matches any part
  std::set<int> statuses;
};

/// Reads the document, which has one key per line.
inline std::vector<Operation> read_contract() {
  std::vector<Operation> operations;
  std::vector<std::string_view> path;
  const std::string_view document = openapi_document();
  const std::string_view paths = document.substr(document.find("\npaths:\n"));
  for (const std::string_view line : split(paths.substr(0, paths.find("\ncomponents:\n")), '\n')) {
    const std::string_view key = line.substr(0, line.find(':'));
    if (key.starts_with("  /")) path = parts_of(key.substr(2));
    for (const char* method : {"get", "put", "post", "patch", "delete"}) {
      if (key != std::string("    ") + method) continue;
      std::string name;
      for (const char* c = method; *c != 0; ++c) name += static_cast<char>(*c - 'a' + 'A');
      operations.push_back({name, path, {}});
    }
    if (key.starts_with("        \"") && key.size() == 13) {
      operations.back().statuses.insert(static_cast<int>(*parse_integer(key.substr(9, 3))));
    }
  }
  require(operations.size() > 20, "the contract can be read");
  return operations;
}

inline bool matches(const std::vector<std::string_view>& pattern,
                    const std::vector<std::string_view>& path) {
  if (pattern.size() != path.size()) return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_any = pattern[i].starts_with('{') && !path[i].empty();
    if (pattern[i] != path[i] && !is_any) return false;
  }
  return true;
}

/// Returns the documented statuses of a request, or the statuses for a route that does not exist.
inline std::set<int> documented(const std::string& method, const std::string& path) {
  static const std::vector<Operation> kContract = read_contract();
  for (const Operation& operation : kContract) {
    if (operation.method == method && matches(operation.path, parts_of(path))) {
      return operation.statuses;
    }
  }
  return {400, 401, 403, 404, 405};
}

}  // namespace harpe::training
