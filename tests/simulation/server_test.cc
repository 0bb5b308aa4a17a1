// Two servers with one database that responds late, in simulated time.

#include "simulation/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr const char* kJob = "/v1/jobs/j";
constexpr const char* kSpecification =
    R"({"name":"j","schedule":"1f1b","data":1,"stages":2,"micro_batches":2})";

class TwoServers : public ::testing::Test {
 protected:
  TwoServers() {
    database_.on_call = [this](const training::StoreCall& call) {
      using Kind = training::StoreCall::Kind;
      if (call.kind == Kind::kRemoveJob) return training::StoreFault{removal_, 1e-3_s, kLate};
      return training::StoreFault{training::StoreFault::Outcome::kDone,
                                  call.kind == Kind::kWrite ? writes_after_ : 1e-3_s, 1e-3_s};
    };
    for (int i = 0; i < 2; ++i) {
      servers_.push_back(std::make_unique<Server>(
          Server::World{scheduler_, network_, database_, 1, [](const std::string&) {}}, i,
          machine_));
      servers_.back()->start();
    }
    run(3_s);
  }
  ~TwoServers() override {
    for (const auto& server : servers_) server->kill();
    run(60_s);
  }
  void run(Seconds time) { scheduler_.run_until(scheduler_.now() + time); }
  /// \returns  a place for the status of the response; 0: there is none
  std::shared_ptr<int> ask(std::size_t server, const std::string& method, const std::string& path,
                           const std::string& body = {}) {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    const auto status = std::make_shared<int>(0);
    network_.ask(client_, servers_[server]->url(), std::move(request), 60_s,
                 {.answered = [status](const Result<net::HttpResponse>& response) {
                   *status = response.ok() ? response->status : 0;
                 }});
    return status;
  }
  int respond(std::size_t server, const std::string& method, const std::string& path,
              const std::string& body = {}) {
    const auto status = ask(server, method, path, body);
    for (int i = 0; i < 200 && *status == 0; ++i) run(0.1_s);
    return *status;
  }

  static constexpr Seconds kLate{8};
  Scheduler scheduler_;
  training::SimulatedDatabase database_;
  Network network_{scheduler_, 1};
  const MachineTime machine_;
  Process client_{scheduler_, "client", machine_, 1};
  std::vector<std::unique_ptr<Server>> servers_;
  training::StoreFault::Outcome removal_ = training::StoreFault::Outcome::kDone;
  Seconds writes_after_{1e-3};
};

/// The database has removed the job, and its response is on the way: another server may have
/// registered the job again since.
TEST_F(TwoServers, ThatRemovesAJobDoesNotCommandIt) {
  ASSERT_EQ(respond(0, "PUT", kJob, kSpecification), 201);
  const auto removed = ask(0, "DELETE", kJob);
  run(1_s);
  EXPECT_EQ(respond(1, "PUT", kJob, kSpecification), 201);
  const auto seen = ask(0, "GET", kJob);
  run(1_s);
  EXPECT_EQ(*removed, 0);
  EXPECT_NE(*seen, 200);
  run(kLate);
  EXPECT_EQ(*removed, 200);
  EXPECT_EQ(respond(0, "GET", kJob), 200) << "the new one";
}

/// The same if the response is lost, until it is known whether the job still exists.
TEST_F(TwoServers, ThatMayHaveRemovedAJobDoesNotCommandIt) {
  for (const bool was_done : {true, false}) {
    SCOPED_TRACE(was_done);
    removal_ = was_done ? training::StoreFault::Outcome::kLostAfter
                        : training::StoreFault::Outcome::kLostBefore;
    ASSERT_EQ(respond(0, "PUT", kJob, kSpecification), 201);
    writes_after_ = 3_s;
    const auto removed = ask(0, "DELETE", kJob);
    while (*removed == 0) run(0.1_s);
    EXPECT_EQ(*removed, 503);
    const auto seen = ask(0, "GET", kJob);
    run(2_s);
    EXPECT_NE(*seen, 200);
    writes_after_ = 1e-3_s;
    run(10_s);
    EXPECT_EQ(respond(0, "GET", kJob), was_done ? 404 : 200);
    EXPECT_EQ(respond(1, "GET", kJob), was_done ? 404 : 200);
    removal_ = training::StoreFault::Outcome::kDone;
    respond(0, "DELETE", kJob);
    run(kLate);
  }
}

}  // namespace
}  // namespace harpe::simulation
