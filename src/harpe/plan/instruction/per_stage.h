#pragma once
/// \file
/// A quantity that all stages of a pipeline share, or that each has its own of. Usage:
///
///   harpe::PerStage<harpe::Watts> blocking_power = 83.64_W;  // or std::vector{80_W, 90_W}

#include <cstddef>
#include <utility>
#include <vector>

namespace harpe {

/// Never empty; with one value for all, `[]` takes any stage.
template <class T>
struct PerStage {
  std::vector<T> values;
  PerStage(T one) : values{one} {}                            // NOLINT(*-explicit-*)
  PerStage(std::vector<T> each) : values(std::move(each)) {}  // NOLINT(*-explicit-*)
  T operator[](int stage) const {
    return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(stage)];
  }
  /// One value for each of so many stages.
  std::vector<T> each(int stages) const {
    return values.size() == 1 ? std::vector<T>(static_cast<std::size_t>(stages), values[0])
                              : values;
  }
  friend bool operator==(const PerStage&, const PerStage&) = default;
};

}  // namespace harpe
