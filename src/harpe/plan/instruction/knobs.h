#pragma once
/// \file
/// The settings of an operating point other than the graphics clock.
///
///   const auto label = harpe::Label::of("sm12_overlap");
///   const harpe::Knobs knobs{.memory_clock = {1215}, .power_limit = {250}, .label = *label};

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string_view>

#include "harpe/base/units.h"

namespace harpe {

/// A word of at most `kMostBytes` letters, digits, '_', '-', '.', ':', '+' and '/', stored inline.
class Label {
 public:
  static constexpr std::size_t kMostBytes = 31;

  constexpr Label() = default;  ///< empty
  /// Returns the label; nullopt if `text` is empty, too long or has other characters.
  static std::optional<Label> of(std::string_view text);

  std::string_view text() const { return {text_.data(), size_}; }
  bool empty() const { return size_ == 0; }
  friend constexpr auto operator<=>(const Label&, const Label&) = default;

 private:
  std::array<char, kMostBytes> text_{};
  unsigned char size_ = 0;
};

/// The settings of an instruction other than its graphics clock. A knob that is not given stays
/// unchanged on the device.
struct Knobs {
  Megahertz memory_clock = {};  ///< 0: not given
  Watts power_limit = {};       ///< of the GPU; 0: not given
  /// A setting that the training itself applies, such as a kernel schedule or a number of SMs
  /// (Kareus, OSDI'26); passed to the training unchanged.
  Label label = {};

  bool empty() const { return *this == Knobs{}; }
  friend constexpr bool operator==(const Knobs&, const Knobs&) = default;
  friend constexpr auto operator<=>(const Knobs&, const Knobs&) = default;
};

}  // namespace harpe
