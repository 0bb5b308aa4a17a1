#pragma once
/// \file
/// Errors of a table's rows: one for all rows that share a cause. Only for `.cc` files.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// Collects errors of rows, in their order. Those whose messages differ in numbers alone share a
/// cause: up to three of them are reported each by itself; of more, the first one with a count.
/// Memory is bounded by the number of causes. Not thread-safe.
class RowErrors {
 public:
  void add(int line, int column, std::string message);
  /// Appends them to `diagnostics`, in the order in which they were added.
  void report(Diagnostics& diagnostics) const;

 private:
  struct Row {
    std::size_t number = 0;  ///< of all errors, as they were added
    Diagnostic error = {};
  };
  struct Cause {
    std::size_t count = 0;
    std::vector<Row> first;  ///< at most three
  };
  std::map<std::string, Cause> causes_;
  std::size_t added_ = 0;
  std::size_t more_ = 0;  ///< errors of causes beyond those that are kept
};

}  // namespace harpe
