#include "harpe/base/units.h"

#include <gtest/gtest.h>

#include <concepts>

namespace harpe {
namespace {

template <class A, class B>
concept CanAdd = requires(A a, B b) { a + b; };
template <class A, class B>
concept CanMultiply = requires(A a, B b) { a* b; };

static_assert(CanAdd<Seconds, Seconds>);
static_assert(!CanAdd<Seconds, Joules>);
static_assert(!CanMultiply<Joules, Joules>);
static_assert(std::same_as<decltype(Watts{} * Seconds{}), Joules>);
static_assert(std::same_as<decltype(Joules{} / Seconds{}), Watts>);
static_assert(std::same_as<decltype(Joules{} / Watts{}), Seconds>);

TEST(Units, PowerTimesTimeIsEnergy) {
  EXPECT_EQ(80_W * 0.5_s, 40_J);
  EXPECT_EQ(0.5_s * 80_W, 40_J);
  EXPECT_EQ(40_J / 0.5_s, 80_W);
  EXPECT_EQ(40_J / 80_W, 0.5_s);
}

TEST(Units, ArithmeticWithinADimensionIsThatOfNumbers) {
  Seconds time = 2_s;
  time += 1.5_s;
  time -= 0.5_s;
  EXPECT_EQ(time, 3_s);
  EXPECT_EQ(2 * time - time / 3.0, 5_s);
  EXPECT_EQ(time / 2_s, 1.5);
  EXPECT_LT(-time, 0_s);
  EXPECT_LT(900_MHz, 1410_MHz);
}

}  // namespace
}  // namespace harpe
