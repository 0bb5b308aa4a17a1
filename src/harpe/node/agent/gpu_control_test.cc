#include "harpe/node/agent/gpu_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "harpe/base/json.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/node/agent/gpu_testing.h"
#include "harpe/node/agent/memory_files_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GpuControlTest : public ::testing::Test {
 protected:
  GpuControlTest() {
    holder_.peer.uid = 1000;
    holder_.peer.pid = 42;
    holder_.lease = "0123456789abcdef";
    holder_.allowance.clocks = {{{300}, {1200}}};
    holder_.allowance.memory_clocks = {{{1215}, {1215}}};
    holder_.allowance.power_limits = {{150_W, 500_W}};
    holder_.allowance.persistence_mode = true;
    start();
  }

  /// Starts a new agent on the same GPU and files, as if the old one had been killed.
  void start(bool dry_run = false) {
    state_ = std::make_unique<StateFile>();
    const auto opened = state_->open(make_file_storage(directory_ / "state.json", 0), "boot");
    ASSERT_TRUE(opened.ok());
    auto sink = open_audit_file(directory_ / "audit.jsonl");
    ASSERT_TRUE(sink.ok());
    audit_.open(*std::move(sink));
    control_ = std::make_unique<GpuControl>(
        gpu_.device(), GpuControl::Services{*state_, audit_, counters_, true, dry_run});
    for (const SavedGpu& saved : opened->to_restore) control_->saved().take_over(saved);
  }
  std::string content(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  bool state_is_empty() const {
    StateFile reader;
    fs::copy(directory_ / "state.json", directory_ / "copy.json",
             fs::copy_options::overwrite_existing);
    const auto opened = reader.open(make_file_storage(directory_ / "copy.json", 0), "boot");
    return opened.ok() && opened->to_restore.empty();
  }

  static Setting limit(Watts watts) {
    return {.kind = Setting::Kind::kPowerLimit, .clocks = {}, .limit = watts};
  }
  static Setting lock(int lowest, int highest, ClockDomain domain = ClockDomain::kGraphics) {
    return {.kind = Setting::Kind::kLockClocks,
            .domain = domain,
            .clocks = {{lowest}, {highest}},
            .limit = {}};
  }
  static Setting of_kind(Setting::Kind kind, bool enabled = false) {
    return {.kind = kind, .clocks = {}, .limit = {}, .enabled = enabled};
  }
  std::string refusal(const Setting& setting) {
    const auto applied = control_->apply(holder_, setting, now_);
    EXPECT_FALSE(applied.ok());
    return applied.ok() ? "" : applied.error().text();
  }

  const TestDirectory directory_;
  TestGpu gpu_{3};
  Instant now_;
  Holder holder_;
  std::unique_ptr<StateFile> state_;
  AuditLog audit_;
  Counters counters_;
  std::unique_ptr<GpuControl> control_;
};

TEST_F(GpuControlTest, SetsReadsBackAndPutsBackThePreviousLimitNotTheFactoryOne) {
  const auto applied = control_->apply(holder_, limit(200_W), now_);
  ASSERT_TRUE(applied.ok()) << applied.error().text();
  EXPECT_EQ(applied->text, "power limit 275 W -> 200 W");
  EXPECT_EQ(applied->limit, 200_W);
  EXPECT_TRUE(applied->honoured);
  ASSERT_TRUE(control_->apply(holder_, limit(300_W), now_).ok());
  ASSERT_TRUE(control_->restore(holder_).ok());
  EXPECT_EQ(gpu_.state().limit, 275_W);
  EXPECT_TRUE(state_is_empty());
  EXPECT_FALSE(control_->saved().changed());
}

TEST_F(GpuControlTest, ADriverThatRefusesTheAgentItselfSaysWhatTheAdministratorCanDo) {
  gpu_.before([](const std::string& call) -> Status {
    if (!call.starts_with("set_")) return ok_status();
    return Error::of(ErrorCode::kNoPermission, "not permitted; use the agent (harpe agent)");
  });
  for (const Setting& setting : {limit(200_W), lock(900, 900)}) {
    const std::string said = refusal(setting);
    EXPECT_THAT(said, HasSubstr("CAP_SYS_ADMIN"));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("use the agent")));
  }
  const auto clock = control_->set_clock(holder_, 900_MHz, {});
  ASSERT_FALSE(clock.ok());
  EXPECT_THAT(clock.error().text(), HasSubstr("CAP_SYS_ADMIN"));
  EXPECT_FALSE(control_->saved().changed());
}

TEST_F(GpuControlTest, AReadingTellsTheLocksThatTheDriverTellsElseTheAgentsOwn) {
  ASSERT_TRUE(control_->read({}).ok());
  EXPECT_FALSE(control_->read({})->graphics_lock->range) << "not locked";
  ASSERT_TRUE(control_->apply(holder_, lock(900, 1200), now_).ok());
  EXPECT_EQ(control_->read({})->graphics_lock->range, (ClockRange{{900}, {1200}}));
  gpu_.tells_locks = false;
  EXPECT_EQ(control_->read({})->graphics_lock->range, (ClockRange{{900}, {1200}}));
  EXPECT_FALSE(control_->read({})->memory_lock) << "not known";
}

TEST_F(GpuControlTest, WhatWasThereIsOnDiskBeforeTheFirstChange) {
  gpu_.before([&](const std::string& call) {
    if (call.starts_with("set_")) {
      EXPECT_FALSE(state_is_empty()) << call;
    }
    return ok_status();
  });
  EXPECT_TRUE(control_->apply(holder_, limit(200_W), now_).ok());
  EXPECT_TRUE(control_->restore(holder_).ok());
  EXPECT_TRUE(control_->apply(holder_, lock(900, 900), now_).ok());
  EXPECT_TRUE(control_->restore(holder_).ok());
  EXPECT_TRUE(control_->set_clock(holder_, 500_MHz, {}).ok());
  EXPECT_TRUE(control_->restore(holder_).ok());
  EXPECT_TRUE(control_->apply(holder_, of_kind(Setting::Kind::kPersistenceMode, true), now_).ok());
}

TEST_F(GpuControlTest, WithoutAStateFileNothingIsSet) {
  fs::rename(directory_ / "state.json", directory_ / "elsewhere");
  fs::create_directory(directory_ / "state.json");
  EXPECT_FALSE(control_->apply(holder_, limit(200_W), now_).ok());
  EXPECT_FALSE(control_->set_clock(holder_, 500_MHz, {}).ok());
  EXPECT_EQ(gpu_.state(), TestGpu::State());
  EXPECT_EQ(gpu_.calls("set_power_limit") + gpu_.calls("set_locked_clocks"), 0);
}

TEST_F(GpuControlTest, WithoutAnAuditLogNothingIsSet) {
  const auto memory = std::make_shared<MemoryLines>();
  audit_.open(std::make_unique<MemorySink>(memory));
  ASSERT_TRUE(control_->apply(holder_, limit(210_W), now_).ok());
  memory->writable = false;
  EXPECT_FALSE(control_->apply(holder_, limit(200_W), now_).ok());
  EXPECT_EQ(gpu_.state().limit, 210_W);
  EXPECT_FALSE(control_->set_clock(holder_, 900_MHz, now_).ok());
  EXPECT_EQ(gpu_.state().graphics, std::nullopt);
  EXPECT_TRUE(control_->restore(holder_).ok()) << "that needs no log";
  EXPECT_EQ(gpu_.state(), TestGpu::State());
  memory->writable = true;
  audit_.flush(now_);
  EXPECT_TRUE(control_->set_clock(holder_, 900_MHz, now_).ok());
}

TEST_F(GpuControlTest, SettingsThatComeFastAreGatheredAndNoneIsLost) {
  const auto memory = std::make_shared<MemoryLines>();
  audit_.open(std::make_unique<MemorySink>(memory));
  constexpr int kSettings = 1000;
  for (int i = 0; i < kSettings; ++i) {
    ASSERT_TRUE(control_->apply(holder_, limit(Watts{200.0 + i % 2}), now_).ok());
    now_ = now_ + 0.01_s;
    if (const auto due = control_->changes_due(); due && *due <= now_) {
      ASSERT_TRUE(control_->flush_changes().ok());
    }
  }
  ASSERT_TRUE(control_->flush_changes().ok());
  EXPECT_LT(memory->lines.size(), 2 * GpuControl::kSettingLinesAtOnce + 4 * 10);
  std::size_t told = 0;
  for (const std::string& text : memory->lines) {
    const auto line = parse_json(text, "audit");
    ASSERT_TRUE(line.ok());
    if (line->find("action")->string == "settings") {
      told += line->find("changes")->items.size();
      EXPECT_THAT(line->find("changes")->items[0].items[1].string,
                  ::testing::MatchesRegex("power_limit 20[01] W: applied"));
    } else if (line->find("result")->string == "applied") {
      ++told;
    }
  }
  EXPECT_EQ(told, kSettings);
}

TEST_F(GpuControlTest, GatheredSettingsThatCannotBeLoggedStopTheNext) {
  const auto memory = std::make_shared<MemoryLines>();
  audit_.open(std::make_unique<MemorySink>(memory));
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(control_->apply(holder_, limit(Watts{200.0 + i % 2}), now_).ok());
  }
  memory->writable = false;
  EXPECT_FALSE(control_->flush_changes().ok());
  EXPECT_FALSE(control_->apply(holder_, limit(250_W), now_).ok());
  EXPECT_LT(gpu_.state().limit, 250_W);
  memory->writable = true;
  EXPECT_TRUE(control_->apply(holder_, limit(250_W), now_).ok());
  EXPECT_THAT(memory->lines[memory->lines.size() - 1], HasSubstr("\"settings\""));
}

TEST_F(GpuControlTest, ARestoreThatFailsAgainSaysNothingMore) {
  const auto memory = std::make_shared<MemoryLines>();
  audit_.open(std::make_unique<MemorySink>(memory));
  ASSERT_TRUE(control_->apply(holder_, limit(200_W), now_).ok());
  gpu_.before([](const std::string& call) -> Status {
    if (call == "set_power_limit") return Error::of(ErrorCode::kUnavailable, "GPU is lost");
    return ok_status();
  });
  const std::size_t before = memory->lines.size();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(control_->restore(holder_).ok());
  EXPECT_EQ(memory->lines.size(), before + 1);
  gpu_.before(nullptr);
  EXPECT_TRUE(control_->restore(holder_).ok());
  EXPECT_EQ(memory->lines.size(), before + 2);
}

TEST_F(GpuControlTest, ThePolicyIsHeld) {
  EXPECT_THAT(refusal(limit(149_W)),
              HasSubstr("the policy does not allow a power limit of 149 W on "
                        "GPU 3; it allows 150 W to 500 W"));
  EXPECT_THAT(refusal(lock(285, 900)), HasSubstr("it allows 300 to 1200 MHz"));
  holder_.allowance = {};
  EXPECT_THAT(refusal(limit(200_W)), HasSubstr("it allows none"));
  EXPECT_THAT(refusal(lock(900, 900)), HasSubstr("it allows none"));
  EXPECT_THAT(refusal(of_kind(Setting::Kind::kPersistenceMode, true)), HasSubstr("policy"));
  EXPECT_THAT(refusal(of_kind(Setting::Kind::kResetClocks)), HasSubstr("policy"));
  EXPECT_THAT(refusal(of_kind(Setting::Kind::kResetPowerLimit)), HasSubstr("policy"));
  EXPECT_EQ(gpu_.state(), TestGpu::State());
  EXPECT_FALSE(control_->saved().changed());
}

TEST_F(GpuControlTest, WhatTheGpuCannotDoIsRefusedNamingWhatItCan) {
  EXPECT_THAT(refusal(lock(902, 1000)), HasSubstr("902 MHz is not a graphics clock of GPU 3; the "
                                                  "nearest is 900 MHz"));
  EXPECT_THAT(refusal(lock(902, 1000)), HasSubstr("the nearest is 1005 MHz"));
  EXPECT_THAT(refusal(lock(1000, 900)), HasSubstr("above"));
  EXPECT_THAT(refusal(limit(450_W)),
              HasSubstr("a power limit of 450 W is out of the range of GPU 3, 100 W to 400 W"));
  EXPECT_EQ(gpu_.state(), TestGpu::State());
}

TEST_F(GpuControlTest, WhatTheDriverMadeOfItIsSaid) {
  gpu_.rounds_limits = true;
  const auto rounded = control_->apply(holder_, limit(280_W), now_);
  ASSERT_TRUE(rounded.ok());
  EXPECT_FALSE(rounded->honoured);
  EXPECT_THAT(rounded->text, HasSubstr("275 W -> 250 W (requested: 280 W"));
  gpu_.rounds_limits = false;
  gpu_.enforced_at_most = 220_W;
  const auto held = control_->apply(holder_, limit(300_W), now_);
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(held->honoured);
  EXPECT_EQ(held->limit, 220_W);
  TestGpu::State throttled = gpu_.state();
  throttled.reasons = EventReasons::kHardwareThermal;
  gpu_.set(throttled);
  const auto locked = control_->apply(holder_, lock(900, 900), now_);
  ASSERT_TRUE(locked.ok());
  EXPECT_FALSE(locked->honoured);
  EXPECT_THAT(locked->text, HasSubstr("held back by"));
  EXPECT_EQ(locked->clock, 900_MHz);
}

TEST_F(GpuControlTest, DryRunSaysWhatItWouldDoAndDoesNothing) {
  start(true);
  EXPECT_THAT(control_->apply(holder_, limit(200_W), now_)->text,
              HasSubstr("would set the power limit 275 W -> 200 W"));
  EXPECT_THAT(control_->apply(holder_, lock(900, 900), now_)->text, HasSubstr("would lock"));
  EXPECT_FALSE(control_->set_clock(holder_, 900_MHz, {}).ok());
  EXPECT_THAT(refusal(limit(450_W)), HasSubstr("range")) << "what cannot be done is still refused";
  EXPECT_EQ(gpu_.state(), TestGpu::State());
  EXPECT_EQ(gpu_.calls("set_power_limit") + gpu_.calls("set_locked_clocks"), 0);
  EXPECT_TRUE(state_is_empty());
}

TEST_F(GpuControlTest, TheCheapPathSnapsStaysWithinThePolicyAndSkipsWhatIsInForce) {
  EXPECT_EQ(*control_->set_clock(holder_, 907_MHz, {}), 900_MHz);
  EXPECT_EQ(*control_->set_clock(holder_, 908_MHz, {}), 915_MHz);
  EXPECT_EQ(*control_->set_clock(holder_, 915_MHz, {}), 915_MHz);
  EXPECT_EQ(gpu_.calls("set_locked_clocks"), 2);
  EXPECT_EQ(control_->set_clock(holder_, 1208_MHz, {}).error().code, ErrorCode::kNoPermission);
  EXPECT_EQ(*control_->set_clock(holder_, 1207_MHz, {}), 1200_MHz);
  EXPECT_EQ(*control_->set_clock(holder_, 0_MHz, {}), 0_MHz);
  EXPECT_EQ(gpu_.state().graphics, std::nullopt);
  EXPECT_FALSE(control_->set_clock(holder_, Megahertz{-5}, {}).ok());
  EXPECT_FALSE(control_->set_clock(holder_, Megahertz{2147483647}, {}).ok());
}

TEST_F(GpuControlTest, EveryChangeIsInTheAuditLogAlsoThoseOfTheCheapPath) {
  ASSERT_TRUE(control_->apply(holder_, limit(200_W), now_).ok());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(control_->set_clock(holder_, Megahertz{i % 2 == 0 ? 900 : 915}, Instant{i}).ok());
  }
  ASSERT_TRUE(control_->changes_due().has_value());
  ASSERT_TRUE(control_->restore(holder_).ok());
  std::size_t changes = 0;
  std::istringstream lines(content("audit.jsonl"));
  std::vector<std::string> actions;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = parse_json(line, "audit");
    ASSERT_TRUE(entry.ok());
    actions.push_back(entry->find("action")->string + " " + entry->find("result")->string);
    if (const JsonValue* list = entry->find("changes")) changes += list->items.size();
  }
  EXPECT_EQ(changes, 300);
  EXPECT_THAT(actions, ::testing::ElementsAre("power_limit requested", "power_limit applied",
                                              "clock_changes applied", "clock_changes applied",
                                              "restore applied"));
}

TEST_F(GpuControlTest, ALockThatTheDriverTellsIsPutBackAndOneItDoesNotTellIsTakenOff) {
  for (const bool tells : {true, false}) {
    gpu_.tells_locks = tells;
    TestGpu::State before;
    before.graphics = ClockRange{{600}, {1200}};
    gpu_.set(before);
    start();
    ASSERT_TRUE(control_->apply(holder_, lock(900, 900), now_).ok());
    ASSERT_TRUE(control_->restore(holder_).ok());
    EXPECT_EQ(gpu_.state().graphics, tells ? before.graphics : std::nullopt);
  }
}

TEST_F(GpuControlTest, WhatWasNotChangedIsNotTouchedByPuttingBack) {
  TestGpu::State before;
  before.graphics = ClockRange{{600}, {1200}};
  before.memory = ClockRange{{1215}, {1215}};
  gpu_.set(before);
  gpu_.tells_locks = false;
  ASSERT_TRUE(control_->apply(holder_, limit(200_W), now_).ok());
  ASSERT_TRUE(control_->restore(holder_).ok());
  EXPECT_EQ(gpu_.state(), before);
}

TEST_F(GpuControlTest, WhatFailsToBePutBackStaysToBePutBackAndTheRestIsDone) {
  ASSERT_TRUE(control_->apply(holder_, limit(200_W), now_).ok());
  ASSERT_TRUE(control_->apply(holder_, lock(900, 900), now_).ok());
  gpu_.before([](const std::string& call) -> Status {
    if (call == "set_power_limit") return Error::of(ErrorCode::kUnavailable, "GPU is lost");
    return ok_status();
  });
  const Status failed = control_->restore(holder_);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().text(), HasSubstr("GPU is lost"));
  EXPECT_TRUE(control_->saved().changed());
  EXPECT_FALSE(state_is_empty());
  EXPECT_EQ(gpu_.state().graphics, std::nullopt);
  gpu_.before(nullptr);
  ASSERT_TRUE(control_->restore(holder_).ok());
  EXPECT_EQ(gpu_.state(), TestGpu::State());
  EXPECT_TRUE(state_is_empty());
}

// Whatever is set, whichever calls fail, and wherever the agent is killed: the next agent restores
// the original state.
TEST_F(GpuControlTest, AnyHistoryIsUndone) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  for (int round = 0; round < 60; ++round) {
    TestGpu::State before;
    before.limit = Watts{static_cast<double>(150 + upto(200))};
    before.persistence = upto(1) == 0;
    if (upto(1) == 0) before.graphics = ClockRange{{300 + 15 * upto(20)}, {1200}};
    gpu_.before(nullptr);
    gpu_.set(before);
    start();
    gpu_.before([&](const std::string&) -> Status {
      if (upto(9) == 0) return Error::of(ErrorCode::kUnavailable, "not now");
      return ok_status();
    });
    for (int step = upto(12); step > 0; --step) {
      const int what = upto(6);
      const int clock = 300 + 15 * upto(60);
      if (what == 0) (void)control_->apply(holder_, limit(Watts{150.0 + upto(250)}), now_);
      if (what == 1) (void)control_->apply(holder_, lock(clock, clock), now_);
      if (what == 2) (void)control_->set_clock(holder_, Megahertz{clock}, {});
      if (what == 3) {
        (void)control_->apply(holder_, of_kind(Setting::Kind::kPersistenceMode, upto(1) == 0),
                              now_);
      }
      if (what == 4) (void)control_->apply(holder_, of_kind(Setting::Kind::kResetClocks), now_);
      if (what == 5) (void)control_->restore(holder_);
      if (what == 6) start();
    }
    gpu_.before(nullptr);
    if (upto(1) == 0) start();
    ASSERT_TRUE(control_->restore(holder_).ok());
    ASSERT_EQ(gpu_.state(), before) << "round " << round;
    ASSERT_TRUE(state_is_empty());
  }
}

}  // namespace
}  // namespace harpe::node
