#include "harpe/plan/frontier/exact.h"

#include <bit>
#include <cmath>
#include <limits>

#include "harpe/base/check.h"

namespace harpe::plan {
namespace {

constexpr double kLeast = 0x1p-60, kMost = 0x1p40;
constexpr int kMantissa = std::numeric_limits<double>::digits;  // 53

/// value = mantissa x 2^exponent.
struct Parts {
  std::int64_t mantissa = 0;
  int exponent = 0;
};

Parts parts_of(double value) {
  if (value == 0) return {};
  HARPE_CHECK(fits(std::abs(value)), "numbers are checked before they are summed");
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // from 0.5 to 1
  return {static_cast<std::int64_t>(std::ldexp(fraction, kMantissa)), exponent - kMantissa};
}

}  // namespace

bool fits(double value) {
  return value == 0 || (value >= kLeast && value <= kMost);  // false for NaN
}

Exact::Exact(double value) {
  const Parts parts = parts_of(value);
  const bool negative = parts.mantissa < 0;
  set(static_cast<WideUnsigned>(negative ? -parts.mantissa : parts.mantissa),
      parts.exponent + kFraction);
  if (negative) negate();
}

Exact Exact::product(double a, double b) {
  const Parts x = parts_of(a), y = parts_of(b);
  const WideInteger mantissa = static_cast<WideInteger>(x.mantissa) * y.mantissa;  // 106 bits
  Exact result;
  result.set(static_cast<WideUnsigned>(mantissa < 0 ? -mantissa : mantissa),
             x.exponent + y.exponent + kFraction);
  if (mantissa < 0) result.negate();
  return result;
}

Exact Exact::product(const Exact& a, double b) {
  const Parts parts = parts_of(b);
  Exact result = a * parts.mantissa;
  const bool negative = result.is_negative();
  if (negative) result.negate();
  result.shift(parts.exponent);
  if (negative) result.negate();
  return result;
}

void Exact::shift(int bits) {
  const int limbs = bits >= 0 ? bits / 64 : -((-bits + 63) / 64);
  const int rest = bits - 64 * limbs;  // to the left, from 0 to 63
  std::array<std::uint64_t, kLimbs> shifted{};
  for (int i = 0; i < kLimbs; ++i) {
    if (limbs_[i] == 0) continue;
    const int low = i + limbs, high = low + 1;
    const std::uint64_t above = rest == 0 ? 0 : limbs_[i] >> (64 - rest);
    HARPE_CHECK(low >= 0 || (low == -1 && limbs_[i] << rest == 0), "no bit is lost below 2^-256");
    HARPE_CHECK(above == 0 || high < kLimbs, "a product is below 2^255");
    HARPE_CHECK(low < kLimbs, "a product is below 2^255");
    if (low >= 0) shifted[low] |= limbs_[i] << rest;
    if (above != 0) shifted[high] |= above;
  }
  limbs_ = shifted;
}

void Exact::set(WideUnsigned magnitude, int shift) {
  if (magnitude == 0) return;
  HARPE_CHECK(shift >= 0, "the last bit of a product is above 2^-256");
  const int limb = shift / 64, bits = shift % 64;
  const auto low = static_cast<std::uint64_t>(magnitude);
  const auto high = static_cast<std::uint64_t>(magnitude >> 64);
  const std::uint64_t shifted[] = {low << bits,
                                   bits == 0 ? high : (high << bits) | (low >> (64 - bits)),
                                   bits == 0 ? 0 : high >> (64 - bits)};
  HARPE_CHECK(limb + 2 < kLimbs, "a product is below 2^256");
  for (int i = 0; i < 3; ++i) limbs_[limb + i] = shifted[i];
}

Exact& Exact::operator+=(const Exact& other) {
  const bool negative = is_negative(), same_sign = negative == other.is_negative();
  WideUnsigned carry = 0;
  for (int i = 0; i < kLimbs; ++i) {
    carry += limbs_[i];
    carry += other.limbs_[i];
    limbs_[i] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  HARPE_CHECK(!same_sign || is_negative() == negative, "a sum is below 2^255");
  return *this;
}

Exact& Exact::operator-=(const Exact& other) {
  Exact opposite = other;
  opposite.negate();
  return *this += opposite;
}

void Exact::negate() {
  std::uint64_t carry = 1;
  for (std::uint64_t& limb : limbs_) {
    limb = ~limb + carry;
    carry = carry == 1 && limb == 0 ? 1 : 0;
  }
}

void Exact::multiply(std::int64_t factor) {
  const bool negative = is_negative() != (factor < 0);
  if (is_negative()) negate();
  const std::uint64_t size =
      factor < 0 ? ~static_cast<std::uint64_t>(factor) + 1 : static_cast<std::uint64_t>(factor);
  WideUnsigned carry = 0;
  for (std::uint64_t& limb : limbs_) {
    carry += static_cast<WideUnsigned>(limb) * size;
    limb = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  HARPE_CHECK(carry == 0 && !is_negative(), "a multiple is below 2^255");
  if (negative) negate();
}

Exact Exact::divided_down(std::int64_t divisor) const {
  HARPE_CHECK(divisor > 0, "what is shared is shared among some");
  Exact result = *this;
  const bool negative = is_negative();
  if (negative) result.negate();
  WideUnsigned rest = 0;
  for (int i = kLimbs - 1; i >= 0; --i) {
    rest = (rest << 64) | result.limbs_[i];
    result.limbs_[i] = static_cast<std::uint64_t>(rest / static_cast<std::uint64_t>(divisor));
    rest %= static_cast<std::uint64_t>(divisor);
  }
  if (!negative) return result;
  if (rest != 0) {  // down is away from 0
    Exact unit;
    unit.limbs_[0] = 1;
    result += unit;
  }
  result.negate();
  return result;
}

Exact Exact::of(WideInteger value, int fraction_bits) {
  Exact result;
  result.set(static_cast<WideUnsigned>(value < 0 ? -value : value), kFraction - fraction_bits);
  if (value < 0) result.negate();
  return result;
}

WideInteger Exact::count_down(int fraction_bits) const {
  constexpr WideInteger kEnd = static_cast<WideInteger>(1) << 126;
  const int drop = kFraction - fraction_bits;  // bits at the lower end
  if (*this >= of(kEnd, fraction_bits)) return kEnd;
  if (*this <= of(-kEnd, fraction_bits)) return -kEnd;
  // In two's complement, dropping bits rounds down.
  WideUnsigned count = 0;
  for (int i = kLimbs - 1; i >= 0; --i) {
    const int at = 64 * i - drop;  // the position of the limb's lowest bit in the count
    if (at >= 128 || at <= -64) continue;
    const WideUnsigned limb = limbs_[i];
    count |= at >= 0 ? limb << at : limb >> -at;
  }
  return static_cast<WideInteger>(count);
}

std::strong_ordering operator<=>(const Exact& a, const Exact& b) {
  if (a.is_negative() != b.is_negative()) {
    return a.is_negative() ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  for (int i = Exact::kLimbs - 1; i >= 0; --i) {
    if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] <=> b.limbs_[i];
  }
  return std::strong_ordering::equal;
}

double Exact::rounded_down() const {
  if (is_negative()) {
    Exact opposite = *this;
    opposite.negate();
    return -opposite.rounded_up();
  }
  for (int i = kLimbs - 1; i >= 0; --i) {
    if (limbs_[i] == 0) continue;
    // Keeps the 53 highest bits and drops the others.
    const int zeros = std::countl_zero(limbs_[i]);
    const std::uint64_t below = i > 0 ? limbs_[i - 1] : 0;
    const std::uint64_t top =
        zeros == 0 ? limbs_[i] : (limbs_[i] << zeros) | (below >> (64 - zeros));
    return std::ldexp(static_cast<double>(top >> 11), 64 * i - zeros + 11 - kFraction);
  }
  return 0;
}

double Exact::rounded_up() const {
  if (is_negative()) {
    Exact opposite = *this;
    opposite.negate();
    return -opposite.rounded_down();
  }
  const double down = rounded_down();
  // Outside the range of `fits` it cannot be compared, so the next double is returned, which may be
  // one too high.
  if (down > kMost || (down != 0 && down < kLeast)) return std::nextafter(down, INFINITY);
  return Exact(down) == *this ? down : std::nextafter(down, INFINITY);
}

}  // namespace harpe::plan
