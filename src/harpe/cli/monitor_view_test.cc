// What `harpe monitor` shows, on terminals of any size.

#include "harpe/cli/monitor_view.h"

#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "harpe/cli/measure_output.h"
#include "harpe/plan_cli/fitted_table.h"

namespace harpe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

DeviceEnergy device(DeviceEnergy::Kind kind, int index, const std::string& name) {
  return {.kind = kind,
          .index = index,
          .name = name,
          .uuid = {},
          .energy = {.energy = {21534.2},
                     .error = {11.6},
                     .sensor_error = {1076},
                     .time = {60},
                     .source = EnergySource::kCounterAndPower},
          .error = {},
          .reasons = {},
          .processes = {}};
}

/// So many GPUs at full load, and two CPU packages with memory.
Look busy_node(int gpus) {
  Look look;
  look.window.time = {60};
  for (int i = 0; i < gpus; ++i) {
    look.window.devices.push_back(device(DeviceEnergy::Kind::kGpu, i, "NVIDIA A100-SXM4-80GB"));
    look.gpus.push_back({.power = Watts{399.8},
                         .limit = Watts{400},
                         .clock = Megahertz{1410},
                         .memory_clock = Megahertz{1593},
                         .temperature = 71,
                         .utilisation = 1,
                         .reasons = EventReasons{EventReasons::kPowerCap}});
  }
  for (int i = 0; i < 2; ++i) {
    look.window.devices.push_back(device(DeviceEnergy::Kind::kCpu, i, "package-0"));
    look.window.devices.push_back(device(DeviceEnergy::Kind::kDram, i, "package-0"));
  }
  look.mean.resize(look.window.devices.size(), Watts{102.5});
  return look;
}

TEST(MonitorView, FitsTerminalsOfAnyWidthAndKeepsThePowerOfEachDevice) {
  Look look = busy_node(8);
  look.window.devices[3].error = Error::of(
      ErrorCode::kUnavailable, "GPU 3 (NVIDIA A100-SXM4-80GB) is lost: look for Xid in the log");
  for (int columns = 16; columns <= 160; ++columns) {
    SCOPED_TRACE(columns);
    const auto lines = lines_of(monitor_view(look, columns, 0, false));
    ASSERT_GE(lines.size(), 1U + look.window.devices.size());
    for (std::size_t i = 0; i < 13; ++i) {
      EXPECT_LE(display_width(lines[i]), static_cast<std::size_t>(columns)) << lines[i];
    }
    EXPECT_THAT(lines[1], HasSubstr("399.8"));
    EXPECT_THAT(lines[4], HasSubstr("LOST"));
  }
}

TEST(MonitorView, LeavesOutTheLeastImportantColumnsFirst) {
  const Look look = busy_node(2);
  const std::string wide = monitor_view(look, 120, 0, false);
  for (const char* column : {"mem MHz", "limit W", "held back by", "since start"}) {
    EXPECT_THAT(wide, HasSubstr(column));
  }
  const std::string usual = monitor_view(look, 80, 0, false);
  EXPECT_THAT(usual, Not(HasSubstr("mem MHz")));
  for (const char* column : {"device", "name", "power W", "since start", "MHz", "busy %",
                             "held back by", "21 534 ± 12 J", "power cap"}) {
    EXPECT_THAT(usual, HasSubstr(column));
  }
  EXPECT_THAT(monitor_view(look, 30, 0, false), Not(HasSubstr("busy")));
}

TEST(MonitorView, WhatHoldsBackDoesNotMakeColumnsComeAndGo) {
  Look look = busy_node(2);
  const auto heading = [&] { return lines_of(monitor_view(look, 80, 0, false))[0]; };
  const std::string before = heading();
  look.gpus[0].reasons->bits = ~std::uint64_t{0};
  EXPECT_EQ(heading(), before);
  look.gpus[0].reasons->bits = 0;
  EXPECT_EQ(heading().substr(0, 70), before.substr(0, 70));
}

TEST(MonitorView, MoreDevicesThanLinesAreCounted) {
  const Look look = busy_node(64);
  for (const int height : {10, 22, 40}) {
    const std::string text = monitor_view(look, 80, height, false);
    EXPECT_LE(lines_of(text).size(), static_cast<std::size_t>(height));
    EXPECT_THAT(text, HasSubstr("more (--gpus LIST)"));
  }
  EXPECT_THAT(monitor_view(look, 80, 100, false), Not(HasSubstr("more (--gpus LIST)")));
}

TEST(MonitorView, AnUnknownErrorIsNeverZero) {
  Look look = busy_node(1);
  look.window.devices[0].energy.error = {0};
  EXPECT_THAT(monitor_view(look, 120, 0, false), HasSubstr("± ?"));
  EXPECT_THAT(monitor_line(look, "12:00:00"), HasSubstr("± ?")) << "nor the total's";
  EXPECT_THAT(monitor_csv(look), HasSubstr(",21534.200000,,"));
  EXPECT_TRUE(monitor_json(look, false)["devices"][0]["measured"]["error_j"].is_null());
  EXPECT_TRUE(monitor_json(look, false)["total"]["error_j"].is_null());
}

TEST(EnergyText, SmallEnergiesAreInMillijoules) {
  const auto text = [](double energy, double error) {
    return energy_text({.energy = {energy}, .error = {error}, .source = EnergySource::kCounter});
  };
  EXPECT_EQ(text(3214.52, 1.21), "3 214.5 ± 1.2 J");
  EXPECT_EQ(text(0.0362, 0.0021), "36.2 ± 2.1 mJ");
  EXPECT_EQ(text(0.0362, 1.5), "0.0 ± 1.5 J");
  EXPECT_EQ(joules_text({1077}), "1 077 J");
  EXPECT_EQ(joules_text({5.15}), "5.2 J");
  EXPECT_EQ(joules_text({0.4}), "400 mJ");
  EXPECT_EQ(joules_text({0.0021}), "2.10 mJ");
}

TEST(CutTo, NeverBreaksACharacter) {
  EXPECT_EQ(cut_to("12 ± 3 J", 8), "12 ± 3 J");
  EXPECT_EQ(cut_to("12 ± 3 J", 5), "12 ±…");
  EXPECT_EQ(cut_to("12 ± 3 J", 4), "12 …");
  EXPECT_EQ(cut_to("ab", 1), "…");
  EXPECT_EQ(cut_to("ab", 0), "");
}

TEST(WrappedText, KeepsTheIndentOfTheFirstLine) {
  EXPECT_EQ(wrapped_text("  aaa bbb ccc", 9, 4), "  aaa bbb\n    ccc\n");
  EXPECT_EQ(wrapped_text("  aaa bbb ccc", 0), "  aaa bbb ccc\n");
}

TEST(WrappedText, LinesFitAndNothingIsLost) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    const int words = std::uniform_int_distribution(1, 30)(random);
    for (int i = 0; i < words; ++i) {
      const int length = std::uniform_int_distribution(1, 12)(random);
      text += (i == 0 ? "" : " ") + std::string(static_cast<std::size_t>(length), 'x');
    }
    std::string back;
    for (const std::string& line : lines_of(wrapped_text(text, 20))) {
      EXPECT_LE(line.size(), 20U);
      const std::string words_of_line = line.substr(line.find_first_not_of(' '));
      back += (back.empty() ? "" : " ") + words_of_line;
    }
    EXPECT_EQ(back, text) << "round " << round;
  }
}

}  // namespace
}  // namespace harpe
