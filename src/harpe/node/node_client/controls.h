#pragma once
/// \file
/// What of a GPU a lease is for: clients of one user may hold different controls of one GPU, each
/// for its own time.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harpe::node {

/// One thing that can be set and is restored by itself.
enum class Control : unsigned char { kClocks, kMemoryClocks, kPowerLimit, kPersistenceMode };

/// A set of them. All unless said otherwise.
class Controls {
 public:
  constexpr Controls() = default;
  constexpr Controls(std::initializer_list<Control> controls) : bits_(0) {
    for (const Control control : controls) bits_ |= bit(control);
  }
  static constexpr Controls none() { return Controls(std::initializer_list<Control>{}); }

  constexpr bool has(Control control) const { return (bits_ & bit(control)) != 0; }
  constexpr bool overlaps(Controls other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(Controls other) { bits_ |= other.bits_; }
  constexpr void remove(Control control) { bits_ &= ~bit(control); }
  friend constexpr bool operator==(Controls, Controls) = default;

 private:
  static constexpr unsigned bit(Control control) { return 1U << static_cast<unsigned>(control); }
  unsigned bits_ = 15;
};

/// "clocks", "memory_clocks", "power_limit", "persistence_mode".
std::vector<std::string> names_of(Controls controls);
/// The control of such a name.
std::optional<Control> control_named(std::string_view name);
/// "graphics clocks, power limit"; "everything".
std::string text_of(Controls controls);

}  // namespace harpe::node
