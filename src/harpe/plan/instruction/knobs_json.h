#pragma once
/// \file
/// Knobs in JSON documents: members of an object, and numbered lists of distinct knobs.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/plan/instruction/knobs.h"

namespace harpe::plan {

/// Limits of a power limit in files, W.
inline constexpr double kLeastPowerLimit = 1e-3;
inline constexpr double kMostPowerLimit = 1e6;

/// Returns the knobs that are given as members, without braces: `"memory_frequency_mhz": 1215,
/// "label": "sm12"`.
std::string knobs_members(const Knobs& knobs);

/// Reads knobs from the members of an object; all members are optional.
Knobs read_knobs(Fields& fields);

/// Distinct knobs, numbered by their first use. Empty knobs have the number 0.
class KnobNumbers {
 public:
  std::size_t number(const Knobs& knobs);
  /// Returns `[{}, {"label": "sm12"}]`: the knobs of each number, in order.
  std::string json() const;
  bool empty() const { return list_.size() == 1; }  ///< no knobs except the empty ones

 private:
  std::vector<Knobs> list_ = {Knobs{}};
  std::map<Knobs, std::size_t> numbers_ = {{Knobs{}, 0}};
};

/// Reads a list written by `KnobNumbers::json` from the member `key`; empty if there is none.
std::vector<Knobs> read_knob_list(Fields& fields, std::string_view key, Diagnostics& diagnostics);

}  // namespace harpe::plan
