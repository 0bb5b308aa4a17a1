// A rank's client, end to end: real HTTP to a server with a real job, the clock channels of a real
// agent, and GPUs that only record their settings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/gpu_testing.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/client_testing.h"
#include "harpe/training/client/scripted_cuda_testing.h"

namespace harpe::training {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr auto kClientForward = InstructionKind::kForward;
constexpr auto kClientBackward = InstructionKind::kBackward;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    spec_.shape = {.data = 1, .stages = 1, .tensor = 1};
    spec_.schedule = *one_f_one_b({.stages = 1, .micro_batches = 2});
    ::unsetenv("HARPE_SERVER");
  }
  ~ClientTest() override { controller_.reset(); }

  void start_agent() {
    Devices devices;
    devices.gpus.push_back(gpu_.device());
    node::ControllerOptions options = node::options_in(directory_);
    options.prompt_owners = false;
    auto made = node::Controller::start(std::move(devices),
                                        node::policy_of_this_user("clocks_mhz = [300, 1410]\n"),
                                        options, system_clock());
    ASSERT_TRUE(made.ok()) << made.error().text();
    controller_ = *std::move(made);
  }
  RankClientOptions options() {
    RankClientOptions options;
    options.server = server_.url();
    options.job = "test";
    options.spec = spec_;
    options.clock_socket = node::options_in(directory_).clock_socket;
    options.measured = device_.get();
    options.log = [this](const std::string& text) {
      const MutexLock lock(mutex_);
      log_.push_back(text);
    };
    return options;
  }
  std::unique_ptr<RankClient> started(RankClientOptions options) {
    auto client = RankClient::start(std::move(options));
    EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().text());
    return client.ok() ? *std::move(client) : nullptr;
  }
  std::unique_ptr<RankClient> started() { return started(options()); }
  /// Returns the log without the messages caused by the library that an earlier test has loaded.
  std::vector<std::string> events() {
    std::vector<std::string> others = all_events();
    std::erase_if(others, [](const std::string& text) { return text.find(kCalls) < text.size(); });
    return others;
  }
  std::vector<std::string> all_events() {
    const MutexLock lock(mutex_);
    return log_;
  }
  static constexpr const char* kCalls = "clocks follow the calls of training";
  std::optional<int> locked() const {
    const auto lock = gpu_.state().graphics;
    return lock ? std::optional(lock->lowest.value) : std::nullopt;
  }
  bool becomes_locked(std::optional<int> clock) {
    return eventually([&] { return locked() == clock; });
  }
  /// Runs one iteration of two micro-batches: F0 B0 F1 B1.
  static void iterate(RankClient& client) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (const auto kind : {kClientForward, kClientBackward}) {
        client.on_instruction_begin(kind, 0, micro_batch);
        client.on_instruction_end();
      }
    }
  }
  /// Iterates on a separate thread, with some milliseconds per iteration.
  class Training {
   public:
    explicit Training(RankClient& client)
        : thread_([this, &client] {
            while (!ended_) {
              iterate(client);
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
          }) {}
    void end() {
      ended_ = true;
      thread_.join();
    }

   private:
    std::atomic<bool> ended_ = false;
    std::thread thread_;  // last: uses the members above
  };
  bool registers(RankClient& client) {
    return eventually([&] { return client.registered(); });
  }
  /// Responds to every registration and report with only these assignments.
  void order(const std::string& assignments) {
    server_.respond_by(
        [assignments](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
          if (request.path.ends_with("/events")) {
            return net::HttpResponse{.status = 200, .content_type = "text/event-stream"};
          }
          return net::HttpResponse{.status = 200,
                                   .content_type = "application/json",
                                   .body = "{\"assignments\": [" + assignments + "]}"};
        });
  }

  TestDirectory directory_;
  TestServer server_;
  node::TestGpu gpu_{0};
  std::unique_ptr<Gpu> device_ = gpu_.device();
  std::unique_ptr<node::Controller> controller_;
  JobSpec spec_;
  Mutex mutex_;
  std::vector<std::string> log_ HARPE_GUARDED_BY(mutex_);
};

TEST_F(ClientTest, ReportsEveryIterationByItself) {
  start_agent();
  auto client = started();
  ASSERT_TRUE(registers(*client));
  for (int i = 0; i < 5; ++i) iterate(*client);
  client.reset();
  const auto reports = server_.reports();
  ASSERT_THAT(reports, SizeIs(5)) << "the last one is sent while it stops";
  EXPECT_TRUE(server_.with_job<bool>([](auto& job) { return job->ended().has_value(); }));
  for (int i = 0; i < 5; ++i) {
    const IterationReport& report = reports[static_cast<std::size_t>(i)];
    EXPECT_EQ(report.iteration, i);
    ASSERT_THAT(report.instructions, SizeIs(2));
    EXPECT_EQ(report.instructions[0].kind, kClientForward);
    EXPECT_EQ(report.instructions[0].count, 2);
    EXPECT_GT(report.instructions[1].time.value, 0);
    EXPECT_LE(report.instructions[0].time.value + report.instructions[1].time.value,
              report.time.value + 1e-9);
  }
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(ClientTest, AnAssignmentThatLeavesTheClockHoldsWithoutAnAgentAndSetsNothingWithOne) {
  spec_.profiling.as_is = true;
  for (const bool with_agent : {false, true}) {
    if (with_agent) start_agent();
    const std::size_t before = server_.reports().size();
    auto client = started();
    ASSERT_TRUE(registers(*client));
    Training training(*client);
    EXPECT_TRUE(eventually([&] {
      const auto reports = server_.reports();
      return reports.size() > before && reports.back().version > 0;
    }));
    training.end();
    EXPECT_EQ(client->counts().clock_changes, 0U);
    EXPECT_EQ(locked(), std::nullopt);
  }
}

TEST_F(ClientTest, PausesWhenItIsAskedToAndCountsNoneOfThatTime) {
  start_agent();
  RankClientOptions given = options();
  given.patience = Seconds{1};
  auto client = started(std::move(given));
  const auto set_pace = [&](std::optional<Pace> pace) {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    const Seconds now{std::chrono::duration<double>(since).count()};
    ASSERT_TRUE(server_.with_job<bool>(
        [&](std::optional<Job>& job) { return job && job->set_pace(pace, now).ok(); }));
  };
  const auto state = [&] {
    return server_.with_job<PauseState>(
        [](std::optional<Job>& job) { return job ? job->status().pause : PauseState(); });
  };
  std::atomic<bool> ended = false, asks_twice = false;
  std::atomic<int> pauses = 0;
  std::int64_t paused_before = -1, iterations = 0;
  std::string why;
  std::thread training([&] {
    while (!ended) {
      if (const auto pause = client->pause_requested()) {
        paused_before = iterations;
        why = pause->why;
        EXPECT_EQ(pause->until, Seconds{2e9});
        while (!client->wait_for_resume(Seconds{0.2}) && !ended) continue;
        ++pauses;
        asks_twice = client->pause_requested().has_value();
      }
      iterate(*client);
      ++iterations;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_TRUE(eventually([&] { return server_.reports().size() > 10; }));
  set_pace(Pace{.pause = true, .resumes = Seconds{2e9}, .why = "412 g/kWh"});
  EXPECT_TRUE(eventually([&] { return state().is == PauseState::Is::kPaused; }));
  EXPECT_EQ(state().waiting, 1);
  // The iteration before the pause is reported during the pause, and the clock is free.
  const std::int64_t from = state().from;
  EXPECT_TRUE(eventually([&] { return server_.reports().back().iteration == from - 1; }));
  EXPECT_TRUE(becomes_locked({}));
  // During the pause, the rank registers again; every second in this test.
  const auto registered = [&] {
    return std::ranges::count(server_.requests(), "POST /v1/jobs/test/ranks");
  };
  const auto before = registered();
  EXPECT_TRUE(eventually([&] { return registered() >= before + 2; }));
  EXPECT_EQ(pauses, 0);
  set_pace({});
  EXPECT_TRUE(eventually([&] { return pauses == 1; }));
  EXPECT_TRUE(eventually([&] { return server_.reports().back().iteration > from + 5; }));
  ended = true;
  training.join();
  EXPECT_EQ(paused_before, from);
  EXPECT_EQ(why, "412 g/kWh");
  EXPECT_FALSE(asks_twice);
  for (const IterationReport& report : server_.reports())
    EXPECT_LT(report.time, Seconds{0.25}) << report.iteration;
}

TEST_F(ClientTest, SaysThatAFileOfTheJobIsNotRead) {
  ::setenv("HARPE_JOB_FILE", "/nowhere/job.json", 1);
  ASSERT_TRUE(registers(*started()));
  ::unsetenv("HARPE_JOB_FILE");
  EXPECT_THAT(events(), Contains(HasSubstr("HARPE_JOB_FILE is not read")));
}

TEST_F(ClientTest, TellsWhetherItsGpuIsSimulated) {
  const std::filesystem::path file = directory_.path() / "simulation.toml";
  std::ofstream(file) << "state_file = \"" << (directory_.path() / "gpus").string()
                      << "\"\n[[gpu]]\nmodel = \"a100-sxm\"\n";
  const auto simulation = Simulation::open(file);
  ASSERT_TRUE(simulation.ok()) << simulation.error().text();
  const std::unique_ptr<Gpu> simulated = (*simulation)->gpu(0);
  const auto synthetic = [&] {
    return server_.with_job<bool>([](auto& job) { return job && job->status().synthetic; });
  };
  ASSERT_TRUE(registers(*started()));
  EXPECT_FALSE(synthetic());
  RankClientOptions with = options();
  with.measured = simulated.get();
  ASSERT_TRUE(registers(*started(with)));
  EXPECT_TRUE(synthetic());
}

TEST_F(ClientTest, ReportsWaitForTimesOfTheDeviceAndAreDroppedWithout) {
  start_agent();
  auto client = started();
  ASSERT_TRUE(registers(*client));
  client->await_device_times(Seconds{600});
  const Instant begin = system_clock().now();
  for (std::int64_t i = 0; i < 4; ++i) {
    client->on_iteration_begin(i);
    iterate(*client);
    client->on_iteration_end();
  }
  const auto times = [&](Seconds each) {
    std::vector<TimeSpan> spans;
    for (int k = 0; k < 4; ++k) spans.push_back({begin, begin + each});
    return spans;
  };
  const std::vector<TimeSpan> too_few = {{begin, begin}};
  client->on_device_times(0, times(Seconds{0.25}));
  ASSERT_TRUE(eventually([&] { return server_.reports().size() == 1; }));
  client->on_device_times(1, too_few);
  client->on_device_times(3, times(Seconds{0.5}));  // the times of the third iteration are lost
  client->on_iteration_begin(4);
  ASSERT_TRUE(eventually([&] { return server_.reports().size() == 2; }));
  client->await_device_times(Seconds{0});
  client.reset();

  const auto reports = server_.reports();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_EQ(reports[0].iteration, 0);
  EXPECT_DOUBLE_EQ(reports[0].instructions[0].time.value, 0.5) << "two forwards";
  EXPECT_EQ(reports[1].iteration, 3);
  EXPECT_DOUBLE_EQ(reports[1].instructions[1].time.value, 1);
}

TEST_F(ClientTest, ReportsTellTimesOfTheStreamThatIsFollowed) {
  ScriptedCuda cuda;
  start_agent();
  auto client = started();
  ASSERT_TRUE(registers(*client));
  ASSERT_TRUE(client->follow_stream(nullptr).ok());
  std::uint64_t device = 1'000'000'000;
  cuda.value("device_ns", device);
  for (std::int64_t i = 0; i < 3; ++i) {
    client->on_iteration_begin(i);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (const auto kind : {kClientForward, kClientBackward}) {
        client->on_instruction_begin(kind, 0, micro_batch);
        device += kind == kClientForward ? 3'000'000 : 5'000'000;
        cuda.put([&cuda, device] { cuda.value("device_ns", device); });
        client->on_instruction_end();
      }
    }
    client->on_iteration_end();
  }
  client.reset();
  const auto reports = server_.reports();
  ASSERT_THAT(reports, SizeIs(3));
  for (const IterationReport& report : reports) {
    ASSERT_THAT(report.instructions, SizeIs(2));
    EXPECT_NEAR(report.instructions[0].time.value, 0.006, 1e-6) << "two forwards";
    EXPECT_NEAR(report.instructions[1].time.value, 0.010, 1e-6) << "two backwards";
  }
}

TEST_F(ClientTest, EachInstructionGetsItsOwnClockFromTheIterationOnThatWasOrdered) {
  start_agent();
  order(R"({"version": 1, "from_iteration": 0, "purpose": "all_max", "clocks_mhz": [1200]},
           {"version": 2, "from_iteration": 3, "purpose": "plan",
            "clocks_mhz": [1080, 900, 0, 600]})");
  auto client = started();
  ASSERT_TRUE(registers(*client));
  for (std::int64_t i = 0; i < 3; ++i) {
    client->on_iteration_begin(i);
    EXPECT_TRUE(becomes_locked(1200)) << "iteration " << i;
    iterate(*client);
  }
  EXPECT_TRUE(becomes_locked(1080)) << "what the next iteration begins with is known";
  client->on_iteration_begin(3);
  client->on_instruction_begin(kClientForward, 0, 0);
  EXPECT_TRUE(becomes_locked(1080));
  client->on_instruction_end();
  EXPECT_TRUE(becomes_locked(900)) << "asked for while the GPU waits";
  client->on_instruction_begin(kClientBackward, 0, 0);
  client->on_instruction_end();
  client->on_instruction_begin(kClientForward, 0, 1);
  EXPECT_EQ(locked(), 900) << "0: as it is";
  client->on_instruction_end();
  EXPECT_TRUE(becomes_locked(600));
  client->on_instruction_begin(kClientBackward, 0, 1);
  client->on_instruction_end();
  EXPECT_TRUE(becomes_locked(1080)) << "the first of the next iteration";
  client.reset();
  EXPECT_TRUE(becomes_locked(std::nullopt)) << "given back";
}

TEST_F(ClientTest, WhoComputesOnAGpuAndDoesNotSayInWhichStreamIsTold) {
  ScriptedCuda cuda;
  auto client = started();
  ASSERT_TRUE(registers(*client));
  for (int i = 0; i < 3; ++i) iterate(*client);
  ASSERT_TRUE(eventually([&] { return !all_events().empty(); }));
  client.reset();
  const auto said = all_events();
  EXPECT_EQ(std::ranges::count_if(
                said, [](const std::string& text) { return text.find(kCalls) < text.size(); }),
            1);
}

TEST_F(ClientTest, ClocksFollowTheStreamWhereTrainingRunsAhead) {
  ScriptedCuda cuda;
  start_agent();
  order(R"({"version": 1, "from_iteration": 0, "purpose": "plan",
            "clocks_mhz": [1080, 900, 1200, 600]})");
  auto client = started();
  ASSERT_TRUE(registers(*client));
  const Status followed = client->follow_stream(nullptr);
  ASSERT_TRUE(followed.ok()) << followed.error().text();
  // The whole iteration is in the device's queue before the device runs any of it.
  std::vector<std::promise<void>> gates;
  gates.push_back(cuda.put_gate());
  client->on_iteration_begin(0);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    for (const auto kind : {kClientForward, kClientBackward}) {
      client->on_instruction_begin(kind, 0, micro_batch);
      gates.push_back(cuda.put_gate());
      client->on_instruction_end();
    }
  }
  client->on_iteration_end();
  EXPECT_EQ(client->counts().instructions, 0);
  EXPECT_EQ(locked(), std::nullopt);
  for (std::size_t i = 0; const int clock : {1080, 900, 1200, 600, 1080}) {
    gates[i++].set_value();
    EXPECT_TRUE(becomes_locked(clock)) << "work " << i;
  }
  client->on_iteration_begin(1);
  ASSERT_TRUE(eventually([&] { return client->counts().iterations == 2; }));
  EXPECT_THAT(all_events(), IsEmpty());
}

TEST_F(ClientTest, AnInstructionOutOfOrderGetsItsOwnClockAndIsToldOnce) {
  start_agent();
  order(R"({"version": 1, "from_iteration": 0, "purpose": "plan",
            "clocks_mhz": [1080, 900, 1200, 600]})");
  auto client = started();
  ASSERT_TRUE(registers(*client));
  client->on_iteration_begin(0);
  client->on_instruction_begin(kClientForward, 0, 0);
  client->on_instruction_end();
  client->on_instruction_begin(kClientForward, 0, 1);  // before its predecessor's backward
  EXPECT_TRUE(becomes_locked(1200));
  client->on_instruction_end();
  client->on_instruction_begin(kClientBackward, 0, 0);
  EXPECT_TRUE(becomes_locked(900));
  client->on_instruction_end();
  client->on_instruction_begin(InstructionKind::kWeight, 0, 0);
  EXPECT_TRUE(becomes_locked(std::nullopt)) << "no clock of another instruction";
  client->on_instruction_end();
  EXPECT_EQ(client->counts().unexpected, 2);
  EXPECT_EQ(client->counts().unknown, 1);
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  EXPECT_THAT(events(), ElementsAre(HasSubstr("an order that differs from its schedule")));
}

TEST_F(ClientTest, AssignmentsDidNotHoldWhereAClockWasRefusedOrTheAgentWasAway) {
  start_agent();
  Mutex mutex;
  std::vector<IterationReport> reports;
  std::string clocks = "1080, 900, 1080, 900";
  server_.respond_by([&](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    const MutexLock lock(mutex);
    if (request.path.ends_with("/events")) return std::nullopt;
    if (request.path.ends_with("/reports")) {
      reports.push_back(*parse_iteration_report(request.body));
    }
    const std::string version = clocks.starts_with("1080") ? "1" : "2";
    return net::HttpResponse{.status = 200,
                             .content_type = "application/json",
                             .body = "{\"assignments\": [{\"version\": " + version +
                                     ", \"from_iteration\": 0, \"purpose\": \"plan\", "
                                     "\"clocks_mhz\": [" +
                                     clocks + "]}]}"};
  });
  auto client = started();
  ASSERT_TRUE(registers(*client));
  std::int64_t iteration = 0;
  // Iterates until four reports in a row have the expected versions.
  const auto says = [&](bool holds, std::uint64_t version) {
    return eventually([&] {
      client->on_iteration_begin(iteration++);
      for (int k = 0; k < 4; ++k) {
        client->on_instruction_begin(k % 2 == 0 ? kClientForward : kClientBackward, 0, k / 2);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // lets the agent see it
        client->on_instruction_end();
      }
      const MutexLock lock(mutex);
      const auto is_so = [&](const IterationReport& report) {
        return report.known == version && report.version == (holds ? version : 0);
      };
      return reports.size() >= 4 && std::all_of(reports.end() - 4, reports.end(), is_so);
    });
  };
  EXPECT_TRUE(says(true, 1));
  controller_.reset();
  EXPECT_TRUE(says(false, 1));
  EXPECT_THAT(events(), ElementsAre(HasSubstr("the agent has closed the connection")));
  start_agent();
  EXPECT_TRUE(says(true, 1));
  {
    // The policy does not allow 200 MHz. Each iteration ends with an allowed clock.
    const MutexLock lock(mutex);
    clocks = "1200, 200, 1200, 1200";
  }
  EXPECT_TRUE(says(false, 2));
  EXPECT_THAT(events().back(), AnyOf(HasSubstr("200 MHz was not set"),
                                     HasSubstr("refused some of the clocks in between")));
}

TEST_F(ClientTest, WithoutAServerTrainingGoesOnAndIsToldOnce) {
  start_agent();
  server_.down();
  const Instant begin = system_clock().now();
  auto client = started();
  for (int i = 0; i < 100; ++i) iterate(*client);
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  // Real time: the client tries again, but neither logs this nor locks a clock.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(locked(), std::nullopt);
  client.reset();
  EXPECT_LT((system_clock().now() - begin).value, 5);
  EXPECT_THAT(events(), ElementsAre(HasSubstr("training continues")));
}

TEST_F(ClientTest, WhenTheServerGoesAwayTheClockIsSetFreeAndTakenAgainWhenItIsBack) {
  start_agent();
  RankClientOptions given = options();
  given.patience = 0.2_s;
  order(R"({"version": 1, "from_iteration": 0, "purpose": "plan", "clocks_mhz": [900]})");
  auto client = started(given);
  ASSERT_TRUE(registers(*client));
  Training training(*client);
  EXPECT_TRUE(becomes_locked(900));
  server_.down();
  EXPECT_TRUE(becomes_locked(std::nullopt));
  server_.up();
  EXPECT_TRUE(becomes_locked(900));
  training.end();
  EXPECT_THAT(events(), ElementsAre(HasSubstr("training continues"), HasSubstr("responds again")));
}

// Plans rely on this, so the client declares it only for the latency of the job.
TEST_F(ClientTest, TellsTheServerThatItAsksForClocksAheadByTheJobsLatency) {
  Mutex mutex;
  std::optional<bool> asks_ahead;
  server_.respond_by([&](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (!request.path.ends_with("/ranks")) return std::nullopt;
    const MutexLock lock(mutex);
    asks_ahead = parse_rank_registration(request.body)->asks_ahead;
    return std::nullopt;
  });
  const auto told = [&](RankClientOptions given) {
    {
      const MutexLock lock(mutex);
      asks_ahead.reset();
    }
    given.take_over = true;
    const auto client = started(std::move(given));
    const auto is_told = [&] {
      const MutexLock lock(mutex);
      return asks_ahead.has_value();
    };
    EXPECT_TRUE(eventually(is_told));
    const MutexLock lock(mutex);
    return asks_ahead.value_or(false);
  };
  EXPECT_FALSE(told(options())) << "no clock is late";
  spec_.switch_latency = Seconds{0.01};
  EXPECT_TRUE(told(options()));
  RankClientOptions fixed = options();
  fixed.look_ahead = Seconds{0.007};
  EXPECT_FALSE(told(fixed)) << "a time of the user's";
}

TEST_F(ClientTest, ATokenThatExpiresSetsTheClockFreeUntilItsFileHoldsAnother) {
  start_agent();
  const std::string file = ::testing::TempDir() + "harpe_rank_token_" + std::to_string(::getpid());
  std::ofstream(file) << "first\n";
  std::atomic<const char*> good = "Bearer first";
  server_.respond_by([&good](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (request.path.ends_with("/events")) {
      return net::HttpResponse{.status = 200, .content_type = "text/event-stream"};
    }
    if (request.authorization != good.load()) {
      return net::HttpResponse{.status = 401,
                               .content_type = "application/json",
                               .body = R"({"error": {"message": "The token has expired."}})"};
    }
    return net::HttpResponse{.status = 200,
                             .content_type = "application/json",
                             .body = R"({"assignments": [{"version": 1, "from_iteration": 0,
                                                "purpose": "plan", "clocks_mhz": [900]}]})"};
  });
  RankClientOptions given = options();
  given.patience = 0.3_s;
  given.token_file = file;
  auto client = started(given);
  ASSERT_TRUE(registers(*client));
  Training training(*client);
  EXPECT_TRUE(becomes_locked(900));
  good = "Bearer second";
  EXPECT_TRUE(becomes_locked(std::nullopt));
  std::ofstream(file) << "second\n";
  EXPECT_TRUE(becomes_locked(900));
  training.end();
  std::filesystem::remove(file);
  EXPECT_THAT(events(), ElementsAre(HasSubstr("The token has expired. (status 401)")));
}

TEST_F(ClientTest, WhenTheAgentGoesAwayTrainingGoesOnAndTheNextAgentSetsClocks) {
  order(R"({"version": 1, "from_iteration": 0, "purpose": "plan", "clocks_mhz": [900]})");
  auto client = started();
  ASSERT_TRUE(registers(*client));
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  iterate(*client);
  EXPECT_THAT(events(), ElementsAre(HasSubstr("clocks cannot be set")));
  start_agent();
  EXPECT_TRUE(becomes_locked(900)) << "what training wants by now, without another instruction";
  iterate(*client);
  iterate(*client);
  client.reset();
  const auto requests = server_.requests();
  EXPECT_GE(std::ranges::count(requests, "POST /v1/jobs/test/reports"), 2);
}

TEST_F(ClientTest, AServerThatNeverRespondsHoldsNothingUp) {
  start_agent();
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::listen(silent, 8), 0);
  RankClientOptions given = options();
  given.server = "http://" + net::listening_address(silent);
  auto client = started(given);
  for (int i = 0; i < 10; ++i) iterate(*client);
  const Instant begin = system_clock().now();
  client.reset();
  EXPECT_LT((system_clock().now() - begin).value, 3);
  ::close(silent);
}

TEST_F(ClientTest, ResponsesThatMeanNothingChangeNothing) {
  start_agent();
  const char* const wrong_length =
      R"({"assignments": [{"version": 1, "from_iteration": 0, "purpose": "plan", )"
      R"("clocks_mhz": [900, 900, 900]}]})";
  for (const char* body : {"", "null", "[]", "{\"assignments\": 7}",
                           "{\"assignments\": [{\"version\": -1}]}", wrong_length}) {
    server_.respond_by([body](const net::HttpRequest&) -> std::optional<net::HttpResponse> {
      return net::HttpResponse{.status = 200, .content_type = "x", .body = body};
    });
    auto client = started();
    ASSERT_TRUE(registers(*client)) << body;
    iterate(*client);
    iterate(*client);
    client.reset();
    EXPECT_EQ(gpu_.calls("set_locked_clocks"), 0) << body;
  }
}

TEST_F(ClientTest, EachOfSeveralRanksLogsItsOwnWarningOnceAndNamesItself) {
  constexpr int kRanks = 3;
  spec_.shape = {.data = kRanks, .stages = 1, .tensor = 1};
  std::vector<std::unique_ptr<node::TestGpu>> gpus;
  std::vector<std::unique_ptr<Gpu>> devices;
  std::vector<std::unique_ptr<RankClient>> clients;
  for (int rank = 0; rank < kRanks; ++rank) {
    gpus.push_back(std::make_unique<node::TestGpu>(rank));
    devices.push_back(gpus.back()->device());
    RankClientOptions given = options();
    given.coordinates = RankCoordinates{.data = rank};
    given.measured = devices.back().get();
    given.clock_socket = rank > 0 ? "/nowhere/clocks.sock" : "";
    clients.push_back(started(given));
    ASSERT_NE(clients.back(), nullptr);
  }
  ASSERT_TRUE(eventually([&] { return events().size() == 2; }));
  for (auto& client : clients) EXPECT_TRUE(registers(*client));
  clients.clear();
  EXPECT_THAT(events(), UnorderedElementsAre(HasSubstr("rank 1: clocks cannot be set: "),
                                             HasSubstr("rank 2: clocks cannot be set: ")));
}

TEST_F(ClientTest, OnlyTheFirstRankOfANodeLogsThatItsAgentIsAway) {
  spec_.shape = {.data = 2, .stages = 1, .tensor = 1};
  std::vector<std::unique_ptr<node::TestGpu>> gpus;
  std::vector<std::unique_ptr<Gpu>> devices;
  std::vector<std::unique_ptr<RankClient>> clients;
  for (int rank = 1; rank >= 0; --rank) {
    ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
    gpus.push_back(std::make_unique<node::TestGpu>(rank));
    devices.push_back(gpus.back()->device());
    RankClientOptions given = options();
    given.coordinates = RankCoordinates{.data = rank};
    given.measured = devices.back().get();
    given.clock_socket = "/nowhere/clocks.sock";
    clients.push_back(started(given));
    ASSERT_NE(clients.back(), nullptr);
  }
  ::unsetenv("LOCAL_RANK");
  for (auto& client : clients) EXPECT_TRUE(registers(*client));
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  clients.clear();
  EXPECT_THAT(events(), ElementsAre(HasSubstr("rank 0: clocks cannot be set: ")));
}

TEST_F(ClientTest, WithoutAServerGivenItDoesNothing) {
  RankClientOptions given;
  given.log = [this](const std::string& text) {
    const MutexLock lock(mutex_);
    log_.push_back(text);
  };
  auto client = started(given);
  ASSERT_NE(client, nullptr);
  iterate(*client);
  EXPECT_FALSE(client->registered());
  EXPECT_THAT(events(), SizeIs(1));
  ::setenv("LOCAL_RANK", "3", 1);
  (void)started(given);
  EXPECT_THAT(events(), SizeIs(1)) << "each node says so once";
  ::setenv("LOCAL_RANK", "0", 1);
  (void)started(given);
  EXPECT_THAT(events(), SizeIs(2));
  ::unsetenv("LOCAL_RANK");
}

TEST_F(ClientTest, AGpuThatTheNodeDoesNotHaveIsToldWithWhatWasGiven) {
  const std::filesystem::path file = directory_.path() / "simulation.toml";
  std::ofstream(file) << "state_file = \"" << (directory_.path() / "gpus").string()
                      << "\"\n[[gpu]]\nmodel = \"a100-sxm\"\ncount = 2\n";
  ::setenv("HARPE_SIMULATION", file.c_str(), 1);
  RankClientOptions given = options();
  given.measured = nullptr;
  given.gpu = 99;
  const auto refused = RankClient::start(given);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(refused.error().text(), HasSubstr("no GPU 99"));
  given.gpu.reset();
  ::setenv("LOCAL_RANK", "98", 1);
  auto client = started(given);
  client.reset();
  // Responses of the server may be logged, too.
  EXPECT_THAT(events(), Contains(HasSubstr("LOCAL_RANK is 98")));
  ::unsetenv("LOCAL_RANK");
  ::unsetenv("HARPE_SIMULATION");
}

TEST_F(ClientTest, DeviceTimesReplaceThoseOfTheCalls) {
  auto client = started();
  ASSERT_TRUE(registers(*client));
  std::vector<TimeSpan> device;
  const Instant now = system_clock().now();
  for (int i = 0; i < 4; ++i)
    device.push_back({now + Seconds{0.01 * i}, now + Seconds{0.01 * i + 0.005}});
  iterate(*client);
  client->on_iteration_end(device);
  iterate(*client);
  client.reset();
  const auto reports = server_.reports();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_NEAR(reports[0].instructions[0].time.value, 0.01, 1e-9);
  EXPECT_LT(reports[1].instructions[0].time.value, 0.005);
}

}  // namespace
}  // namespace harpe::training
