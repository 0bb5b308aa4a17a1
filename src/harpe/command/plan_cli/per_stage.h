#pragma once
/// \file
/// Lists that hold one value for all stages (or boundaries), or one for each.

#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::command {

/// Returns `values`, of which there are none, one or `count`, as none or `count` values. For other
/// lengths adds an error and returns none.
/// \param what  the counted things: "stages"
template <class T>
std::vector<T> per_stage(const std::vector<T>& values, int count, const std::string& option,
                         const std::string& what, Diagnostics& diagnostics) {
  if (values.empty()) return {};
  if (values.size() == 1) return std::vector<T>(count, values.front());
  if (static_cast<int>(values.size()) == count) return values;
  diagnostics.add("--" + option + " has " + std::to_string(values.size()) +
                  " values, the pipeline has " + std::to_string(count) + " " + what);
  return {};
}

}  // namespace harpe::command
