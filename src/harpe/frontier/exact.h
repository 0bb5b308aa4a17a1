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
/// What has to be divided is rounded down, as its name says.

#include <array>
#include <compare>
#include <cstdint>

namespace harpe {

__extension__ using WideInteger = __int128;
__extension__ using WideUnsigned = unsigned __int128;

/// True if a double can take part in the sums of the verifier: 0, or from 2^-60 to 2^40. Not for
/// negative numbers, NaN and infinities.
bool fits(double value);

/// An exact number: an integer times 2^-256. Assumes that numbers fit, which the callers check
/// first; an overflow ends the program.
class Exact {
 public:
  constexpr Exact() = default;
  /// The double itself. It is 0, or its absolute value is from 2^-60 to 2^40.
  explicit Exact(double value);
  /// a x b.
  static Exact product(double a, double b);
  /// a x b, of a sum of times, energies or powers.
  static Exact product(const Exact& a, double b);

  Exact& operator+=(const Exact& other);
  Exact& operator-=(const Exact& other);
  friend Exact operator+(Exact a, const Exact& b) { return a += b; }
  friend Exact operator-(Exact a, const Exact& b) { return a -= b; }
  friend Exact operator*(Exact a, std::int64_t factor) { return a.multiply(factor), a; }
  /// The quotient, rounded down. `divisor` is above 0.
  Exact divided_down(std::int64_t divisor) const;

  friend bool operator==(const Exact&, const Exact&) = default;
  friend std::strong_ordering operator<=>(const Exact& a, const Exact& b);

  /// `value` x 2^-fraction_bits, from 0 to 256 of them.
  static Exact of(WideInteger value, int fraction_bits);
  /// The next integer count of 2^-fraction_bits that is no greater, if it is within +-2^126; else
  /// the end of that range.
  WideInteger count_down(int fraction_bits) const;

  /// The next double that is no greater, or no less.
  double rounded_down() const;
  double rounded_up() const;

 private:
  static constexpr int kLimbs = 8;
  static constexpr int kFraction = 256;  // bits after the point

  void add_shifted(WideUnsigned magnitude, int shift);
  void multiply(std::int64_t factor);
  void shift(int bits);  // to the left, or to the right if negative
  void negate();
  bool is_negative() const { return limbs_[kLimbs - 1] >> 63 != 0; }

  std::array<std::uint64_t, kLimbs> limbs_{};  // two's complement, lowest first
};

}  // namespace harpe
