#pragma once
/// \file
/// A quantity with one value for all stages of a pipeline or one value per stage. Usage:
///
///   harpe::PerStage<harpe::Watts> blocking_power = 83.64_W;  // or std::vector{80_W, 90_W}

#include <cstddef>
#include <utility>
#include <vector>

namespace harpe {

/// One value for all stages or one per stage; never empty. With one value, `[]` accepts any stage.
template <class T>
struct PerStage {
  std::vector<T> values;
  PerStage(T one) : values{one} {}                            // NOLINT(*-explicit-*)
  PerStage(std::vector<T> each) : values(std::move(each)) {}  // NOLINT(*-explicit-*)
  T operator[](int stage) const {
    return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(stage)];
  }
  /// Returns one value for each of `stages` stages.
  std::vector<T> each(int stages) const {
    return values.size() == 1 ? std::vector<T>(static_cast<std::size_t>(stages), values[0])
                              : values;
  }
  friend bool operator==(const PerStage&, const PerStage&) = default;
};

}  // namespace harpe
