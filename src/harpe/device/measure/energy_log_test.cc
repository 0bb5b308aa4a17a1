// Rows of ended windows in a CSV file.

#include "harpe/device/measure/energy_log.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"

namespace harpe::device {
namespace {

using ::testing::HasSubstr;

WindowEnergy window(const std::string& name) {
  WindowEnergy result{.name = name, .started_at = 1700000000.25, .time = {1.5}, .devices = {}};
  for (const auto kind :
       {DeviceEnergy::Kind::kGpu, DeviceEnergy::Kind::kCpu, DeviceEnergy::Kind::kDram}) {
    DeviceEnergy device;
    device.kind = kind;
    device.energy.source = EnergySource::kCounter;
    device.energy.energy = {12.25};
    device.energy.error = {0.125};
    result.devices.push_back(device);
  }
  return result;
}

class Log : public testing::Test {
 protected:
  Log() { std::filesystem::create_directories(folder_); }
  ~Log() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  ("energy_log." + std::to_string(static_cast<long>(::getpid())));
  std::filesystem::path path_ = folder_ / "log.csv";
};

TEST_F(Log, RowsFollowOneHeading) {
  ASSERT_TRUE(EnergyLog(path_).append(window("a")).ok());
  ASSERT_TRUE(EnergyLog(path_).append(window("b")).ok()) << "by another run of the program";
  EXPECT_EQ(*read_file(path_),
            "start_time,window_name,elapsed_time,gpu0_energy,cpu0_energy,dram0_energy,"
            "gpu0_error,cpu0_error,dram0_error\n"
            "1700000000.250000,a,1.500000,12.250,12.250,12.250,0.125,0.125,0.125\n"
            "1700000000.250000,b,1.500000,12.250,12.250,12.250,0.125,0.125,0.125\n");
}

TEST_F(Log, AnyNameComesBackFromTheFileAsOneCell) {
  for (const std::string name :
       {"plain", "a,b", "say \"hi\"", " spaces ", "", "#comment", "line\nbreak", "ünïcode"}) {
    std::filesystem::remove(path_);
    ASSERT_TRUE(EnergyLog(path_).append(window(name)).ok());
    Diagnostics diagnostics;
    const auto rows = split_csv(*read_file(path_), diagnostics);
    EXPECT_TRUE(diagnostics.empty()) << name;
    ASSERT_EQ(rows.size(), 2) << name;
    ASSERT_EQ(rows[1].cells.size(), 9) << name;
    std::string expected = name;
    std::ranges::replace(expected, '\n', ' ');
    EXPECT_EQ(rows[1].cells[1].text, expected);
  }
}

TEST_F(Log, OtherDevicesAreNotMixedIn) {
  ASSERT_TRUE(EnergyLog(path_).append(window("a")).ok());
  WindowEnergy other = window("b");
  other.devices.pop_back();
  const Status status = EnergyLog(path_).append(other);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("name another file"));
}

TEST_F(Log, ADeviceThatToldNothingHasEmptyCells) {
  WindowEnergy silent = window("a");
  silent.devices[1].energy = {};
  ASSERT_TRUE(EnergyLog(path_).append(silent).ok());
  EXPECT_THAT(*read_file(path_), HasSubstr(",12.250,,12.250,0.125,,0.125\n"));
}

TEST_F(Log, ARowCutShortByAFullDiskDoesNotSpoilTheNext) {
  ASSERT_TRUE(EnergyLog(path_).append(window("a")).ok());
  std::ofstream(path_, std::ios::app) << "1700000000.2500";
  ASSERT_TRUE(EnergyLog(path_).append(window("b")).ok());
  EXPECT_THAT(*read_file(path_), HasSubstr("1700000000.2500\n1700000000.250000,b,"));
}

TEST_F(Log, AFolderThatIsNotThereIsNamed) {
  const Status status = EnergyLog(folder_ / "missing" / "log.csv").append(window("a"));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("missing/log.csv"));
}

}  // namespace
}  // namespace harpe::device
