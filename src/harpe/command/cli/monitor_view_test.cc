// The output of `harpe monitor` on terminals of any size.

#include "harpe/command/cli/monitor_view.h"

#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/monitor_testing.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Returns `gpus` GPUs at full load, and two CPU packages with memory.
Look busy_view(int gpus) {
  Look look;
  look.window.time = {60};
  for (int i = 0; i < gpus; ++i) {
    look.window.devices.push_back(
        measured_device(DeviceEnergy::Kind::kGpu, i, "NVIDIA A100-SXM4-80GB"));
    look.gpus.push_back({.power = Watts{399.8},
                         .limit = Watts{400},
                         .clock = Megahertz{1410},
                         .memory_clock = Megahertz{1593},
                         .temperature = 71,
                         .utilisation = 1,
                         .reasons = EventReasons{EventReasons::kPowerCap}});
  }
  for (int i = 0; i < 2; ++i) {
    look.window.devices.push_back(measured_device(DeviceEnergy::Kind::kCpu, i, "package-0"));
    look.window.devices.push_back(measured_device(DeviceEnergy::Kind::kDram, i, "package-0"));
  }
  look.mean.resize(look.window.devices.size(), Watts{102.5});
  return look;
}

TEST(MonitorView, AnUnknownErrorIsNeverZero) {
  Look look = busy_view(1);
  look.window.devices[0].energy.error = {0};
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
  // A counter that was set back, or a difference: the same units as for the positive energy.
  EXPECT_EQ(text(-413.16916, 1.21), "-413.2 ± 1.2 J");
  EXPECT_EQ(text(-0.0362, 0.0021), "-36.2 ± 2.1 mJ");
  EXPECT_EQ(joules_text({-413.16916}), "-413 J");
  EXPECT_EQ(joules_text({-0.4}), "-400 mJ");
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
  for (unsigned round = 0; round < 200; ++round) {
    std::mt19937 random(round);
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
}  // namespace harpe::command
