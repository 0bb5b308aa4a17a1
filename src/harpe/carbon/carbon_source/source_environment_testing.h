#pragma once
/// \file
/// An environment of carbon sources for tests, with its own time, variables and folder.

#include <map>
#include <optional>
#include <string>

#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::carbon {

struct EnvironmentOfATest {
  TestDirectory directory;
  ManualClock clock;
  UtcTime now = parse_utc("2026-01-15T10:20Z").value();
  std::map<std::string, std::string> variables = {{"HOME", directory.path().string()}};

  /// Returns an environment that refers to this object.
  SourceEnvironment environment() {
    return {.clock = clock,
            .now = [this] { return now; },
            .variable =
                [this](const std::string& name) {
                  const auto found = variables.find(name);
                  return found == variables.end() ? std::nullopt : std::optional(found->second);
                },
            .cache = directory / "cache",
            .timeout = Seconds{5}};
  }
};

}  // namespace harpe::carbon
