// Harpe's use of AMD GPUs, over scripted libraries (scripted_amd.cc) and sysfs trees as the kernel
// documents them. Neither was checked on an AMD GPU.

#include "harpe/device/hw/rocm/rocm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "harpe/base/test_directory_testing.h"
#include "harpe/device/hw/rocm/amd_sysfs.h"
#include "harpe/device/hw/scripted_library_testing.h"

namespace harpe::device {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Calls `meanwhile` when a caller sleeps, for events during the sleep.
class CallingClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void sleep_until(Instant until) override {
    now_ = until;
    if (meanwhile) meanwhile();
  }
  std::function<void()> meanwhile;

 private:
  Instant now_;
};

class Amd : public ::testing::TestWithParam<const char*> {
 protected:
  Amd() : script_(GetParam()) {
    add_card("card1", "0001:c1:02.1");
    add_card("card12", "0001:c2:02.1");
    put("card1-DP-1/status", "disconnected\n");
    // 75 W, the power in the tree, for the half second of the check.
    clock_.meanwhile = [this] { count_joules(0, 37.5), count_joules(1, 37.5); };
  }

  void put(const fs::path& file, const std::string& content) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << content;
  }
  void add_card(const std::string& card, const std::string& pci) {
    const fs::path device = fs::path(card) / "device";
    const fs::path hwmon = device / "hwmon/hwmon7";
    put(device / "uevent", "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME=" + pci + "\n");
    put(device / "unique_id", "5b6ba9ea1b5c3b2f\n");
    put(device / "gpu_busy_percent", "42\n");
    put(device / "mem_info_vram_used", "12884901888\n");
    put(device / "mem_info_vram_total", "206158430208\n");
    put(device / "pp_dpm_sclk", "S: 95Mhz *\n0: 500Mhz\n1: 1710Mhz\n");
    put(device / "power_dpm_force_performance_level", "auto\n");
    put(device / "pp_od_clk_voltage",
        "GFXCLK:\n0: 500Mhz\n1: 1300Mhz\nMCLK:\n0: 400Mhz\n1: 1600Mhz\n");
    put(hwmon / "power1_average", "75000000\n");
    put(hwmon / "power1_cap", "550000000\n");
    put(hwmon / "power1_cap_min", "0\n");
    put(hwmon / "power1_cap_max", "750000000\n");
    put(hwmon / "power1_cap_default", "560000000\n");
    put(hwmon / "temp1_label", "edge\n");
    put(hwmon / "temp1_input", "30000\n");
    put(hwmon / "temp2_label", "junction\n");
    put(hwmon / "temp2_input", "41500\n");
    put(hwmon / "freq1_label", "sclk\n");
    put(hwmon / "freq1_input", "1234000000\n");
    put(hwmon / "freq2_label", "mclk\n");
    put(hwmon / "freq2_input", "1600000000\n");
  }
  void count_joules(int gpu, double joules) {
    const std::string name = "energy count " + std::to_string(gpu);
    script_.value(name.c_str(),
                  script_.read(name.c_str()) + static_cast<std::uint64_t>(joules * 1e6 / 15.259));
  }
  RocmDevices open() {
    const bool amd_smi = GetParam() == std::string(SCRIPTED_AMD_SMI);
    return open_rocm(amd_smi ? GetParam() : "libharpe-none.so", amd_smi ? "" : GetParam(),
                     root_.path(), clock_);
  }

  ScriptedLibrary script_;
  const TestDirectory root_;
  CallingClock clock_;
};

INSTANTIATE_TEST_SUITE_P(Libraries, Amd, ::testing::Values(SCRIPTED_AMD_SMI, SCRIPTED_ROCM_SMI),
                         [](const auto& library) {
                           return library.index == 0 ? "AmdSmi" : "RocmSmi";
                         });

TEST_P(Amd, AGpuWithoutAnIdentifierIsIdentifiedByItsAddress) {
  put("card12/device/unique_id", "\n");
  const RocmDevices devices = open();
  ASSERT_EQ(devices.gpus.size(), 2U);
  EXPECT_EQ(devices.gpus[1]->identity().uuid, "GPU-0001:c2:02.1");
}

TEST_P(Amd, ReadsIdentityAndEveryValue) {
  const RocmDevices devices = open();
  EXPECT_TRUE(devices.state.available) << devices.state.detail;
  EXPECT_THAT(devices.state.detail, HasSubstr("SMI"));
  ASSERT_EQ(devices.gpus.size(), 2U);
  Gpu& gpu = *devices.gpus[1];
  EXPECT_EQ(gpu.identity().pci, "0001:c2:02.1");
  EXPECT_THAT(gpu.identity().name, HasSubstr("Instinct MI"));
  EXPECT_EQ(gpu.identity().uuid, "GPU-5b6ba9ea1b5c3b2f");
  EXPECT_EQ(gpu.identity().backend, "rocm");
  EXPECT_NEAR(gpu.total_energy()->value, 37.5, 0.001);
  EXPECT_DOUBLE_EQ(gpu.instant_power()->value, 75);
  EXPECT_DOUBLE_EQ(gpu.average_power()->value, 75);
  EXPECT_EQ(gpu.clock(ClockDomain::kGraphics)->value, 1234);
  EXPECT_EQ(gpu.clock(ClockDomain::kMemory)->value, 1600);
  EXPECT_DOUBLE_EQ(gpu.power_limit()->value, 550);
  EXPECT_DOUBLE_EQ(gpu.power_limit_range()->highest.value, 750);
  EXPECT_DOUBLE_EQ(gpu.power_limit_range()->factory.value, 560);
  EXPECT_DOUBLE_EQ(*gpu.temperature(), 41.5);
  EXPECT_DOUBLE_EQ(*gpu.utilisation(), 0.42);
  EXPECT_EQ(gpu.memory()->used_bytes, 12ULL << 30U);
  EXPECT_EQ(gpu.memory()->total_bytes, 192ULL << 30U);
  EXPECT_EQ(gpu.persistence_mode().error().code, ErrorCode::kNotSupported);
  const auto clocks = gpu.supported_clocks(ClockDomain::kGraphics);
  EXPECT_EQ(clocks->front().value, 500);
  EXPECT_EQ(clocks->back().value, 1710);
  EXPECT_EQ(clocks->size(), 26U);
}

TEST_P(Amd, TheSensorOfTheMomentIsPreferredWhereThereIsOne) {
  put("card1/device/hwmon/hwmon7/power1_input", "80000000\n");
  const RocmDevices devices = open();
  EXPECT_DOUBLE_EQ(devices.gpus[0]->instant_power()->value, 80);
  EXPECT_DOUBLE_EQ(devices.gpus[0]->average_power()->value, 75);
}

TEST_P(Amd, SetsTheHighestClockAndMicrowattsAndGoesBackToAuto) {
  const RocmDevices devices = open();
  Gpu& gpu = *devices.gpus[1];
  EXPECT_TRUE(gpu.set_locked_clocks(ClockDomain::kGraphics, {{500}, {1300}}).ok());
  EXPECT_EQ(script_.read("determinism 1"), 1300U);
  EXPECT_TRUE(gpu.set_power_limit(400_W).ok());
  EXPECT_EQ(script_.read("cap 1 0"), 400'000'000U);
  EXPECT_TRUE(gpu.reset_locked_clocks(ClockDomain::kGraphics).ok());
  EXPECT_EQ(script_.read("level 1"), 100U);
  EXPECT_EQ(gpu.set_locked_clocks(ClockDomain::kMemory, {{400}, {1600}}).error().code,
            ErrorCode::kNotSupported);
  EXPECT_FALSE(gpu.set_locked_clocks(ClockDomain::kGraphics, {{1300}, {500}}).ok());
  EXPECT_FALSE(gpu.set_power_limit(Watts{-1}).ok());
  EXPECT_EQ(script_.calls("set_power_cap"), 1);
}

TEST_P(Amd, TellsTheLimitInForceFromThePerformanceLevel) {
  const RocmDevices devices = open();
  Gpu& gpu = *devices.gpus[0];
  EXPECT_EQ(*gpu.locked_clocks(ClockDomain::kGraphics), std::nullopt);
  put("card1/device/power_dpm_force_performance_level", "perf_determinism\n");
  EXPECT_EQ(*gpu.locked_clocks(ClockDomain::kGraphics), (ClockRange{{500}, {1300}}));
  put("card1/device/power_dpm_force_performance_level", "manual\n");
  EXPECT_THAT(gpu.locked_clocks(ClockDomain::kGraphics).error().text(), HasSubstr("'manual'"));
}

TEST_P(Amd, AnEnergyCounterThatDisagreesWithThePowerIsNotUsed) {
  clock_.meanwhile = [this] { count_joules(0, 37.5 * 11), count_joules(1, 37.5 / 2); };
  const RocmDevices devices = open();
  const auto energy = devices.gpus[0]->total_energy();
  ASSERT_FALSE(energy.ok());
  EXPECT_EQ(energy.error().code, ErrorCode::kNotSupported);
  EXPECT_THAT(energy.error().text(), HasSubstr("11 times the energy that its power readings give"));
  EXPECT_TRUE(devices.gpus[1]->total_energy().ok());
}

TEST_P(Amd, ASecondDieThatReportsNothingHasNeitherPowerNorEnergy) {
  put("card12/device/hwmon/hwmon7/power1_average", "0\n");
  const RocmDevices devices = open();
  EXPECT_EQ(devices.gpus[1]->instant_power().error().code, ErrorCode::kNotSupported);
  EXPECT_EQ(devices.gpus[1]->total_energy().error().code, ErrorCode::kNotSupported);
  EXPECT_TRUE(devices.gpus[0]->total_energy().ok());
}

TEST_P(Amd, WithoutATreeThereAreGpusThatCannotBeRead) {
  fs::remove_all(root_ / "card12");
  const RocmDevices devices = open();
  ASSERT_EQ(devices.gpus.size(), 2U);
  EXPECT_EQ(devices.gpus[1]->instant_power().error().code, ErrorCode::kNotSupported);
  EXPECT_EQ(devices.gpus[1]->may_set().error().code, ErrorCode::kNoPermission);
}

TEST_P(Amd, ARefusalSaysWhatWouldHelp) {
  const RocmDevices devices = open();
  script_.result("set_power_cap", GetParam() == std::string(SCRIPTED_AMD_SMI) ? 10 : 4);
  const Status status = devices.gpus[0]->set_power_limit(400_W);
  EXPECT_EQ(status.error().code, ErrorCode::kNoPermission);
  EXPECT_THAT(status.error().text(), HasSubstr("SMI words; use the agent (harpe agent)"));
}

TEST_P(Amd, ALibraryThatCannotStartIsAStateAndIsNotShutDown) {
  script_.result("init", 5);
  const RocmDevices devices = open();
  EXPECT_FALSE(devices.state.available);
  EXPECT_THAT(devices.state.detail, HasSubstr("cannot start"));
  EXPECT_EQ(script_.calls("shut_down"), 0);
}

TEST_P(Amd, StartsOnceAndShutsDownWithTheLastGpu) {
  RocmDevices devices = open();
  devices.gpus.pop_back();
  EXPECT_EQ(script_.calls("shut_down"), 0);
  devices.gpus.clear();
  EXPECT_EQ(script_.calls("init"), 1);
  EXPECT_EQ(script_.calls("shut_down"), 1);
}

TEST_P(Amd, OpeningSetsNothing) {
  const RocmDevices devices = open();
  EXPECT_EQ(script_.calls("set_power_cap") + script_.calls("set_determinism") +
                script_.calls("set_level"),
            0);
}

TEST(AmdLibraries, NoneAndOthersAreStates) {
  ManualClock clock;
  const RocmDevices none = open_rocm("libharpe-no.so", "libharpe-nor.so", "/nowhere", clock);
  EXPECT_FALSE(none.state.available);
  EXPECT_THAT(none.state.detail, HasSubstr("libharpe-no.so and libharpe-nor.so not found"));
  const RocmDevices other = open_rocm("libc.so.6", "", "/nowhere", clock);
  EXPECT_THAT(other.state.detail, HasSubstr("not AMD SMI"));
  // The second library is used if the first does not work.
  const RocmDevices second = open_rocm("libc.so.6", SCRIPTED_ROCM_SMI, "/nowhere", clock);
  EXPECT_EQ(second.state.detail, "ROCm SMI");
}

TEST(AmdClockTables, TakeWhatTheKernelWritesAndPassOverTheRest) {
  EXPECT_EQ(parse_clock_levels("0: 132Mhz \n1: 800Mhz *\n2: 1700Mhz\n"),
            (std::vector<Megahertz>{{132}, {800}, {1700}}));
  EXPECT_TRUE(parse_clock_levels("S: 19Mhz *\n\n:\n1:\nx: 5Mhz\n0: -5Mhz\n2: 1e9Mhz\n").empty());
  EXPECT_EQ(parse_highest_graphics_clock("OD_SCLK:\n0: 500Mhz\n1: 2100Mhz\n"), Megahertz{2100});
  EXPECT_EQ(parse_highest_graphics_clock("OD_MCLK:\n1: 900Mhz\n"), std::nullopt);
}

}  // namespace
}  // namespace harpe::device
