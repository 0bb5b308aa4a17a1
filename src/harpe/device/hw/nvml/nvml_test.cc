// Harpe's use of NVML, over a scripted library (scripted_nvml.cc).

#include "harpe/device/hw/nvml/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/device/hw/scripted_library_testing.h"

namespace harpe::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Gpu> open_first(const char* library) {
  NvmlDevices devices = open_nvml(library);
  EXPECT_TRUE(devices.state.available) << devices.state.detail;
  return devices.gpus.empty() ? nullptr : std::move(devices.gpus.front());
}

TEST(Nvml, ReadsIdentityAndEveryValue) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.value("field 186 0", 251000);
  script.value("field 185 0", 249000);
  NvmlDevices devices = open_nvml(SCRIPTED_NVML);
  EXPECT_EQ(devices.state.detail, "driver 550.54.15");
  ASSERT_EQ(devices.gpus.size(), 1U);
  Gpu& gpu = *devices.gpus[0];
  EXPECT_EQ(gpu.identity().name, "NVIDIA A40");
  EXPECT_EQ(gpu.identity().uuid, "GPU-7a5e0001-0000-0000-0000-000000000000");
  EXPECT_EQ(gpu.identity().pci, "0001:c1:1f.0");
  EXPECT_EQ(gpu.identity().backend, "nvml");
  EXPECT_FALSE(gpu.identity().is_mig);
  EXPECT_EQ(gpu.device_file(), "/dev/nvidia7");
  EXPECT_EQ(gpu.owner_lock(), "/run/harpe/locks/GPU-7a5e0001-0000-0000-0000-000000000000.lock");
  EXPECT_DOUBLE_EQ(gpu.identity().speed, 10752.0 * 1740);
  EXPECT_DOUBLE_EQ(gpu.total_energy()->value, 123.456);
  EXPECT_DOUBLE_EQ(gpu.instant_power()->value, 251);
  EXPECT_DOUBLE_EQ(gpu.average_power()->value, 249);
  EXPECT_EQ(gpu.power_scope(), PowerScope::kGpu);
  EXPECT_EQ(gpu.clock(ClockDomain::kGraphics)->value, 1400);
  EXPECT_EQ(gpu.clock(ClockDomain::kMemory)->value, 405);
  EXPECT_DOUBLE_EQ(gpu.power_limit()->value, 300);
  EXPECT_DOUBLE_EQ(gpu.enforced_power_limit()->value, 280);
  EXPECT_DOUBLE_EQ(gpu.power_limit_range()->lowest.value, 100);
  EXPECT_DOUBLE_EQ(gpu.power_limit_range()->highest.value, 300);
  EXPECT_DOUBLE_EQ(gpu.power_limit_range()->factory.value, 290);
  EXPECT_DOUBLE_EQ(*gpu.temperature(), -3);
  EXPECT_DOUBLE_EQ(*gpu.utilisation(), 0.75);
  EXPECT_EQ(gpu.memory()->used_bytes, 12ULL << 30U);
  EXPECT_EQ(gpu.memory()->total_bytes, 48ULL << 30U);
  EXPECT_EQ(gpu.event_reasons()->text(), "power cap, hardware thermal");
  EXPECT_TRUE(*gpu.persistence_mode());
  EXPECT_EQ(*gpu.processes(), (std::vector<std::int64_t>{4321, 17}));
  EXPECT_EQ(gpu.locked_clocks(ClockDomain::kGraphics).error().code, ErrorCode::kNotSupported);
}

TEST(Nvml, AGpuWithoutAUuidIsIdentifiedByItsAddress) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.result("nvmlDeviceGetUUID", 3);
  EXPECT_EQ(open_first(SCRIPTED_NVML)->identity().uuid, "GPU-0001:c1:1f.0");
}

TEST(Nvml, ListsTheClocksOfTheHighestMemoryClockRising) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto gpu = open_first(SCRIPTED_NVML);
  const auto clocks = gpu->supported_clocks(ClockDomain::kGraphics);
  ASSERT_EQ(clocks->size(), 103U);
  EXPECT_EQ(clocks->front().value, 210);
  EXPECT_EQ(clocks->back().value, 1740);
  EXPECT_EQ(gpu->supported_clocks(ClockDomain::kMemory)->front().value, 405);
}

TEST(Nvml, SetsWholeMilliwattsAndBothDomains) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto gpu = open_first(SCRIPTED_NVML);
  EXPECT_TRUE(gpu->set_power_limit(Watts{250.0004}).ok());
  EXPECT_EQ(script.read("limit"), 250000U);
  EXPECT_TRUE(gpu->set_locked_clocks(ClockDomain::kGraphics, {{210}, {1410}}).ok());
  EXPECT_EQ(script.read("locked"), 21001410U);
  EXPECT_TRUE(gpu->set_locked_clocks(ClockDomain::kMemory, {{405}, {405}}).ok());
  EXPECT_EQ(script.read("memory locked"), 40500405U);
  EXPECT_TRUE(gpu->reset_locked_clocks(ClockDomain::kGraphics).ok());
  EXPECT_TRUE(gpu->reset_locked_clocks(ClockDomain::kMemory).ok());
  EXPECT_EQ(script.calls("nvmlDeviceResetGpuLockedClocks"), 1);
  EXPECT_EQ(script.calls("nvmlDeviceResetMemoryLockedClocks"), 1);
  EXPECT_TRUE(gpu->set_persistence_mode(false).ok());
  EXPECT_FALSE(*gpu->persistence_mode());
}

TEST(Nvml, NeverAsksTheDriverForNonsense) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto gpu = open_first(SCRIPTED_NVML);
  for (const double watts : {-1.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(gpu->set_power_limit(Watts{watts}).error().code, ErrorCode::kInvalidInput);
  }
  EXPECT_FALSE(gpu->set_locked_clocks(ClockDomain::kGraphics, {{1410}, {210}}).ok());
  EXPECT_FALSE(gpu->set_locked_clocks(ClockDomain::kGraphics, {{-5}, {210}}).ok());
  EXPECT_EQ(script.calls("nvmlDeviceSetPowerManagementLimit"), 0);
  EXPECT_EQ(script.calls("nvmlDeviceSetGpuLockedClocks"), 0);
}

TEST(Nvml, OpeningAndReadingSetsNothing) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto gpu = open_first(SCRIPTED_NVML);
  (void)gpu->may_set();
  (void)gpu->total_energy();
  for (const char* function :
       {"nvmlDeviceSetPersistenceMode", "nvmlDeviceSetPowerManagementLimit",
        "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetMemoryLockedClocks",
        "nvmlDeviceResetGpuLockedClocks", "nvmlDeviceResetMemoryLockedClocks"}) {
    EXPECT_EQ(script.calls(function), 0) << function;
  }
}

TEST(Nvml, ErrorsHaveTheirCodeNvmlsWordsAndARemedy) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto gpu = open_first(SCRIPTED_NVML);
  const std::vector<std::tuple<int, ErrorCode, const char*>> cases = {
      {2, ErrorCode::kInvalidInput, ""},
      {3, ErrorCode::kNotSupported, "does not support setting a power limit"},
      {4, ErrorCode::kNoPermission, "Insufficient Permissions; use the agent (harpe agent)"},
      {6, ErrorCode::kNotFound, ""},
      {9, ErrorCode::kUnavailable, "modprobe nvidia"},
      {10, ErrorCode::kUnavailable, "try again"},
      {15, ErrorCode::kUnavailable, "fell off the bus"},
      {16, ErrorCode::kUnavailable, "nvidia-smi --gpu-reset"},
      {18, ErrorCode::kUnavailable, "the driver was updated"},
      {19, ErrorCode::kConflict, "another program"},
      {24, ErrorCode::kInvalidInput, ""},
      {25, ErrorCode::kNotSupported, ""},
      {27, ErrorCode::kUnavailable, "try again"},
      {999, ErrorCode::kUnavailable, "Some Error"},
      {-7, ErrorCode::kUnavailable, "Some Error"}};
  for (const auto& [result, code, words] : cases) {
    script.result("nvmlDeviceSetPowerManagementLimit", result);
    const Status status = gpu->set_power_limit(200_W);
    ASSERT_FALSE(status.ok()) << result;
    EXPECT_EQ(status.error().code, code) << result;
    EXPECT_THAT(status.error().text(), AllOf(HasSubstr("NVIDIA A40 (GPU 0)"), HasSubstr(words)));
  }
}

TEST(Nvml, ADriverThatCannotStartIsAStateWithTheRemedy) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.result("nvmlInit_v2", 9);
  const NvmlDevices devices = open_nvml(SCRIPTED_NVML);
  EXPECT_FALSE(devices.state.available);
  EXPECT_THAT(devices.state.detail, HasSubstr("modprobe nvidia"));
  EXPECT_EQ(script.calls("nvmlShutdown"), 0);
}

TEST(Nvml, ALostGpuLeavesTheOthers) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.value("count", 3);
  script.result("nvmlDeviceGetHandleByIndex_v2 1", 15);
  const NvmlDevices devices = open_nvml(SCRIPTED_NVML);
  EXPECT_TRUE(devices.state.available);
  EXPECT_EQ(devices.gpus.size(), 2U);
  EXPECT_THAT(devices.state.detail, HasSubstr("GPU 1 of NVML cannot be used"));
}

TEST(Nvml, StartsOnceAndShutsDownWithTheLastGpu) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.value("count", 3);
  NvmlDevices devices = open_nvml(SCRIPTED_NVML);
  devices.gpus.pop_back();
  devices.gpus.pop_back();
  EXPECT_EQ(script.calls("nvmlShutdown"), 0);
  devices.gpus.clear();
  EXPECT_EQ(script.calls("nvmlInit_v2"), 1);
  EXPECT_EQ(script.calls("nvmlShutdown"), 1);
}

TEST(Nvml, PowerUsageStandsInForMissingFields) {
  ScriptedLibrary script(SCRIPTED_NVML);
  const auto ampere = open_first(SCRIPTED_NVML);
  EXPECT_DOUBLE_EQ(ampere->instant_power()->value, 250.5);
  EXPECT_DOUBLE_EQ(ampere->average_power()->value, 250.5);
  // On GA100 and before Ampere the value is not an average.
  script.value("ga100", 1);
  EXPECT_EQ(open_first(SCRIPTED_NVML)->average_power().error().code, ErrorCode::kNotSupported);
  script.value("ga100", 0);
  script.value("architecture", 5);
  const auto volta = open_first(SCRIPTED_NVML);
  EXPECT_DOUBLE_EQ(volta->instant_power()->value, 250.5);
  EXPECT_EQ(volta->average_power().error().code, ErrorCode::kNotSupported);
}

TEST(Nvml, ASuperchipThatMetersOnlyItsModuleSaysSo) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.value("field 186 1", 600000);
  script.value("field 185 1", 590000);
  script.value("field 191 1", 5000000);
  const auto gpu = open_first(SCRIPTED_NVML);
  EXPECT_EQ(gpu->power_scope(), PowerScope::kModule);
  EXPECT_DOUBLE_EQ(gpu->instant_power()->value, 600);
  EXPECT_DOUBLE_EQ(gpu->average_power()->value, 590);
  EXPECT_DOUBLE_EQ(gpu->total_energy()->value, 5000);
}

TEST(Nvml, ADividedGpuIsReadButNotSet) {
  ScriptedLibrary script(SCRIPTED_NVML);
  script.value("mig", 1);
  const auto gpu = open_first(SCRIPTED_NVML);
  EXPECT_TRUE(gpu->identity().is_mig);
  EXPECT_TRUE(gpu->total_energy().ok());
  for (const Status& status : {gpu->set_power_limit(200_W),
                               gpu->set_locked_clocks(ClockDomain::kGraphics, {{210}, {1410}}),
                               gpu->reset_locked_clocks(ClockDomain::kGraphics), gpu->may_set()}) {
    EXPECT_EQ(status.error().code, ErrorCode::kNotSupported);
    EXPECT_THAT(status.error().text(),
                HasSubstr("share its clocks, its power and its power limit"));
  }
  EXPECT_EQ(script.calls("nvmlDeviceSetPowerManagementLimit"), 0);
  EXPECT_EQ(script.calls("nvmlDeviceSetGpuLockedClocks"), 0);
}

TEST(Nvml, AnOldDriverWithoutNewerFunctionsServesWithWhatItHas) {
  ScriptedLibrary script(SCRIPTED_OLD_NVML);
  const auto gpu = open_first(SCRIPTED_OLD_NVML);
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->identity().pci, "0001:c1:1f.0");
  EXPECT_EQ(gpu->identity().speed, 0);
  EXPECT_FALSE(gpu->identity().is_mig);
  EXPECT_DOUBLE_EQ(gpu->instant_power()->value, 250.5);
  EXPECT_DOUBLE_EQ(*gpu->temperature(), 41);
  EXPECT_TRUE(gpu->event_reasons()->throttled());  // under its older name
  EXPECT_EQ(script.calls("nvmlInit"), 1);
  EXPECT_EQ(gpu->average_power().error().code, ErrorCode::kNotSupported);
  EXPECT_EQ(gpu->enforced_power_limit().error().code, ErrorCode::kNotSupported);
  EXPECT_EQ(gpu->set_locked_clocks(ClockDomain::kGraphics, {{210}, {1410}}).error().code,
            ErrorCode::kNotSupported);
}

TEST(Nvml, WhatIsNoLibraryAndWhatIsNotNvmlAreStates) {
  const NvmlDevices missing = open_nvml("libharpe-no-such-library.so.1");
  EXPECT_FALSE(missing.state.available);
  EXPECT_THAT(missing.state.detail, HasSubstr("no NVIDIA driver"));
  const NvmlDevices other = open_nvml("libc.so.6");
  EXPECT_FALSE(other.state.available);
  EXPECT_THAT(other.state.detail, HasSubstr("is not NVML"));
}

}  // namespace
}  // namespace harpe::device
