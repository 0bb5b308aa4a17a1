#pragma once
/// \file
/// Knobs in JSON documents: members of an object, and lists of distinct knobs that others point to.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/plan/instruction/knobs.h"

namespace harpe::plan {

/// What files may have for a power limit, W.
inline constexpr double kLeastPowerLimit = 1e-3;
inline constexpr double kMostPowerLimit = 1e6;

/// The members that are given, without braces: `"memory_frequency_mhz": 1215, "label": "sm12"`.
std::string knobs_members(const Knobs& knobs);

/// From the members of an object, all of which may be absent.
Knobs read_knobs(Fields& fields);

/// Distinct knobs numbered by their first use; no knobs have the number 0.
class KnobNumbers {
 public:
  std::size_t number(const Knobs& knobs);
  /// `[{}, {"label": "sm12"}]`: the knobs of each number.
  std::string json() const;
  bool empty() const { return list_.size() == 1; }  ///< nothing but no knobs

 private:
  std::vector<Knobs> list_ = {Knobs{}};
  std::map<Knobs, std::size_t> numbers_ = {{Knobs{}, 0}};
};

/// What `KnobNumbers::json` wrote under `key`; empty where the member is absent.
std::vector<Knobs> read_knob_list(Fields& fields, std::string_view key, Diagnostics& diagnostics);

}  // namespace harpe::plan
