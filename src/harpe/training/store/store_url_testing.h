#pragma once
/// \file
/// What libpq itself reads in a URL, to hold against what Harpe does.

#include <libpq-fe.h>

#include <map>
#include <memory>
#include <string>

#include "harpe/training/store/store_url.h"

namespace harpe {

using LibpqParameters = std::map<std::string, std::string>;

/// What libpq reads, without what is empty; `error` alone where it refuses the URL.
inline LibpqParameters read_by_libpq(const std::string& url) {
  struct Free {
    void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
    void operator()(char* text) const { PQfreemem(text); }
  };
  char* message = nullptr;
  const std::unique_ptr<PQconninfoOption, Free> options(PQconninfoParse(url.c_str(), &message));
  const std::unique_ptr<char, Free> owned(message);
  if (options == nullptr) return {{"error", message != nullptr ? message : "out of memory"}};
  LibpqParameters read;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr && *option->val != '\0') read[option->keyword] = option->val;
  }
  return read;
}

/// What libpq should read in the text of a URL; it does not know Harpe's schema.
inline LibpqParameters expected_of_libpq(const StoreUrl& url) {
  LibpqParameters expected = {
      {"user", url.user}, {"password", url.password}, {"dbname", url.database}};
  for (const StoreUrl::Host& host : url.hosts) {
    const std::string comma = &host == &url.hosts.front() ? "" : ",";
    expected["host"] += comma + host.name;
    expected["port"] += comma + (host.port == 0 ? "" : std::to_string(host.port));
  }
  for (const auto& [name, value] : url.parameters) expected[name] = value;
  std::erase_if(expected, [](const auto& entry) { return entry.second.empty(); });
  return expected;
}

/// Without the schema.
inline StoreUrl known_to_libpq(StoreUrl url) {
  std::erase_if(url.parameters, [](const auto& parameter) { return parameter.first == "schema"; });
  return url;
}

}  // namespace harpe
