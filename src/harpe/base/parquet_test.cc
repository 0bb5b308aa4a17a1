// The bytes of a Parquet file. tests/parquet_test.py checks that Apache Arrow can read them.

#include "harpe/base/parquet.h"

#include <gtest/gtest.h>

#include <cstring>

namespace harpe {
namespace {

TEST(Parquet, HasItsValuesBetweenItsMagicNumbers) {
  const std::vector<double> times = {0, 0.01}, watts = {300.5, 80};
  const std::string file = parquet_table({{"time_s", times}, {"job_w", watts}});
  EXPECT_EQ(file.substr(0, 4), "PAR1");
  EXPECT_EQ(file.substr(file.size() - 4), "PAR1");
  for (const double value : {0.01, 300.5, 80.0}) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    EXPECT_NE(file.find(bytes), std::string::npos) << value;
  }
  EXPECT_NE(file.find("job_w"), std::string::npos);
  // The length of the footer precedes the last magic number. The footer follows the pages.
  std::uint32_t footer = 0;
  std::memcpy(&footer, file.data() + file.size() - 8, sizeof footer);
  EXPECT_LT(footer, file.size() - 8 - 4 * sizeof(double));
  EXPECT_LT(file.find("time_s"), file.find("job_w"));
  EXPECT_GE(file.find("time_s"), file.size() - 8 - footer);
}

TEST(Parquet, MayHaveNoRow) {
  const std::vector<double> none;
  EXPECT_EQ(parquet_table({{"time_s", none}}).substr(0, 4), "PAR1");
}

}  // namespace
}  // namespace harpe
