#pragma once
/// \file
/// Lists that hold one value for all stages (or boundaries), or one each.

#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::command {

/// `values`, which has none, one or `count`, as none or `count`; nothing, with an error, for other
/// lengths.
/// \param what  what there are `count` of: "stages".
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
