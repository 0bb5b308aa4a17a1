// The screen of `harpe monitor` on terminals of many sizes.

#include "harpe/command/cli/monitor_screen.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harpe/command/cli/monitor_testing.h"
#include "harpe/command/cli/terminal_text.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Returns `gpus` GPUs, with a power that rises with the index, and a CPU package with memory.
MonitorState busy_node(int gpus) {
  MonitorState state;
  state.node = "node-7";
  state.time_of_day = "14:03:59";
  state.now = Instant{} + Seconds{1000};
  state.look.window.time = {3725};
  for (int i = 0; i < gpus; ++i) {
    state.look.window.devices.push_back(
        measured_device(DeviceEnergy::Kind::kGpu, i, "NVIDIA H100 80GB"));
    state.look.gpus.push_back({.power = Watts{300.0 + i},
                               .limit = Watts{400},
                               .clock = Megahertz{1410},
                               .memory_clock = Megahertz{1593},
                               .temperature = 40.0 + i,
                               .utilisation = 0.5,
                               .reasons = EventReasons{EventReasons::kPowerCap},
                               .highest_clock = Megahertz{1980},
                               .memory = MemoryUse{43ULL << 30U, 80ULL << 30U}});
  }
  state.look.window.devices.push_back(measured_device(DeviceEnergy::Kind::kCpu, 0, "package-0"));
  state.look.window.devices.push_back(measured_device(DeviceEnergy::Kind::kDram, 0, "package-0"));
  state.look.mean.resize(state.look.window.devices.size(), Watts{102.5});
  state.history.resize(state.look.window.devices.size());
  for (PowerHistory& history : state.history) {
    for (int second = 700; second <= 1000; ++second) {
      history.add(Instant{} + Seconds{static_cast<double>(second)},
                  Watts{second < 850 ? 50. : 390.});
    }
  }
  return state;
}

std::string text_of(const MonitorScreen& screen) {
  std::string text;
  for (const std::string& line : screen.lines) text += line + "\n";
  return text;
}

TEST(MonitorScreen, FitsAnyTerminalAndKeepsPowerAndWhatFailed) {
  for (const int gpus : {1, 2, 8, 16, 64}) {
    MonitorState state = busy_node(gpus);
    state.look.window.devices[0].error = Error::of(
        ErrorCode::kUnavailable, "GPU 0 (NVIDIA H100) is lost: look for Xid in the kernel log");
    state.users.resize(static_cast<std::size_t>(gpus), {.gpus = {0},
                                                        .pid = 4242,
                                                        .user = "alice",
                                                        .program = "python train.py",
                                                        .job = {},
                                                        .lease = {}});
    for (const int lines : {4, 6, 12, 24, 50}) {
      for (int columns = 20; columns <= 210; columns += 3) {
        SCOPED_TRACE(std::to_string(gpus) + " GPUs, " + std::to_string(columns) + " x " +
                     std::to_string(lines));
        for (const bool coloured : {false, true}) {
          const MonitorScreen screen = monitor_screen(state, columns, lines, coloured);
          ASSERT_LE(screen.lines.size(), static_cast<std::size_t>(lines));
          for (const std::string& line : screen.lines) {
            ASSERT_LE(shown_width(line), static_cast<std::size_t>(columns)) << line;
          }
        }
        const std::string text = text_of(monitor_screen(state, columns, lines, false));
        ASSERT_THAT(text, HasSubstr("LOST"));
        if (lines >= 6 && gpus > 1) {
          ASSERT_THAT(text, HasSubstr("301/400"));
        }
      }
    }
  }
}

TEST(MonitorScreen, SixteenGpusHaveARowEachIn24Lines) {
  const MonitorState state = busy_node(16);
  EXPECT_THAT(text_of(monitor_screen(state, 80, 24, false)), HasSubstr("▂"))
      << "the last minutes of power, too";
  for (const int columns : {40, 80, 120, 200}) {
    const std::string text = text_of(monitor_screen(state, columns, 24, false));
    for (int i = 0; i < 16; ++i) {
      EXPECT_THAT(text, HasSubstr("GPU " + std::to_string(i) + " ")) << columns;
    }
    EXPECT_THAT(text, HasSubstr("50%")) << columns;
    EXPECT_THAT(text, Not(HasSubstr("more above"))) << columns;
  }
}

TEST(MonitorScreen, OneGpuShowsAllThereIsHoweverNarrow) {
  for (const int columns : {40, 80, 120, 200}) {
    const std::string text = text_of(monitor_screen(busy_node(1), columns, 24, false));
    for (const char* part : {"300/400", "50%", "1410/1980", "40C", "/80", "21 534 ± 12 J",
                             "power cap", "H100", "▂", "█", "CPU 0", "DRAM 0"}) {
      EXPECT_THAT(text, HasSubstr(part)) << columns;
    }
  }
}

TEST(MonitorScreen, ColumnsStayWhateverDevicesShow) {
  MonitorState state = busy_node(8);
  const auto heading = [&] { return monitor_screen(state, 120, 24, false).lines[2]; };
  const std::string before = heading();
  for (GpuView& gpu : state.look.gpus) {
    gpu.reasons->bits = ~std::uint64_t{0};
    gpu.power = Watts{1234};
    gpu.memory.reset();
  }
  EXPECT_EQ(heading(), before);
  state = busy_node(4);
  const auto height = [&] {
    const std::vector<std::string> lines = monitor_screen(state, 60, 20, false).lines;
    return std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("CPU"); }) -
           lines.begin();
  };
  const auto rows = height();
  state.users.resize(9);
  EXPECT_EQ(height(), rows) << "processes come and go";
}

TEST(MonitorScreen, UsesWideTerminalsToTheirEnd) {
  const MonitorState state = busy_node(2);
  for (const int columns : {160, 200, 250, 320, 400}) {
    const MonitorScreen screen = monitor_screen(state, columns, 24, false);
    const std::string& gpu = screen.lines[3];
    ASSERT_THAT(gpu, HasSubstr("GPU 0"));
    EXPECT_EQ(shown_width(gpu), static_cast<std::size_t>(columns)) << gpu;
    EXPECT_THAT(screen.lines[2], HasSubstr("mem MHz"));
    EXPECT_THAT(gpu, HasSubstr(" 1593 "));
  }
  EXPECT_THAT(text_of(monitor_screen(state, 159, 24, false)), Not(HasSubstr("mem MHz")));
}

TEST(MonitorScreen, ANodeWithoutGpusShowsItsCpus) {
  const std::string text = text_of(monitor_screen(busy_node(0), 80, 24, false));
  EXPECT_THAT(text, HasSubstr("CPU 0"));
  EXPECT_THAT(text, Not(HasSubstr("GPU")));
}

TEST(MonitorScreen, TotalsAreOfTheNode) {
  const std::string text = text_of(monitor_screen(busy_node(2), 120, 24, false));
  EXPECT_THAT(text, HasSubstr("2 GPUs 601/800 W"));
  EXPECT_THAT(text, HasSubstr("CPUs 205 W"));
  EXPECT_THAT(text, HasSubstr("all 806 W"));
  EXPECT_THAT(text, HasSubstr("in 1:02:05"));
}

TEST(MonitorScreen, SortsGpusAndScrollsToTheLast) {
  MonitorState state = busy_node(64);
  state.order = MonitorState::Order::kPower;
  MonitorScreen screen = monitor_screen(state, 80, 24, false);
  EXPECT_THAT(screen.lines[3], HasSubstr("GPU 63"));
  EXPECT_EQ(screen.most_scroll, 64 - screen.shown);
  state.scroll = 1'000'000;
  screen = monitor_screen(state, 80, 24, false);
  EXPECT_THAT(text_of(screen), HasSubstr("GPU 0 "));
  EXPECT_THAT(text_of(screen), HasSubstr(std::to_string(screen.most_scroll) + " more above"));
}

TEST(MonitorScreen, SaysWhatRunsWhere) {
  MonitorState state = busy_node(8);
  state.users = {{.gpus = {0, 1, 2, 3},
                  .pid = 4242,
                  .user = "alice",
                  .program = "python train.py",
                  .job = "gpt3",
                  .lease = "graphics clocks"},
                 {.gpus = {5, 7},
                  .pid = 17,
                  .user = "bob",
                  .program = "evil\x1b]0;x\x07",
                  .job = {},
                  .lease = {}}};
  const std::string text = text_of(monitor_screen(state, 120, 30, false));
  EXPECT_THAT(text, HasSubstr("0-3"));
  EXPECT_THAT(text, HasSubstr("gpt3"));
  EXPECT_THAT(text, HasSubstr("graphics clocks"));
  EXPECT_THAT(text, HasSubstr("evil?]0;x?"));
  const std::string tight = text_of(monitor_screen(state, 40, 16, false));
  EXPECT_THAT(tight, HasSubstr("python train.py")) << tight;
}

TEST(MonitorScreen, NothingFromOutsideIsObeyedByTheTerminal) {
  MonitorState state = busy_node(2);
  state.node = "a\x1b[2Jb";
  state.look.window.devices[0].name = "GPU\x1b[31m";
  state.look.window.devices[1].error = Error::of(ErrorCode::kUnavailable, "bad\x1b[31m\nGPU");
  for (const int columns : {40, 200}) {
    EXPECT_THAT(text_of(monitor_screen(state, columns, 24, false)), Not(HasSubstr("\x1b")));
  }
}

TEST(MonitorScreen, HelpNamesEveryKey) {
  MonitorState state = busy_node(1);
  EXPECT_THAT(text_of(monitor_screen(state, 80, 24, false)), HasSubstr("h help"));
  state.help = true;
  const std::string text = text_of(monitor_screen(state, 80, 24, false));
  for (const char* key : {"q  ", "p  ", "s  ", "e  ", "j k", "h  "}) {
    EXPECT_THAT(text, HasSubstr(key));
  }
}

TEST(PowerHistory, LevelsAreMeansOfSpansThatDoNotMove) {
  PowerHistory history;
  for (int second = 0; second < 600; ++second) {
    history.add(Instant{} + Seconds{second + 0.5}, Watts{second < 500 ? 100. : 200.});
  }
  const auto at = [&](double now) {
    return history.levels(Instant{} + Seconds{now}, 10, Watts{200}, Seconds{1});
  };
  const auto levels = at(599.9);
  EXPECT_DOUBLE_EQ(levels.front(), 0.5);
  EXPECT_DOUBLE_EQ(levels.back(), 1);
  const auto next = at(600.1);
  EXPECT_DOUBLE_EQ(next[8], levels[9]);
  PowerHistory none;
  EXPECT_TRUE(std::isnan(none.levels(Instant{}, 4, Watts{200}, Seconds{1})[3]));
}

TEST(ShortEnergyText, KeepsFewDigitsOfAnyEnergy) {
  const auto text = [](double energy, double error) {
    return short_energy_text(
        {.energy = {energy}, .error = {error}, .source = EnergySource::kCounter});
  };
  EXPECT_EQ(text(21534.2, 11.6), "21 534 ± 12 J");
  EXPECT_EQ(text(312'123, 412), "312.1 ± 0.4 kJ");
  EXPECT_EQ(text(99'999'999, 12'345), "100 000 ± 12 kJ");
  EXPECT_EQ(text(123'456'789, 12'345), "123.5 ± 0.0 MJ");
  EXPECT_EQ(text(312'123, 0), "312 ± ? kJ");
}

}  // namespace
}  // namespace harpe::command
