#pragma once
/// \file
/// Sums and products of doubles without rounding, for the check of plans and certificates.
///
/// A double is a whole number times a power of two. `Exact` holds an integer of 512 bits that
/// counts units of 2^-256; all sums and products below stay within it if every number is within the
/// limits of `fits`:
///
///   number                      at most    multiple of    example
///   time (s), energy (J)        2^40       2^-112         1 ns has 53 bits down to 2^-82
///   power (W), also its units   2^40       2^-112
///   power x time x a flow       2^144      2^-224         a flow counts up to 2^63 units
///
/// A sum of 2^31 such products times 2^31 GPUs stays below 2^206, which leaves 49 bits and the
/// sign.
///
/// Quotients are the one exception: `divided_down` rounds them down.

#include <array>
#include <compare>
#include <cstdint>

namespace harpe::plan {

__extension__ using WideInteger = __int128;
__extension__ using WideUnsigned = unsigned __int128;

/// True if the verifier can sum the double exactly: it is 0, or from 2^-60 to 2^40. False for
/// negative numbers, NaN and infinities.
bool fits(double value);

/// An exact number: an integer times 2^-256. Callers check first that their numbers fit; an
/// overflow ends the program.
class Exact {
 public:
  constexpr Exact() = default;
  /// The double itself, whose absolute value must fit.
  explicit Exact(double value);
  /// a x b. The absolute values of both must fit.
  static Exact product(double a, double b);
  /// a x b. `a` must be a sum of numbers that fit, not of products.
  static Exact product(const Exact& a, double b);

  Exact& operator+=(const Exact& other);
  Exact& operator-=(const Exact& other);
  friend Exact operator+(Exact a, const Exact& b) { return a += b; }
  friend Exact operator-(Exact a, const Exact& b) { return a -= b; }
  friend Exact operator*(Exact a, std::int64_t factor) { return a.multiply(factor), a; }
  /// The quotient, rounded down. `divisor` must be above 0.
  Exact divided_down(std::int64_t divisor) const;

  friend bool operator==(const Exact&, const Exact&) = default;
  friend std::strong_ordering operator<=>(const Exact& a, const Exact& b);

  /// value x 2^-fraction_bits, for 0 to 256 bits.
  static Exact of(WideInteger value, int fraction_bits);
  /// The greatest integer n with n x 2^-fraction_bits no greater than this; at least -2^126 and at
  /// most 2^126.
  WideInteger count_down(int fraction_bits) const;

  /// The greatest double that is no greater than this.
  double rounded_down() const;
  /// The least double that is no less than this; up to one more beyond the range of `fits`.
  double rounded_up() const;

 private:
  static constexpr int kLimbs = 8;
  static constexpr int kFraction = 256;  // bits after the point

  void set(WideUnsigned magnitude, int shift);  // of 0: to magnitude x 2^shift units
  void multiply(std::int64_t factor);
  void shift(int bits);  // to the left, or to the right if negative
  void negate();
  bool is_negative() const { return limbs_[kLimbs - 1] >> 63 != 0; }

  std::array<std::uint64_t, kLimbs> limbs_{};  // two's complement, lowest limb first
};

}  // namespace harpe::plan
