#pragma once
/// \file
/// Physical quantities as types, so that seconds cannot be passed for joules.
///
///   using namespace harpe::literals;
///   const harpe::Joules used = 83.64_W * 2_s;
///   std::printf("%.1f J\n", used.value);

#include <compare>

namespace harpe {

/// A number with a dimension. Arithmetic within one dimension is that of `double`; products across
/// dimensions are defined below if they exist in physics.
template <class Dimension>
struct Quantity {
  double value = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double b) { return {a.value * b}; }
  friend constexpr Quantity operator*(double a, Quantity b) { return {a * b.value}; }
  friend constexpr Quantity operator/(Quantity a, double b) { return {a.value / b}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  constexpr Quantity operator-() const { return {-value}; }
  constexpr Quantity& operator+=(Quantity b) { return value += b.value, *this; }
  constexpr Quantity& operator-=(Quantity b) { return value -= b.value, *this; }
};

using Seconds = Quantity<struct TimeDimension>;
using Joules = Quantity<struct EnergyDimension>;
using Watts = Quantity<struct PowerDimension>;

constexpr Joules operator*(Watts p, Seconds t) {
  return {p.value * t.value};
}
constexpr Joules operator*(Seconds t, Watts p) {
  return p * t;
}
constexpr Watts operator/(Joules e, Seconds t) {
  return {e.value / t.value};
}
constexpr Seconds operator/(Joules e, Watts p) {
  return {e.value / p.value};
}

/// A clock rate. Devices have whole megahertz; 0 means "no clock" (fixed-time instructions).
struct Megahertz {
  int value = 0;
  friend constexpr auto operator<=>(Megahertz, Megahertz) = default;
};

inline namespace literals {
constexpr Seconds operator""_s(long double v) {
  return {static_cast<double>(v)};
}
constexpr Seconds operator""_s(unsigned long long v) {
  return {static_cast<double>(v)};
}
constexpr Joules operator""_J(long double v) {
  return {static_cast<double>(v)};
}
constexpr Joules operator""_J(unsigned long long v) {
  return {static_cast<double>(v)};
}
constexpr Watts operator""_W(long double v) {
  return {static_cast<double>(v)};
}
constexpr Watts operator""_W(unsigned long long v) {
  return {static_cast<double>(v)};
}
constexpr Megahertz operator""_MHz(unsigned long long v) {
  return {static_cast<int>(v)};
}
}  // namespace literals

}  // namespace harpe
