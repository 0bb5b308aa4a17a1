// Several knobs, end to end: assignments with memory clocks, power limits and labels, a real agent,
// and a simulated GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/client_testing.h"
#include "harpe/training/client/scripted_cuda_testing.h"

namespace harpe::training {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kForward = InstructionKind::kForward;
constexpr auto kBackward = InstructionKind::kBackward;
constexpr const char* kAllowed = "memory_clocks_mhz = [405, 7251]\npower_limit_w = [100, 300]\n";

/// Returns an assignment of clocks 1500, 900, 1500, 900 for F0 B0 F1 B1, with these knobs.
std::string plan(int version, int from, const std::string& knobs) {
  return R"({"version": )" + std::to_string(version) + R"(, "from_iteration": )" +
         std::to_string(from) + R"(, "purpose": "plan", "clocks_mhz": [1500, 900, 1500, 900])" +
         knobs + "}";
}
constexpr const char* kSteady =
    R"(, "knobs": [{"memory_frequency_mhz": 5001, "power_limit_w": 250, "label": "sm12"},
                   {"memory_frequency_mhz": 5001, "power_limit_w": 250}], "knobs_of": [0, 1, 0, 1])";
constexpr const char* kLabels =
    R"(, "knobs": [{"label": "a"}, {"label": "b"}, {}], "knobs_of": [0, 1, 0, 2])";

class KnobsTest : public ::testing::Test {
 protected:
  KnobsTest() {
    ::unsetenv("HARPE_SERVER");
    simulation_ = *Simulation::make("[[gpu]]\nmodel = \"a40\"\n", "here", system_clock());
    seen_ = simulation_->gpu(0);
    measured_ = simulation_->gpu(0);
  }
  ~KnobsTest() override {
    client_.reset();
    controller_.reset();
  }

  void start_agent(const std::string& allowed = kAllowed) {
    Devices devices;
    devices.gpus.push_back(simulation_->gpu(0));
    node::ControllerOptions options = node::options_in(directory_);
    options.prompt_owners = false;
    auto made = node::Controller::start(
        std::move(devices), node::policy_of_this_user("clocks_mhz = [210, 1740]\n" + allowed),
        options, system_clock());
    ASSERT_TRUE(made.ok()) << made.error().text();
    controller_ = *std::move(made);
  }
  /// Starts a client that receives only these assignments.
  void start_client(const std::string& assignments) {
    server_.respond_by(
        [assignments, this](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
          if (request.path.ends_with("/events")) {
            return net::HttpResponse{.status = 200, .content_type = "text/event-stream"};
          }
          if (const auto report = parse_iteration_report(request.body); report.ok()) {
            const MutexLock lock(mutex_);
            reports_.push_back(*report);
          }
          return net::HttpResponse{.status = 200,
                                   .content_type = "application/json",
                                   .body = "{\"assignments\": [" + assignments + "]}"};
        });
    RankClientOptions options;
    options.server = server_.url();
    options.job = "test";
    options.spec.shape = {.data = 1, .stages = 1, .tensor = 1};
    options.spec.schedule = *one_f_one_b({.stages = 1, .micro_batches = 2});
    options.clock_socket = node::options_in(directory_).clock_socket;
    options.measured = measured_.get();
    options.log = [this](const std::string& text) {
      const MutexLock lock(mutex_);
      log_.push_back(text);
    };
    auto client = RankClient::start(std::move(options));
    ASSERT_TRUE(client.ok()) << client.error().text();
    client_ = *std::move(client);
    ASSERT_TRUE(eventually([&] { return client_->registered(); }));
  }

  std::string begin(InstructionKind kind, int micro_batch) {
    client_->on_instruction_begin(kind, 0, micro_batch);
    return client_->label();
  }
  /// Runs an iteration. Returns the labels of F0 B0 F1 B1.
  std::vector<std::string> iterate(std::int64_t iteration) {
    client_->on_iteration_begin(iteration);
    std::vector<std::string> labels;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (const auto kind : {kForward, kBackward}) {
        labels.push_back(begin(kind, micro_batch));
        client_->on_instruction_end();
      }
    }
    client_->on_iteration_end();
    return labels;
  }
  std::optional<int> locked(ClockDomain domain) {
    const auto lock = seen_->locked_clocks(domain);
    return lock.ok() && *lock ? std::optional((*lock)->highest.value) : std::nullopt;
  }
  bool is_set(std::optional<int> memory_clock, Watts limit) {
    return locked(ClockDomain::kMemory) == memory_clock && *seen_->power_limit() == limit;
  }
  bool becomes_set(std::optional<int> memory_clock, Watts limit) {
    return eventually([&] { return is_set(memory_clock, limit); });
  }
  std::vector<std::string> events() {
    const MutexLock lock(mutex_);
    std::vector<std::string> others = log_;
    std::erase_if(others, [](const std::string& text) {
      return text.find("clocks follow the calls of training") < text.size();
    });
    return others;
  }
  IterationReport last_report() {
    const MutexLock lock(mutex_);
    return reports_.empty() ? IterationReport{} : reports_.back();
  }
  bool is_logged(const std::string& part) {
    return eventually([&] {
      return std::ranges::any_of(
          events(), [&](const std::string& text) { return text.find(part) != std::string::npos; });
    });
  }

  TestDirectory directory_;
  TestServer server_;
  std::shared_ptr<Simulation> simulation_;
  std::unique_ptr<Gpu> seen_, measured_;
  std::unique_ptr<node::Controller> controller_;
  Mutex mutex_;
  std::vector<std::string> log_ HARPE_GUARDED_BY(mutex_);
  std::vector<IterationReport> reports_ HARPE_GUARDED_BY(mutex_);
  std::unique_ptr<RankClient> client_;
};

TEST_F(KnobsTest, AreSetWhereTheyCanBeAndHandedToTrainingWhereNot) {
  start_agent();
  start_client(plan(1, 2, kSteady) + "," + plan(2, 4, ""));
  EXPECT_THAT(iterate(0), ElementsAre("", "", "", ""));
  EXPECT_TRUE(is_set(std::nullopt, 300_W));
  iterate(1);
  for (const std::int64_t iteration : {2, 3}) {
    EXPECT_THAT(iterate(iteration), ElementsAre("sm12", "", "sm12", ""));
    EXPECT_TRUE(becomes_set(5001, 250_W));
  }
  EXPECT_THAT(iterate(4), ElementsAre("", "", "", ""));
  EXPECT_TRUE(becomes_set(std::nullopt, 300_W)) << "as before, when the assignment ends";
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(KnobsTest, AreRestoredWhenTheClientEnds) {
  start_agent();
  start_client(plan(1, 0, kSteady));
  iterate(0);
  iterate(1);
  EXPECT_TRUE(becomes_set(5001, 250_W));
  client_.reset();
  EXPECT_TRUE(becomes_set(std::nullopt, 300_W));
}

TEST_F(KnobsTest, ThatThePolicyForbidsAreToldAndNothingIsSet) {
  start_agent("memory_clocks_mhz = [405, 7251]\n");
  start_client(plan(1, 0, kSteady));
  iterate(0);
  iterate(1);
  EXPECT_TRUE(is_logged("(power_limit_w in its file); training runs at all-max"));
  iterate(2);
  EXPECT_THAT(iterate(3), ElementsAre("", "", "", ""));
  EXPECT_TRUE(becomes_set(std::nullopt, 300_W)) << "not the half of it either";
  EXPECT_TRUE(eventually([&] { return !locked(ClockDomain::kGraphics); })) << "all-max";
  EXPECT_EQ(client_->counts().version, 0);
  ASSERT_TRUE(eventually([&] { return last_report().iteration == 2; }));
  EXPECT_EQ(last_report().version, 0);
  EXPECT_THAT(last_report().refusal, HasSubstr("it allows none (power_limit_w"));
  EXPECT_EQ(events().size(), 1);
}

TEST_F(KnobsTest, ThatTheGpuCannotDoAreTold) {
  start_agent();
  start_client(
      plan(1, 0, R"(, "knobs": [{"memory_frequency_mhz": 6000}], "knobs_of": [0, 0, 0, 0])"));
  iterate(0);
  iterate(1);
  EXPECT_TRUE(is_logged("6000 MHz is not a memory clock of GPU 0; the nearest is"));
  EXPECT_TRUE(is_set(std::nullopt, 300_W));
}

TEST_F(KnobsTest, ThatDifferBetweenInstructionsAreRefused) {
  start_agent();
  start_client(
      plan(1, 0, R"(, "knobs": [{"memory_frequency_mhz": 5001}, {"memory_frequency_mhz": 405}],
                              "knobs_of": [0, 1, 0, 1])"));
  EXPECT_TRUE(is_logged("changes the memory clock (5001 MHz and 405 MHz) between instructions"));
  iterate(0);
  iterate(1);
  EXPECT_EQ(locked(ClockDomain::kGraphics), std::nullopt) << "all-max";
  EXPECT_TRUE(is_set(std::nullopt, 300_W));
}

TEST_F(KnobsTest, LabelsAreForTrainingThatAsks) {
  start_agent();
  start_client(plan(1, 0, kLabels));
  const auto run = [&](std::int64_t iteration) {
    client_->on_iteration_begin(iteration);
    client_->on_instruction_begin(kForward, 0, 0);
    client_->on_instruction_end();
  };
  run(0);
  run(1);
  EXPECT_TRUE(is_logged("training does not read them"));
  EXPECT_EQ(client_->counts().version, 0);
  EXPECT_STREQ(client_->label(), "") << "it runs at all-max";
  EXPECT_EQ(locked(ClockDomain::kGraphics), std::nullopt);
  EXPECT_THAT(iterate(2), ElementsAre("a", "b", "a", ""));
  EXPECT_EQ(client_->counts().version, 1);
}

TEST_F(KnobsTest, LabelsComeWithTheCallsWhereTrainingRunsAhead) {
  ScriptedCuda cuda;
  start_agent();
  start_client(plan(1, 0, kLabels));
  (void)client_->label();
  ASSERT_TRUE(client_->follow_stream(nullptr).ok());
  std::promise<void> gate = cuda.put_gate();
  EXPECT_THAT(iterate(0), ElementsAre("a", "b", "a", ""));
  EXPECT_THAT(iterate(1), ElementsAre("a", "b", "a", ""));
  EXPECT_EQ(client_->counts().iterations, 0) << "the device has not begun";
  gate.set_value();
  EXPECT_TRUE(eventually([&] { return client_->counts().iterations == 2; }));
  EXPECT_EQ(client_->counts().version, 1);
  EXPECT_THAT(events(), IsEmpty());
}

}  // namespace
}  // namespace harpe::training
