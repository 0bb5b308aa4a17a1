// CPU energy from directory trees with Linux's layout, made in a temporary directory.

#include "harpe/device/hw/rapl/rapl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "harpe/base/test_directory_testing.h"

namespace harpe::device {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RaplTree : public ::testing::Test {
 protected:
  void put(const fs::path& file, const std::string& content) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << content;
  }
  void zone(const std::string& path, const std::string& name, const std::string& energy_uj,
            const std::string& range_uj = "262143328850") {
    put(path + "/name", name + "\n");
    put(path + "/energy_uj", energy_uj + "\n");
    put(path + "/max_energy_range_uj", range_uj + "\n");
  }
  RaplDevices open() { return open_rapl(root_.path(), clock_); }

  static std::vector<std::string> names(const RaplDevices& devices) {
    std::vector<std::string> names;
    for (const auto& cpu : devices.cpus) names.push_back(cpu->name());
    return names;
  }

  const TestDirectory root_;
  ManualClock clock_;
};

TEST_F(RaplTree, PackagesComeInOrderWithTheirMemory) {
  zone("intel-rapl:1", "package-1", "5000000");
  zone("intel-rapl:0", "package-0", "1000000");
  zone("intel-rapl:0/intel-rapl:0:0", "core", "77");
  zone("intel-rapl:0/intel-rapl:0:1", "dram", "2000000", "65712999613");
  zone("intel-rapl:2", "psys", "123456");
  put("intel-rapl/enabled", "1\n");
  const RaplDevices devices = open();
  EXPECT_TRUE(devices.state.available);
  EXPECT_EQ(devices.state.detail, "2 CPU packages, 1 with memory");
  ASSERT_THAT(names(devices), ElementsAre("package-0", "package-1"));
  EXPECT_TRUE(devices.cpus[0]->has_dram());
  EXPECT_FALSE(devices.cpus[1]->has_dram());

  clock_.advance(1_s);
  put("intel-rapl:0/energy_uj", "31000000\n");
  put("intel-rapl:0/intel-rapl:0:0/energy_uj", "9000077\n");
  put("intel-rapl:0/intel-rapl:0:1/energy_uj", "5000000\n");
  const Result<CpuEnergy> energy = devices.cpus[0]->total_energy();
  ASSERT_TRUE(energy.ok());
  EXPECT_DOUBLE_EQ(energy->package.value, 30);  // core is part of the package and not added
  EXPECT_DOUBLE_EQ(energy->dram->value, 3);
}

TEST_F(RaplTree, MemoryIsFoundBesideItsPackageToo) {
  zone("intel-rapl:0", "package-0", "1");
  zone("intel-rapl:0:2", "dram", "1");
  zone("intel-rapl:1", "package-1", "1");
  const RaplDevices devices = open();
  ASSERT_THAT(names(devices), ElementsAre("package-0", "package-1"));
  EXPECT_TRUE(devices.cpus[0]->has_dram());
  EXPECT_FALSE(devices.cpus[1]->has_dram());
}

TEST_F(RaplTree, DiesAreMeteredEachInOrderOfNumber) {
  zone("intel-rapl:0", "package-0-die-10", "1");
  zone("intel-rapl:1", "package-1-die-0", "1");
  zone("intel-rapl:2", "package-0-die-2", "1");
  zone("intel-rapl:3", "package-0-die-0", "1");
  EXPECT_THAT(names(open()), ElementsAre("package-0-die-0", "package-0-die-2", "package-0-die-10",
                                         "package-1-die-0"));
}

TEST_F(RaplTree, APackageOverTwoKindsOfRegistersCountsOnce) {
  zone("intel-rapl-mmio:0", "package-0", "999");
  zone("intel-rapl:0", "package-0", "1000000");
  // The class directory also lists the zones below the control type.
  zone("intel-rapl/intel-rapl:0", "package-0", "1000000");
  const RaplDevices devices = open();
  ASSERT_EQ(devices.cpus.size(), 1U);
  clock_.advance(1_s);
  put("intel-rapl:0/energy_uj", "3000000");
  EXPECT_DOUBLE_EQ(devices.cpus[0]->total_energy()->package.value, 2);
}

TEST_F(RaplTree, TheOtherRegistersServeWhereTheFirstHaveNoCounter) {
  zone("intel-rapl-mmio:0", "package-0", "999");
  put("intel-rapl:0/name", "package-0\n");
  EXPECT_TRUE(open().state.available);
}

TEST_F(RaplTree, OnlyTheControlTypeMountedInAContainerIsEnough) {
  zone("intel-rapl/intel-rapl:0", "package-0", "1");
  zone("intel-rapl/intel-rapl:0/intel-rapl:0:0", "dram", "1");
  const RaplDevices devices = open();
  ASSERT_EQ(devices.cpus.size(), 1U);
  EXPECT_TRUE(devices.cpus[0]->has_dram());
}

TEST_F(RaplTree, AWrapIsCountedAndANewStartIsNot) {
  zone("intel-rapl:0", "package-0", "262143000000");
  const RaplDevices devices = open();
  clock_.advance(1_s);
  put("intel-rapl:0/energy_uj", "99671150");
  EXPECT_DOUBLE_EQ(devices.cpus[0]->total_energy()->package.value, 100);
  clock_.advance(1_s);
  put("intel-rapl:0/energy_uj", "1000000");  // a wrap in one second would need 262 kW
  EXPECT_DOUBLE_EQ(devices.cpus[0]->total_energy()->package.value, 101);
}

TEST_F(RaplTree, ACounterThatMayNotBeReadSaysWhatWouldHelp) {
  zone("intel-rapl:0", "package-0", "1");
  for (const char* directory : {"", "intel-rapl:0"}) {
    fs::permissions(root_ / directory, fs::perms::all);
  }
  fs::permissions(root_ / "intel-rapl:0/name", fs::perms::all);
  fs::permissions(root_ / "intel-rapl:0/energy_uj", fs::perms::none);
  const uid_t uid = ::geteuid();
  if (uid == 0) {
    ASSERT_EQ(::seteuid(65534), 0);  // root may read everything
  }
  const RaplDevices devices = open();
  if (uid == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_FALSE(devices.state.available);
  EXPECT_THAT(devices.state.detail, HasSubstr("ermission denied; only root may read CPU energy"));
  ASSERT_EQ(devices.cpus.size(), 1U);
}

TEST_F(RaplTree, WhatIsBrokenIsAnErrorOfThatPackageAlone) {
  zone("intel-rapl:0", "package-0", "many");
  zone("intel-rapl:1", "package-1", "-5");
  zone("intel-rapl:2", "package-2", "7");
  put("intel-rapl:3/name", "package-3\n");
  zone("intel-rapl:4", "packet-4", "7");
  zone("intel-rapl:x", "", "7");
  const RaplDevices devices = open();
  EXPECT_FALSE(devices.state.available);
  EXPECT_THAT(devices.state.detail, HasSubstr("expected a number of microjoules, found 'many'"));
  ASSERT_EQ(devices.cpus.size(), 4U);
  EXPECT_EQ(devices.cpus[0]->total_energy().error().code, ErrorCode::kIo);
  EXPECT_EQ(devices.cpus[1]->total_energy().error().code, ErrorCode::kIo);
  EXPECT_TRUE(devices.cpus[2]->total_energy().ok());
  EXPECT_EQ(devices.cpus[3]->total_energy().error().code, ErrorCode::kUnavailable);
}

TEST_F(RaplTree, NoTreeAndAnEmptyTreeAreStatesWithARemedy) {
  EXPECT_THAT(open().state.detail, HasSubstr("modprobe intel_rapl_msr"));
  const RaplDevices devices = open_rapl(root_ / "none", clock_);
  EXPECT_FALSE(devices.state.available);
  EXPECT_THAT(devices.state.detail, HasSubstr("virtual machines and containers"));
}

TEST(PackageName, IsReadExactly) {
  EXPECT_EQ(parse_package_name("package-12\n"), (PackageName{12, 0}));
  EXPECT_EQ(parse_package_name("package-1-die-3"), (PackageName{1, 3}));
  for (const char* other : {"", "package-", "package-x", "package-1-", "package-1-die-",
                            "package-1-die-2x", "package-99999", "psys", "core", "package-+1"}) {
    EXPECT_EQ(parse_package_name(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace harpe::device
