// `harpe devices` from the user's view, and the GPUs of open_devices.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "command_run.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/sim/simulation.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string mixed_node() {
  return std::string(source_tree()) + "/examples/simulations/mixed-node.toml";
}

/// A machine without devices, whatever the real one has.
class Devices : public CommandTest {
 protected:
  Devices() {
    set("HARPE_NVML_LIBRARY", "libharpe-none.so");
    set("HARPE_POWERCAP_ROOT", path("powercap"));
    for (const char* name : {"HARPE_SIMULATION", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                             "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
      ::unsetenv(name);
    }
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
};

TEST_F(Devices, AMachineWithNothingIsNoFault) {
  const Said said = harpe_says({"devices"});
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("No GPU on this machine."),
                    HasSubstr("No CPU energy counter on this machine."),
                    HasSubstr("nvml: not available: no NVIDIA driver"),
                    HasSubstr("rapl: not available: "), HasSubstr("powercap does not exist"),
                    HasSubstr("harpe devices --simulate gpus.toml"), Not(HasSubstr("FILE"))));
  const Json json = Json::parse(harpe_says({"devices", "--json"}).out);
  EXPECT_TRUE(json["gpus"].empty());
  EXPECT_FALSE(json["backends"][0]["available"].get<bool>());
}

TEST_F(Devices, AGpuThatIsNotThereIsAFault) {
  const Said said = harpe_says({"devices", "--gpus", "0"});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("no GPU '0'; there is no GPU here"));
}

TEST_F(Devices, ASimulationIsSaidToBeOne) {
  const Said said = harpe_says({"devices", "--simulate", mixed_node()});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("their values are simulated, not measured"));
  EXPECT_THAT(said.out, HasSubstr("share its clocks, its power and its power limit"));
  set("HARPE_SIMULATION", mixed_node());
  EXPECT_EQ(Json::parse(harpe_says({"devices", "--json"}).out)["gpus"].size(),
            Json::parse(harpe_says({"devices", "--json", "--simulate", mixed_node()}).out)["gpus"]
                .size());
}

TEST_F(Devices, ASimulationThatIsWrongIsAErrorWithItsLine) {
  const Said said = harpe_says({"devices", "--simulate", write("s.toml", "[[gpu]]\nmodel = 3\n")});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("s.toml:2"));
}

TEST_F(Devices, SaysWhatMayBeSetAndWhyNot) {
  const Json json = Json::parse(harpe_says({"devices", "--json", "--simulate", mixed_node()}).out);
  const Json& divided = json["gpus"][0];
  EXPECT_TRUE(divided["mig"].get<bool>());
  EXPECT_FALSE(divided["may_set"]["graphics_clock"]["allowed"].get<bool>());
  EXPECT_THAT(divided["may_set"]["power_limit"]["why_not"].get<std::string>(),
              HasSubstr("MIG instances"));
  const Json& whole = json["gpus"][1];
  EXPECT_TRUE(whole["may_set"]["power_limit"]["allowed"].get<bool>());
  EXPECT_TRUE(whole["energy_counter_j"].is_null());  // this GPU has none
  EXPECT_GT(whole["power"]["instant_w"].get<double>(), 0);
}

TEST_F(Devices, AGpuThatIsLostIsShownSoWithWhatToDo) {
  const std::string file = write("lost.toml",
                                 "[[gpu]]\nmodel = \"a40\"\ncount = 2\n"
                                 "[[fault]]\nkind = \"gpu_lost\"\ngpu = 1\n");
  const Said said = harpe_says({"devices", "--simulate", file});
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.out, AllOf(HasSubstr("LOST"), HasSubstr("Xid"), HasSubstr("--gpu-reset"),
                              HasSubstr("GPU 1\n  lost: ")));
  EXPECT_THAT(said.out, AllOf(HasSubstr("GPU 0\n  may set: "), Not(HasSubstr("GPU 1\n  may"))));
  const Json json = Json::parse(harpe_says({"devices", "--json", "--simulate", file}).out);
  EXPECT_EQ(json["gpus"][0]["state"], "ok");
  EXPECT_EQ(json["gpus"][1]["state"], "lost");
  EXPECT_THAT(json["gpus"][1]["error"].get<std::string>(), HasSubstr("is lost"));
  EXPECT_FALSE(json["gpus"][1]["may_set"]["graphics_clock"]["allowed"].get<bool>());
}

TEST_F(Devices, ChosenGpusAloneAreShownAndVisibleOnesAreNamed) {
  set("CUDA_VISIBLE_DEVICES", "1");
  set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  const Said said = harpe_says({"devices", "--simulate", mixed_node(), "--gpus", "0"});
  EXPECT_THAT(said.out, AllOf(HasSubstr("(MIG)"), Not(HasSubstr("A40")),
                              HasSubstr("Programs started here use GPU 1.")));
  // A wrong value in the environment is shown, not rejected.
  set("CUDA_VISIBLE_DEVICES", "MIG-1234");
  const Said mig = harpe_says({"devices", "--simulate", mixed_node()});
  EXPECT_EQ(mig.status, 0);
  EXPECT_THAT(mig.out, HasSubstr("names the MIG instance 'MIG-1234'"));
}

#ifdef SIMULATED_NVML
// The same GPUs twice: through NVML's interface by Harpe's NVML backend, and directly.
TEST_F(Devices, NvmlShowsTheGpusThatAreThere) {
  set("HARPE_SIMULATION", mixed_node());
  DeviceOptions options;
  options.nvml_library = SIMULATED_NVML;
  options.rocm_library = options.rocm_smi_library = "";
  options.powercap_root = "";
  auto devices = open_devices(options);
  auto simulation = Simulation::open(mixed_node());
  ASSERT_TRUE(devices.ok());
  ASSERT_TRUE(simulation.ok());
  ASSERT_EQ(static_cast<int>(devices->gpus.size()), (*simulation)->gpus());
  for (int i = 0; i < (*simulation)->gpus(); ++i) {
    SCOPED_TRACE(i);
    Gpu& nvml = *devices->gpus[static_cast<std::size_t>(i)];
    const auto direct = (*simulation)->gpu(i);
    EXPECT_EQ(nvml.identity().backend, "nvml");
    EXPECT_EQ(nvml.identity().index, i);
    EXPECT_EQ(nvml.identity().uuid, direct->identity().uuid);
    EXPECT_EQ(nvml.identity().pci, direct->identity().pci);
    EXPECT_EQ(nvml.identity().name, direct->identity().name);
    EXPECT_EQ(nvml.identity().is_mig, direct->identity().is_mig);
    EXPECT_EQ(nvml.power_scope(), direct->power_scope());
    EXPECT_EQ(nvml.total_energy().ok(), direct->total_energy().ok());
    EXPECT_EQ(nvml.instant_power().ok(), direct->instant_power().ok());
    EXPECT_EQ(nvml.supported_clocks(ClockDomain::kGraphics).ok(),
              direct->supported_clocks(ClockDomain::kGraphics).ok());
    const auto range = nvml.power_limit_range();
    ASSERT_TRUE(range.ok());
    EXPECT_NEAR(range->highest.value, direct->power_limit_range()->highest.value, 1e-3);
    EXPECT_EQ(nvml.persistence_mode().ok(), direct->persistence_mode().ok());
  }
}

// Settings made through NVML are in force in the simulation.
TEST_F(Devices, WhatIsSetThroughNvmlIsInForce) {
  const std::string file = write("one.toml", "[[gpu]]\nmodel = \"a100-sxm\"\n");
  set("HARPE_SIMULATION", file);
  DeviceOptions options;
  options.nvml_library = SIMULATED_NVML;
  options.rocm_library = options.rocm_smi_library = "";
  auto devices = open_devices(options);
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->gpus.size(), 1U);
  Gpu& gpu = *devices->gpus[0];
  const auto direct = (*Simulation::open(file))->gpu(0);
  ASSERT_TRUE(gpu.set_power_limit(250_W).ok());
  EXPECT_DOUBLE_EQ(direct->power_limit()->value, 250);
  EXPECT_DOUBLE_EQ(gpu.power_limit()->value, 250);
  EXPECT_EQ(gpu.set_power_limit(Watts{5}).error().code, ErrorCode::kInvalidInput);
  ASSERT_TRUE(gpu.set_locked_clocks(ClockDomain::kGraphics, {{900}, {900}}).ok());
  const auto lock = direct->locked_clocks(ClockDomain::kGraphics);
  if (lock.ok()) {
    EXPECT_EQ(*lock, (ClockRange{{900}, {900}}));
  }
  EXPECT_TRUE(gpu.reset_locked_clocks(ClockDomain::kGraphics).ok());
}
#endif

}  // namespace
}  // namespace harpe
