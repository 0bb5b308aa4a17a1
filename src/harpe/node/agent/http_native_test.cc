// Harpe's own routes and the metrics page, on a controller without devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/agent_testing.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/metrics.h"

namespace harpe::node {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NativeRoutes : public ::testing::Test {
 protected:
  std::pair<int, std::string> ask_text(const std::string& method, const std::string& path,
                                       const std::string& body = "", std::int64_t uid = 1000) {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.peer = {.uid = uid, .pid = 42};
    std::pair<int, std::string> said;
    api_.handle(std::move(request), [&](const net::HttpResponse& response) {
      said = {response.status, response.body};
    });
    return said;
  }
  std::pair<int, json> ask(const std::string& method, const std::string& path,
                           const std::string& body = "", std::int64_t uid = 1000) {
    const auto [status, text] = ask_text(method, path, body, uid);
    return {status, json::parse(text)};
  }

  FakeController controller_;
  net::ServerLoop loop_;
  AgentApi api_{controller_, loop_, system_clock(), {.version = "1"}};
};

TEST_F(NativeRoutes, ALeaseIsTakenUsedRenewedListedAndReleased) {
  const auto [taken, lease] =
      ask("POST", "/v1/leases", R"({"gpus": [0], "duration_s": 30, "name": "train.py"})");
  ASSERT_EQ(taken, 201);
  const std::string path = "/v1/leases/" + lease["id"].get<std::string>();
  EXPECT_EQ(lease["expires_in_s"], 30);
  const auto [set, applied] =
      ask("POST", path + "/settings", R"({"gpus": [0], "lock_clocks_mhz": [900, 1200]})");
  EXPECT_EQ(set, 200);
  EXPECT_EQ(applied["applied"]["0"]["text"], "GPU 0: graphics 900-1200");
  EXPECT_EQ(ask("POST", path + "/renew", R"({"duration_s": 90})").first, 200);
  EXPECT_EQ(ask("GET", "/v1/leases").second["leases"][0]["expires_in_s"], 90);
  controller_.longest_lease = 100_s;
  EXPECT_EQ(ask("POST", path + "/renew", R"({"duration_s": 900})").second["expires_in_s"], 100)
      << "what was granted, not what was asked for";
  EXPECT_EQ(ask("POST", path + "/renew").first, 400) << "it has no default";
  EXPECT_EQ(ask("DELETE", path).first, 200);
  EXPECT_THAT(controller_.live, IsEmpty());
  EXPECT_EQ(ask("DELETE", path).second["error"]["code"], "not_found");
}

TEST_F(NativeRoutes, ALeaseIsForTheControlsThatItNames) {
  const auto [taken, lease] =
      ask("POST", "/v1/leases", R"({"gpus": [0], "controls": ["power_limit", "clocks"]})");
  ASSERT_EQ(taken, 201);
  EXPECT_EQ(lease["controls"], json({"clocks", "power_limit"}));
  EXPECT_EQ(controller_.live.front().controls, (Controls{Control::kClocks, Control::kPowerLimit}));
  const json held = ask("GET", "/v1/gpus").second["gpus"][0]["held_by"];
  ASSERT_EQ(held.size(), 1);
  EXPECT_EQ(held[0]["controls"], json({"clocks", "power_limit"}));
  EXPECT_FALSE(held[0].contains("id")) << "it would give the lease";
  for (const char* controls : {"[]", "[\"clock\"]", "\"clocks\"", "[1]"}) {
    EXPECT_EQ(
        ask("POST", "/v1/leases", std::string(R"({"gpus": [0], "controls": )") + controls + "}")
            .first,
        400)
        << controls;
  }
}

TEST_F(NativeRoutes, EveryErrorBelowV1HasItsForm) {
  for (const auto& [method, path, status, code] : {std::tuple{"GET", "/v1", 404, "not_found"},
                                                   {"GET", "/v1/what", 404, "not_found"},
                                                   {"POST", "/v1/gpus", 405, "invalid_input"},
                                                   {"PATCH", "/v1/cpus", 405, "invalid_input"},
                                                   {"GET", "/v1/leases/x/y", 404, "not_found"}}) {
    const auto [answered, body] = ask(method, path);
    EXPECT_EQ(answered, status) << path;
    EXPECT_EQ(body["error"]["code"], code) << path;
    EXPECT_TRUE(body["error"]["message"].is_string()) << path;
  }
  EXPECT_TRUE(ask("GET", "/gpu/what").second["error"].is_string()) << "zeusd's form";
}

TEST_F(NativeRoutes, WhoComesWithoutATokenIsAnsweredInTheFormOfTheRoute) {
  ApiOptions options{.version = "1"};
  options.token_keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef");
  options.groups = {kGpuRead, kGpuControl};
  AgentApi guarded(controller_, loop_, system_clock(), options);
  const auto respond = [&](const std::string& path, const std::vector<std::string>& scopes) {
    net::HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.needs_token = true;
    if (!scopes.empty()) {
      request.authorization =
          "Bearer " + options.token_keys->sign({"grafana", scopes, std::nullopt});
    }
    net::HttpResponse response;
    guarded.handle(std::move(request), [&](const net::HttpResponse& said) { response = said; });
    return std::pair(response.status, json::parse(response.body)["error"]);
  };
  using Respond = std::pair<int, std::string>;
  const auto native = [&](const std::string& path, const std::vector<std::string>& scopes) {
    const auto [status, error] = respond(path, scopes);
    return Respond(status, error["code"]);
  };
  EXPECT_EQ(native("/v1/gpus", {}), Respond(401, "no_permission"));
  EXPECT_EQ(native("/v1/gpus", {kGpuControl}), Respond(403, "no_permission"));
  EXPECT_EQ(native("/v1/cpus", {}), Respond(404, "not_found"));
  EXPECT_TRUE(respond("/gpu/get_power", {}).second.is_string());
  EXPECT_TRUE(respond("/gpu/get_power", {kGpuControl}).second.is_string());
  EXPECT_TRUE(respond("/cpu/get_power", {}).second.is_string());
  for (const char* scope : {kGpuRead, kCpuRead}) {
    const std::string missing = scope == std::string(kGpuRead) ? kCpuRead : kGpuRead;
    const auto [status, error] = respond("/metrics", {scope});
    EXPECT_EQ(status, 403);
    EXPECT_EQ(error, "Token lacks the required scope '" + missing + "'.");
  }
}

TEST_F(NativeRoutes, EachSettingHasItsKey) {
  ASSERT_EQ(ask("POST", "/v1/leases", R"({"gpus": [0]})").first, 201);
  for (const char* setting :
       {R"("power_limit_w": 250.5)", R"("reset_power_limit": true)", R"("reset_clocks": true)",
        R"("reset_memory_clocks": true)", R"("lock_memory_clocks_mhz": [1215, 1215])",
        R"("persistence_mode": true)"}) {
    EXPECT_EQ(
        ask("POST", "/v1/leases/lease1/settings", std::string("{\"gpus\": [0], ") + setting + "}")
            .first,
        200)
        << setting;
  }
  EXPECT_THAT(controller_.applied, ElementsAre("GPU 0: limit 250500 mW", "GPU 0: reset limit",
                                               "GPU 0: reset graphics", "GPU 0: reset memory",
                                               "GPU 0: memory 1215-1215", "GPU 0: persistence on"));
}

TEST_F(NativeRoutes, WrongBodiesAre400AndSayWhatIsWrong) {
  ASSERT_EQ(ask("POST", "/v1/leases", R"({"gpus": [0]})").first, 201);
  for (const char* body :
       {"", "[]", "{", R"({"gpus": []})", R"({"gpus": [-1]})", R"({"gpus": [0.5]})",
        R"({"gpus": [0], "duration_s": 0})", R"({"gpus": [0], "duration": 60})"}) {
    EXPECT_EQ(ask("POST", "/v1/leases", body).first, 400) << body;
  }
  for (const char* body :
       {R"({"gpus": [0]})", R"({"power_limit_w": 250})", R"({"gpus": [0], "power_limit_w": -1})",
        R"({"gpus": [0], "power_limit_w": 250, "reset_clocks": true})",
        R"({"gpus": [0], "reset_clocks": false})",
        R"({"gpus": [0], "lock_clocks_mhz": [1200, 900]})"}) {
    EXPECT_EQ(ask("POST", "/v1/leases/lease1/settings", body).first, 400) << body;
  }
  const auto message = [&](const char* path, const char* body) {
    return ask("POST", path, body).second["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message("/v1/leases", R"({"gpus": [0], "duration": 60})"), HasSubstr("duration_s"));
  EXPECT_THAT(message("/v1/leases/lease1/settings", R"({"gpus": [0]})"),
              AllOf(HasSubstr("expected exactly one of lock_clocks"), Not(HasSubstr("gpus:"))));
  EXPECT_THAT(message("/v1/leases/lease1/settings", R"({"gpus": [0], "power_limit_w": -1})"),
              AllOf(HasSubstr("power_limit_w:"), Not(HasSubstr("exactly one"))))
      << "only what is wrong is blamed";
  EXPECT_THAT(message("/v1/leases/lease1/renew", "{}"),
              AllOf(HasSubstr("duration_s: is missing"), Not(HasSubstr("duration_s is"))));
  EXPECT_THAT(controller_.applied, IsEmpty());
}

TEST_F(NativeRoutes, RefusalsKeepTheirMeaning) {
  controller_.held = {0};
  EXPECT_EQ(ask("POST", "/v1/leases", R"({"gpus": [0]})").first, 409);
  EXPECT_EQ(ask("POST", "/v1/leases", R"({"gpus": [1]})").first, 403);
  EXPECT_EQ(ask("POST", "/v1/leases", R"({"gpus": [7]})").first, 404);
  EXPECT_EQ(ask("GET", "/v1/gpus/0", "", 1001).first, 403);
  EXPECT_EQ(ask("GET", "/v1/gpus/9").first, 404);
  EXPECT_EQ(ask("GET", "/v1/gpus/x").first, 404);
  EXPECT_EQ(ask("PUT", "/v1/leases").first, 405);
  EXPECT_EQ(ask("GET", "/v1/leasesx").first, 404);
  EXPECT_EQ(
      ask("POST", "/v1/leases/nothing/settings", R"({"gpus": [0], "reset_clocks": true})").first,
      404);
}

TEST_F(NativeRoutes, ReadingsUseHarpesUnits) {
  const json reading = ask("GET", "/v1/gpus/0").second;
  EXPECT_EQ(reading["power_w"], 250);
  EXPECT_EQ(reading["energy_j"], 123.456);
  EXPECT_TRUE(reading["memory_clock_mhz"].is_null());
  EXPECT_EQ(ask("GET", "/v1/gpus/0/clocks").second["clocks_mhz"], json({210, 225, 1410}));
  EXPECT_EQ(ask("GET", "/v1/gpus/1/power_limits").second["factory_w"], 300);
  const json gpus = ask("GET", "/v1/gpus").second["gpus"];
  EXPECT_EQ(gpus[0]["may"]["power_limit_w"], json::parse("[[200, 400]]"));
  EXPECT_EQ(gpus[1]["may"]["clocks_mhz"], json::array());
  EXPECT_EQ(ask("GET", "/v1/cpus").second["cpus"][0]["package_energy_j"], 1);
  EXPECT_EQ(ask("GET", "/health", "", 1001).second["status"], "ok");
}

TEST_F(NativeRoutes, EachMetricHasOneTypeAndCountersEndInTotal) {
  const auto [status, text] = ask_text("GET", "/metrics");
  ASSERT_EQ(status, 200);
  EXPECT_THAT(text, HasSubstr("harpe_gpu_power_watts{gpu=\"0\",uuid=\"GPU-0\"} 250\n"));
  EXPECT_THAT(text, HasSubstr("harpe_gpu_throttled{gpu=\"1\",uuid=\"GPU-1\"} 1\n"));
  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    std::istringstream words(line.substr(7));
    std::string name, type;
    words >> name >> type;
    EXPECT_TRUE(families.insert(name).second) << name;
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
  }
  EXPECT_GT(families.size(), 20U);
  EXPECT_EQ(ask_text("GET", "/metrics", "", 1001).first, 403);
}

TEST_F(NativeRoutes, AGpuThatCannotBeReadIsDownInTheMetrics) {
  controller_.failures.emplace(1, Error::of(ErrorCode::kUnavailable, "lost"));
  const std::string text = ask_text("GET", "/metrics").second;
  EXPECT_THAT(text, HasSubstr("harpe_gpu_up{gpu=\"0\",uuid=\"GPU-0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("harpe_gpu_up{gpu=\"1\",uuid=\"GPU-1\"} 0\n"));
}

TEST(MetricsText, LabelsAreEscaped) {
  net::MetricsText metrics;
  metrics.family("unused", net::MetricsText::Type::kGauge, "Never shown.");
  metrics.family("shown", net::MetricsText::Type::kGauge, "Shown.");
  metrics.sample(0.5, {{"name", "a\"b\\c\nd"}});
  EXPECT_EQ(metrics.text(),
            "# HELP shown Shown.\n# TYPE shown gauge\nshown{name=\"a\\\"b\\\\c\\nd\"} 0.5\n");
}

}  // namespace
}  // namespace harpe::node
