#pragma once
/// \file
/// Exact sums and products of doubles, for the check of plans and certificates.
///
/// A double is an integer times a power of two. `Exact` stores an integer of 512 bits in units of
/// 2^-256. All sums and products below fit into it if every number is within the limits of `fits`:
///
///   number                      at most    multiple of    example
///   time (s), energy (J)        2^40       2^-112         1 ns has 53 bits down to 2^-82
///   power (W), also its units   2^40       2^-112
///   power x time x a flow       2^144      2^-224         a flow counts up to 2^63 units
///
/// A sum of 2^31 such products times 2^31 GPUs stays below 2^206, which leaves 49 bits and the
/// sign.
///
/// Only quotients are rounded: `divided_down` rounds down.

#include <array>
#include <compare>
#include <cstdint>

namespace harpe::plan {

__extension__ using WideInteger = __int128;
__extension__ using WideUnsigned = unsigned __int128;

/// Returns true if the verifier can sum the double exactly: it is 0, or from 2^-60 to 2^40. Returns
/// false for negative numbers, NaN and infinities.
bool fits(double value);

/// An exact number: an integer times 2^-256. Callers check first that their numbers fit; an
/// overflow ends the program.
class Exact {
 public:
  constexpr Exact() = default;
  /// Converts a double, whose absolute value must fit.
  explicit Exact(double value);
  /// Returns a x b. The absolute values of both must fit.
  static Exact product(double a, double b);
  /// Returns a x b. `a` must be a sum of numbers that fit, not of products.
  static Exact product(const Exact& a, double b);

  Exact& operator+=(const Exact& other);
  Exact& operator-=(const Exact& other);
  friend Exact operator+(Exact a, const Exact& b) { return a += b; }
  friend Exact operator-(Exact a, const Exact& b) { return a -= b; }
  friend Exact operator*(Exact a, std::int64_t factor) { return a.multiply(factor), a; }
  /// Returns the quotient, rounded down. `divisor` must be above 0.
  Exact divided_down(std::int64_t divisor) const;

  friend bool operator==(const Exact&, const Exact&) = default;
  friend std::strong_ordering operator<=>(const Exact& a, const Exact& b);

  /// Returns value x 2^-fraction_bits, for 0 to 256 bits.
  static Exact of(WideInteger value, int fraction_bits);
  /// Returns the greatest integer n with n x 2^-fraction_bits <= *this, limited to -2^126 to 2^126.
  WideInteger count_down(int fraction_bits) const;

  /// Returns the greatest double that is not above this number.
  double rounded_down() const;
  /// Returns the least double that is not below this number, or beyond the range of `fits` possibly
  /// the next one.
  double rounded_up() const;

 private:
  static constexpr int kLimbs = 8;
  static constexpr int kFraction = 256;  // bits after the point

  void set(WideUnsigned magnitude, int shift);  // sets a 0 to magnitude x 2^shift units
  void multiply(std::int64_t factor);
  void shift(int bits);  // to the left, or to the right if negative
  void negate();
  bool is_negative() const { return limbs_[kLimbs - 1] >> 63 != 0; }

  std::array<std::uint64_t, kLimbs> limbs_{};  // two's complement, lowest limb first
};

}  // namespace harpe::plan
