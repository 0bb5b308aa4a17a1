// The output of `harpe devices` on terminals of any width.

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "harpe/command/cli/device_view.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Returns eight GPUs. The clock of the second may not be set.
std::vector<DeviceView> node() {
  std::vector<DeviceView> gpus;
  for (int i = 0; i < 8; ++i) {
    DeviceView gpu;
    gpu.identity.index = i;
    gpu.identity.name = "NVIDIA A100-SXM4-80GB";
    gpu.identity.uuid = "GPU-7a5e0001-0000-0000-0000-000000000000";
    gpu.identity.pci = "0000:65:00.0";
    gpu.graphics_clock = Megahertz{1380};
    gpu.graphics_clocks = {{210}, {1410}};
    gpu.instant_power = Watts{399.8};
    gpu.enforced_limit = Watts{400};
    gpu.limit_range = PowerLimitRange{{100}, {500}, {400}};
    gpu.energy = Joules{1};
    gpu.reasons = EventReasons{EventReasons::kPowerCap};
    gpu.persistence_mode = true;
    const Status refused =
        Error::of(ErrorCode::kNoPermission, "only root may: start the agent (docs/agent.md)");
    gpu.controls = {{"graphics clock", i == 1 ? refused : ok_status()}};
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<std::string> shown(int columns) {
  std::istringstream text(devices_text(Devices{}, node(), device::GpuChoice{}, columns, false));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(DevicesText, WhatMattersMostIsThereHoweverNarrow) {
  for (const int columns : {40, 60, 80, 120, 200}) {
    SCOPED_TRACE(columns);
    const std::vector<std::string> lines = shown(columns);
    EXPECT_THAT(lines[0], HasSubstr("power W"));
    for (std::size_t i = 1; i <= 8; ++i) {
      EXPECT_LE(display_width(lines[i]), static_cast<std::size_t>(columns));
      EXPECT_THAT(lines[i], HasSubstr(std::to_string(i - 1)));
      EXPECT_THAT(lines[i], HasSubstr("400 / 400"));
      EXPECT_THAT(lines[i], HasSubstr("1380"));
      EXPECT_THAT(lines[i], HasSubstr(i == 2 ? "no: below" : "yes"));
      if (columns >= 60) {
        EXPECT_THAT(lines[i], HasSubstr("A100-"));
      }
    }
  }
}

TEST(DevicesText, SaysWhatToDoWhereItMayNotSet) {
  std::string text;
  for (const std::string& line : shown(60)) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("GPU 1\n"));
  EXPECT_THAT(text, HasSubstr("start the agent"));
}

TEST(DevicesText, WiderTerminalsShowMore) {
  EXPECT_THAT(shown(60)[0], Not(HasSubstr("held back by")));
  EXPECT_THAT(shown(80)[0], HasSubstr("held back by"));
  EXPECT_THAT(shown(80)[0], Not(HasSubstr("UUID")));
  EXPECT_THAT(shown(120)[0], HasSubstr("UUID"));
  for (const char* heading : {"clocks MHz", "limits W", "energy", "PCI", "persistence"}) {
    EXPECT_THAT(shown(200)[0], HasSubstr(heading));
    EXPECT_THAT(shown(0)[0], HasSubstr(heading)) << "where it is not a terminal";
  }
}

}  // namespace
}  // namespace harpe::command
