// zeusd's routes on a controller without devices: calls of the controller, and responses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/agent_testing.h"
#include "harpe/node/agent/http_api.h"

namespace harpe::node {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

class ZeusdRoutes : public ::testing::Test {
 protected:
  net::HttpResponse ask(const std::string& method, const std::string& path,
                        const std::string& query = "", bool needs_token = false,
                        const std::string& token = "") {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.query = query;
    request.needs_token = needs_token;
    if (!token.empty()) request.authorization = "Bearer " + token;
    if (!needs_token) request.peer = {.uid = 1000, .pid = 42};
    return send(std::move(request));
  }
  net::HttpResponse send(net::HttpRequest request) {
    std::optional<net::HttpResponse> answered;
    bool running = false;
    api_.handle(std::move(request), [&](net::HttpResponse response) {
      answered = std::move(response);
      if (running) loop_.stop();
    });
    running = true;
    if (!answered) loop_.run();
    return answered.value_or(net::HttpResponse{.status = 0});
  }
  static std::string token(const std::vector<std::string>& scopes,
                           std::optional<std::int64_t> expires = {}) {
    return net::SigningKey::of(kSecret)->sign({"grafana", scopes, expires});
  }
  static ApiOptions options() {
    return {.token_keys = *net::TokenKeys::of(kSecret),
            .version = "1",
            .gpus_with_energy = {true, false},
            .cpus_with_dram = {true}};
  }

  FakeController controller_;
  net::ServerLoop loop_;
  AgentApi api_{controller_, loop_, system_clock(), options()};
};

TEST_F(ZeusdRoutes, DiscoveryTellsDevicesGroupsAndWhetherATokenIsNeeded) {
  EXPECT_EQ(json::parse(ask("GET", "/discover").body), json::parse(R"({
    "gpus": [{"id": 0, "name": "NVIDIA A40", "pci_address": "0000:00:00.0", "cumulative_energy_available": true},
             {"id": 1, "name": "NVIDIA A40", "pci_address": "0000:01:00.0", "cumulative_energy_available": false}],
    "cpus": [{"id": 0, "dram_available": true}],
    "enabled_api_groups": ["gpu-control", "gpu-read", "cpu-read"], "auth_required": false})"));
  EXPECT_TRUE(json::parse(ask("GET", "/discover", "", true).body)["auth_required"]);
}

TEST_F(ZeusdRoutes, EachWriteBecomesItsSetting) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"/gpu/set_power_limit?power_limit_mw=200500", "GPU 0: limit 200500 mW"},
      {"/gpu/set_persistence_mode?enabled=false", "GPU 0: persistence off"},
      {"/gpu/set_gpu_locked_clocks?min_clock_mhz=900&max_clock_mhz=1200",
       "GPU 0: graphics 900-1200"},
      {"/gpu/set_mem_locked_clocks?min_clock_mhz=1215&max_clock_mhz=1215",
       "GPU 0: memory 1215-1215"},
      {"/gpu/reset_gpu_locked_clocks?", "GPU 0: reset graphics"},
      {"/gpu/reset_mem_locked_clocks?", "GPU 0: reset memory"}};
  for (const auto& [target, applied] : cases) {
    const std::size_t question = target.find('?');
    for (const std::string block : {"true", "false"}) {
      controller_.applied.clear();
      const net::HttpResponse response =
          ask("POST", target.substr(0, question),
              "gpu_ids=0&block=" + block + "&" + target.substr(question + 1));
      EXPECT_EQ(response.status, 200) << target << response.body;
      EXPECT_THAT(response.body, IsEmpty());
      EXPECT_THAT(controller_.applied, ElementsAre(applied));
    }
  }
  controller_.applied.clear();
  EXPECT_EQ(ask("POST", "/gpu/reset_locked_clocks", "gpu_ids=0&block=true").status, 200);
  EXPECT_THAT(controller_.applied, ElementsAre("GPU 0: reset graphics", "GPU 0: reset memory"));
}

TEST_F(ZeusdRoutes, WrongQueriesAre400AndChangeNothing) {
  const std::vector<std::string> queries = {"",
                                            "gpu_ids=0&block=true",
                                            "gpu_ids=0&power_limit_mw=200000",
                                            "block=true&power_limit_mw=200000",
                                            "gpu_ids=0&block=1&power_limit_mw=200000",
                                            "gpu_ids=0&block=true&power_limit_mw=-1",
                                            "gpu_ids=0&block=true&power_limit_mw=4294967296",
                                            "gpu_ids=0&block=true&power_limit_mw=2e5",
                                            "gpu_ids=0&block=true&power_limit_mw=200000&more=1",
                                            "gpu_ids=0&gpu_ids=1&block=true&power_limit_mw=200000",
                                            "gpu_ids=0&block=true&power_limit_mw=%zz"};
  for (const std::string& query : queries) {
    EXPECT_EQ(ask("POST", "/gpu/set_power_limit", query).status, 400) << query;
  }
  EXPECT_THAT(controller_.applied, IsEmpty());
}

TEST_F(ZeusdRoutes, BadIndexListsAreToldInZeusdsWords) {
  const auto body = [this](const std::string& ids) {
    return ask("POST", "/gpu/set_power_limit", "block=true&power_limit_mw=250000&gpu_ids=" + ids)
        .body;
  };
  EXPECT_EQ(body(""), R"({"error":"gpu_ids must contain at least one GPU index"})");
  EXPECT_EQ(body("0,,1"), R"({"error":"gpu_ids contains an empty GPU index"})");
  EXPECT_EQ(body("x"), R"({"error":"Invalid GPU index: x"})");
  const net::HttpResponse missing =
      ask("POST", "/gpu/set_power_limit", "block=true&power_limit_mw=250000&gpu_ids=0,9");
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.body, "GPU index 9 does not exist.");
  EXPECT_EQ(ask("GET", "/gpu/get_power", "gpu_ids=9").body, R"({"error":"GPU 9 not found"})");
  EXPECT_EQ(ask("GET", "/gpu/stream_power", "gpu_ids=9").body,
            R"({"error":"Unknown GPU indices: [9]. Available: [0, 1]"})");
  EXPECT_THAT(controller_.applied, IsEmpty());
}

TEST_F(ZeusdRoutes, ErrorsOfDevicesAreCollectedWithTheLargestStatus) {
  const auto status = [this](ErrorCode code) {
    controller_.failures.clear();
    controller_.failures.emplace(0, Error::of(code, "NVML error: no"));
    const net::HttpResponse response =
        ask("POST", "/gpu/set_power_limit", "gpu_ids=0&block=true&power_limit_mw=250000");
    EXPECT_EQ(response.body, R"({"errors":{"0":"NVML error: no"}})");
    return response.status;
  };
  EXPECT_EQ(status(ErrorCode::kNoPermission), 403);
  EXPECT_EQ(status(ErrorCode::kInvalidInput), 400);
  EXPECT_EQ(status(ErrorCode::kNotSupported), 400);
  EXPECT_EQ(status(ErrorCode::kUnavailable), 500);
  EXPECT_EQ(status(ErrorCode::kInternal), 500);

  controller_.failures.emplace(1, Error::of(ErrorCode::kNotSupported, "no sensor"));
  const net::HttpResponse both = ask("GET", "/gpu/get_power_limit");
  EXPECT_EQ(both.status, 500);
  EXPECT_EQ(json::parse(both.body)["errors"].size(), 2U);
}

TEST_F(ZeusdRoutes, WhoeverMayNotHaveOneGpuChangesNone) {
  const net::HttpResponse response =
      ask("POST", "/gpu/set_power_limit", "gpu_ids=0,1&block=false&power_limit_mw=250000");
  EXPECT_EQ(response.status, 403);
  EXPECT_THAT(json::parse(response.body)["errors"]["1"].get<std::string>(), HasSubstr("GPU 1"));
  controller_.held = {0};
  EXPECT_EQ(
      ask("POST", "/gpu/set_power_limit", "gpu_ids=0&block=true&power_limit_mw=250000").status,
      409);
  EXPECT_THAT(controller_.applied, IsEmpty());
}

TEST_F(ZeusdRoutes, ReadsAnswerInZeusdsUnits) {
  EXPECT_EQ(ask("GET", "/gpu/get_cumulative_energy", "gpu_ids=0").body,
            R"({"0":{"energy_mj":123456}})");
  EXPECT_EQ(ask("GET", "/gpu/get_power_limit").body,
            R"({"0":{"power_limit_mw":300000},"1":{"power_limit_mw":300000}})");
  EXPECT_EQ(ask("GET", "/gpu/get_power_limit_constraints", "gpu_ids=1").body,
            R"({"1":{"min_power_limit_mw":100000,"max_power_limit_mw":300000}})");
  EXPECT_EQ(ask("GET", "/gpu/get_persistence_mode", "gpu_ids=0").body, R"({"0":{"enabled":true}})");
  const json power = json::parse(ask("GET", "/gpu/get_power", "gpu_ids=1,0,1").body);
  EXPECT_EQ(power["power_mw"], json::parse(R"({"0": 250000, "1": 250000})"));
  EXPECT_NEAR(power["timestamp_ms"].get<double>(), static_cast<double>(std::time(nullptr)) * 1e3,
              5000);
  EXPECT_EQ(ask("GET", "/cpu/get_cumulative_energy", "cpu=true&dram=true").body,
            R"({"0":{"cpu_energy_uj":1000000,"dram_energy_uj":null}})");
  EXPECT_EQ(ask("GET", "/cpu/get_cumulative_energy", "cpu=true").status, 400);
  EXPECT_EQ(ask("GET", "/gpu/get_power", "verbose=1").status, 400);
  EXPECT_GT(json::parse(ask("GET", "/cpu/get_power").body)["power_mw"]["0"]["cpu_mw"], 0);
}

TEST_F(ZeusdRoutes, ChecksComeInZeusdsOrder) {
  AgentApi closed(controller_, loop_, system_clock(),
                  {.groups = {kGpuRead}, .token_keys = *net::TokenKeys::of(kSecret)});
  net::HttpRequest request;
  request.method = "POST";
  request.path = "/gpu/set_power_limit";
  request.needs_token = true;
  closed.handle(request, [](const net::HttpResponse& response) {
    EXPECT_EQ(response.status, 404);
    EXPECT_EQ(response.body,
              R"({"error":"API group 'gpu-control' is not enabled on this server."})");
  });
  EXPECT_EQ(ask("GET", "/auth/whoami").body,
            R"({"error":"Authentication is not enabled on this server."})");
  EXPECT_EQ(ask("GET", "/time", "", true).status, 200);
  EXPECT_EQ(ask("GET", "/nowhere", "", true).status, 401);
  const net::HttpResponse unknown = ask("GET", "/gpu/get_power", "", true);
  EXPECT_EQ(unknown.status, 401);
  EXPECT_THAT(unknown.headers, ElementsAre(std::pair<std::string, std::string>(
                                   "WWW-Authenticate", R"(Bearer realm="zeusd")")));
  EXPECT_EQ(ask("GET", "/gpu/get_power", "", true, token({kGpuRead}, 1)).body,
            R"({"error":"Token has expired."})");
  EXPECT_EQ(ask("POST", "/gpu/set_power_limit", "", true, token({kGpuRead})).status, 403);
  EXPECT_EQ(ask("GET", "/gpu/get_power", "", true, token({kGpuRead})).status, 200);
  EXPECT_EQ(ask("GET", "/nowhere", "", true, token({})).status, 404);
  EXPECT_EQ(ask("GET", "/auth/whoami", "", true, token({kCpuRead}, 4102444800)).body,
            R"({"sub":"grafana","scopes":["cpu-read"],"exp":4102444800})");
  EXPECT_EQ(ask("GET", "/auth/whoami", "", true, token({kCpuRead})).body,
            R"({"sub":"grafana","scopes":["cpu-read"]})");
}

TEST_F(ZeusdRoutes, StreamsBeginWithThePresentAndGoOnWithChangesAlone) {
  const net::HttpResponse response = ask("GET", "/gpu/stream_power", "gpu_ids=1");
  ASSERT_NE(response.stream, nullptr);
  EXPECT_EQ(response.content_type, "text/event-stream");
  std::string heard;
  int wakes = 0;
  response.stream->start([&] {
    ++wakes;
    heard += response.stream->take();
  });
  // The present power, then readings without a change, then two changes in one round.
  for (const double watts : {260.0, 270.0}) {
    loop_.after(0.2_s, [this, watts] {
      (*controller_.listener)(0, controller_.reading(0));
      controller_.reading(1).power = Watts{watts};
      (*controller_.listener)(1, controller_.reading(1));
    });
  }
  loop_.after(0.1_s, [this] {
    (*controller_.listener)(1, controller_.reading(1));
    (*controller_.listener)(0, controller_.reading(0));
  });
  loop_.after(0.5_s, [this] { loop_.stop(); });
  loop_.run();
  EXPECT_THAT(heard, StartsWith("data: {\"timestamp_ms\":"));
  EXPECT_THAT(heard, HasSubstr(R"("gpu_id":1,"power_mw":250000})"));
  EXPECT_THAT(heard, HasSubstr("270000"));
  EXPECT_THAT(heard, Not(HasSubstr("\"gpu_id\":0")));
  EXPECT_LE(wakes, 3);
  EXPECT_EQ(std::ranges::count(heard, '\n'), 2 * wakes) << "one event a round: the newest";
}

// The cost of listeners is bounded: their number, and the rate of events sent to them.
TEST_F(ZeusdRoutes, StreamsAreSentToInRoundsAndHaveALimit) {
  std::vector<std::shared_ptr<net::EventStream>> streams;
  std::size_t wakes = 0;
  for (std::size_t i = 0; i < PowerStream::kMostOfClient; ++i) {
    streams.push_back(ask("GET", "/gpu/stream_power", "gpu_ids=0,1").stream);
    ASSERT_NE(streams.back(), nullptr);
    streams.back()->start([&wakes, &stream = *streams.back()] {
      ++wakes;
      (void)stream.take();
    });
  }
  EXPECT_EQ(ask("GET", "/gpu/stream_power").status, 503);
  constexpr double kTime = 1;
  for (double at = 0; at < kTime; at += 0.01) {
    loop_.after(Seconds{at}, [this, at] {
      for (const int gpu : {0, 1}) {
        controller_.reading(gpu).power = Watts{200 + at};
        (*controller_.listener)(gpu, controller_.reading(gpu));
      }
    });
  }
  loop_.after(Seconds{kTime}, [this] { loop_.stop(); });
  loop_.run();
  EXPECT_LE(wakes, static_cast<std::size_t>(PowerStream::kMostSends * kTime * 1.2));
  EXPECT_GE(wakes, 3 * streams.size());
  streams.pop_back();
  EXPECT_EQ(ask("GET", "/gpu/stream_power").status, 200);
}

TEST_F(ZeusdRoutes, WrongMethodsAreToldTheRightOne) {
  EXPECT_EQ(ask("GET", "/gpu/set_power_limit").status, 405);
  EXPECT_EQ(ask("POST", "/gpu/get_power").status, 405);
}

}  // namespace
}  // namespace harpe::node
