// The requests of a rank to its server, one by one, on a clock that the test moves.

#include "harpe/training/client/server_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Keeps requests until the test responds.
class ScriptedLink final : public net::HttpLink {
 public:
  struct Request {
    std::string line, body;
    std::function<void(net::HttpResult)> done;
  };

  void send(const std::string& method, const std::string& path, std::string body,
            std::function<void(net::HttpResult)> done) override {
    requests.push_back({method + " " + path, std::move(body), std::move(done)});
  }
  void listen(const std::string& path, std::function<void(std::string_view)> bytes,
              std::function<void(net::HttpResult)> ended) override {
    ++listens;
    stream_path = path;
    stream_bytes = std::move(bytes);
    stream_ended = std::move(ended);
  }
  void stop_listening() override { ++stops; }
  bool renew_token() override {
    ++token_reads;
    return std::exchange(token_is_new, false);
  }
  void step(Seconds) override {}
  void wake() override {}

  std::vector<Request> requests;
  int listens = 0, stops = 0, token_reads = 0;
  bool token_is_new = false;
  std::string stream_path;
  std::function<void(std::string_view)> stream_bytes;
  std::function<void(net::HttpResult)> stream_ended;
};

class Session : public ::testing::Test {
 protected:
  Session() {
    options_.job = "gpt3";
    options_.spec = "{\"spec\": 1}";
    options_.registration = {.coordinates = {1, 2, 0},
                             .session = "me",
                             .run = "",
                             .gpu = "A40",
                             .clocks = {{1740}, {1725}}};
    options_.patience = 30_s;
    begin();
  }

  void begin() {
    link_ = ScriptedLink();
    versions_.clear();
    log_.clear();
    governed_.clear();
    session_ = std::make_unique<ServerSession>(
        options_, link_, clock_,
        ServerSession::Listener{
            .assignments =
                [this](const std::vector<StageAssignment>& assignments) {
                  for (const StageAssignment& one : assignments) versions_.push_back(one.version);
                },
            .forget =
                [this] {
                  ++forgotten_;
                  versions_.clear();
                },
            .log = [this](const std::string& text) { log_.push_back(text); },
            .governed = [this](bool governed) { governed_.push_back(governed); },
            .reached = [this] { return reached_; }});
  }

  /// Returns the request sent since the last response. At most one is sent at a time.
  std::string sent() {
    session_->tick();
    EXPECT_LE(link_.requests.size(), 1);
    return link_.requests.empty() ? "" : link_.requests.front().line;
  }
  void respond(int status, const std::string& body = {}) {
    ASSERT_THAT(link_.requests, SizeIs(1));
    auto request = std::move(link_.requests.front());
    link_.requests.clear();
    request.done({status, body, status == 0 ? "connection refused" : ""});
  }
  void pass(double seconds) {
    for (int i = 0; i < 10; ++i) {
      clock_.advance({seconds / 10});
      session_->tick();
    }
  }
  /// Advances the time and gives every request this response. Returns the requests.
  std::vector<std::string> pass_responding(double seconds, int status, const std::string& body) {
    std::vector<std::string> lines;
    for (int i = 0; i < seconds * 10; ++i) {
      clock_.advance({0.1});
      if (std::string line = sent(); !line.empty()) {
        lines.push_back(line);
        respond(status, body);
      }
    }
    return lines;
  }
  static std::string life(const std::string& incarnation, int epoch,
                          const std::string& assignments) {
    return R"({"rank": 6, "start": 1, "incarnation": ")" + incarnation + R"(", "epoch": )" +
           std::to_string(epoch) + R"(, "assignments": [)" + assignments + "]}";
  }
  static std::string version(int number) {
    return R"({"version": )" + std::to_string(number) +
           R"(, "from_iteration": 0, "purpose": "all_max", "clocks_mhz": [1740]})";
  }
  void run_to_running() {
    EXPECT_EQ(sent(), "PUT /v1/jobs/gpt3");
    respond(201, R"({"job": "gpt3"})");
    EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
    respond(200, R"({"rank": 6, "assignments": []})");
    EXPECT_TRUE(session_->registered());
  }
  static IterationReport report(std::int64_t iteration) {
    IterationReport report;
    report.coordinates = {1, 2, 0};
    report.iteration = iteration;
    report.time = 1_s;
    return report;
  }
  static std::string assignments(int version) {
    return R"({"version": 9, "assignments": [{"version": )" + std::to_string(version) +
           R"(, "from_iteration": 3, "purpose": "plan", "clocks_mhz": [900]}]})";
  }

  ManualClock clock_{Instant{1'000'000'000}};
  ScriptedLink link_;
  ServerSessionOptions options_;
  std::vector<std::uint64_t> versions_;
  std::vector<std::string> log_;
  std::vector<bool> governed_;
  int forgotten_ = 0;
  std::int64_t reached_ = -1;
  std::unique_ptr<ServerSession> session_;
};

TEST_F(Session, RegistersReportsAndHearsAssignmentsBothWays) {
  EXPECT_EQ(sent(), "PUT /v1/jobs/gpt3");
  EXPECT_EQ(link_.requests[0].body, options_.spec);
  respond(200);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
  const auto registration = parse_rank_registration(link_.requests[0].body);
  ASSERT_TRUE(registration.ok());
  EXPECT_EQ(registration->session, "me");
  EXPECT_EQ(registration->coordinates, (RankCoordinates{1, 2, 0}));
  respond(200, assignments(1));
  EXPECT_EQ(link_.stream_path, "/v1/jobs/gpt3/events?data=1&stage=2&tensor=0&session=me");
  EXPECT_EQ(sent(), "");
  session_->report(report(0));
  session_->report(report(1));
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  const auto sent_report = parse_iteration_report(link_.requests[0].body);
  ASSERT_TRUE(sent_report.ok()) << sent_report.error().text();
  EXPECT_EQ(sent_report->session, "me");
  EXPECT_EQ(sent_report->known, 1);
  reached_ = 9;
  respond(200, assignments(4));
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  const auto next_report = parse_iteration_report(link_.requests[0].body);
  EXPECT_EQ(next_report->known, 4);
  EXPECT_EQ(next_report->reached, 9) << "when it was sent";
  respond(200, R"({"version": 4})");
  EXPECT_EQ(sent(), "");
  link_.stream_bytes("event: assignments\ndata: " + assignments(5) +
                     "\n\nevent: phase\ndata: {}\n\n");
  EXPECT_THAT(versions_, ElementsAre(1, 4, 5));
  EXPECT_THAT(governed_, ElementsAre(true));
  EXPECT_THAT(log_, IsEmpty());
  EXPECT_EQ(session_->reports().sent(), 2);
}

TEST_F(Session, AServerThatIsNotThereIsToldOnceAndLookedForMoreSeldom) {
  std::vector<double> tries;
  for (int i = 0; i < 12; ++i) {
    while (sent().empty()) pass(0.1);
    tries.push_back((clock_.now() - Instant{1'000'000'000}).value);
    respond(0);
  }
  EXPECT_THAT(log_, ElementsAre(HasSubstr("connection refused")));
  EXPECT_LT(tries[1] - tries[0], 1);
  for (std::size_t i = 1; i < tries.size(); ++i) EXPECT_LT(tries[i] - tries[i - 1], 39);
  EXPECT_GT(tries[11] - tries[10], 20);
  EXPECT_THAT(governed_, IsEmpty()) << "nothing was, so nothing is set free";
  while (sent().empty()) pass(1);
  run_to_running();
  EXPECT_THAT(log_, SizeIs(2)) << "that it is there again";
  EXPECT_THAT(governed_, ElementsAre(true));
}

TEST_F(Session, ClocksAreSetFreeWhenTheServerStaysAwayAndTakenAgain) {
  run_to_running();
  session_->report(report(0));
  ASSERT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  respond(503);
  EXPECT_THAT(governed_, ElementsAre(true)) << "not at once";
  for (int i = 0; i < 40; ++i) {
    pass(1);
    if (!sent().empty()) respond(0);
  }
  EXPECT_THAT(governed_, ElementsAre(true, false));
  EXPECT_THAT(log_, SizeIs(1));
  while (sent().empty()) pass(1);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports") << "what was measured is not lost";
  respond(200, assignments(8));
  EXPECT_THAT(governed_, ElementsAre(true, false, true));
  EXPECT_THAT(versions_, ElementsAre(8));
  // A short outage changes nothing.
  session_->report(report(1));
  sent();
  respond(500);
  pass(2);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  respond(200);
  pass_responding(60, 200, "{}");
  EXPECT_THAT(governed_, ElementsAre(true, false, true));
}

TEST_F(Session, WhateverIsNoSuccessLetsTheClocksGoAfterTheSamePatience) {
  for (const int status : {0, 401, 403, 404, 409, 421, 503}) {
    SCOPED_TRACE(status);
    begin();
    run_to_running();
    session_->report(report(0));
    ASSERT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
    respond(200, "{}");
    governed_.clear();
    session_->report(report(1));
    const std::string refusal = R"({"error": {"code": "x", "message": "no"}})";
    // Comments on the stream of a lost registration do not count as success.
    for (int second = 0; second < 29; ++second) {
      pass_responding(1, status, refusal);
      if (status != 0 && status != 421 && status != 503) link_.stream_bytes(": hb\n\n");
      EXPECT_THAT(governed_, IsEmpty()) << "not yet after " << second << " s";
    }
    pass_responding(2, status, refusal);
    EXPECT_THAT(governed_, ElementsAre(false));
    // The first success of any request governs the clocks again.
    link_.token_is_new = true;
    EXPECT_THAT(pass_responding(40, 200, "{}"), ::testing::Not(IsEmpty()));
    EXPECT_THAT(governed_, ElementsAre(false, true));
  }
}

TEST_F(Session, ARankWithNothingToReportIsConfirmedByItsStreamAndByRegisteringAgain) {
  run_to_running();
  // During an iteration of ten minutes, the rank registers again to keep its place.
  const auto lines = pass_responding(600, 200, "{}");
  EXPECT_THAT(lines, ::testing::Each("POST /v1/jobs/gpt3/ranks"));
  EXPECT_GE(lines.size(), 29);
  EXPECT_LE(lines.size(), 31);
  EXPECT_THAT(governed_, ElementsAre(true));
  // Without responses, comments on the stream confirm the rank, too.
  for (int i = 0; i < 10; ++i) {
    pass(15);
    link_.stream_bytes(": hb\n\n");
  }
  EXPECT_THAT(governed_, ElementsAre(true));
  pass(31);
  EXPECT_THAT(governed_, ElementsAre(true, false));
}

TEST_F(Session, AnotherLifeOfTheJobIsBegunWithNothingOfTheOneBefore) {
  sent();
  respond(200, R"({"specification": "abc"})");
  sent();
  EXPECT_EQ(parse_rank_registration(link_.requests[0].body)->specification, "abc");
  respond(200, life("first", 1, version(500)));
  EXPECT_EQ(forgotten_, 1) << "there was none before";
  session_->report(report(0));
  sent();
  const auto first = parse_iteration_report(link_.requests[0].body);
  EXPECT_EQ(first->incarnation, "first");
  EXPECT_EQ(first->epoch, 1);
  EXPECT_EQ(first->known, 500);
  // The job was deleted, and created again by the first rank.
  session_->report(report(1));
  respond(404);
  const std::string again = life("second", 1, version(1));
  while (sent().empty()) pass(0.1);
  respond(201, R"({"specification": "abc"})");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
  const auto registration = parse_rank_registration(link_.requests[0].body);
  EXPECT_EQ(registration->incarnation, "first");
  EXPECT_EQ(registration->start, 1);
  respond(200, again);
  EXPECT_EQ(forgotten_, 2);
  EXPECT_THAT(versions_, ElementsAre(1)) << "however low its versions are";
  EXPECT_EQ(sent(), "") << "what was measured in the other life is not reported in this one";
  session_->report(report(2));
  sent();
  EXPECT_EQ(parse_iteration_report(link_.requests[0].body)->incarnation, "second");
  EXPECT_EQ(parse_iteration_report(link_.requests[0].body)->known, 1);
}

TEST_F(Session, RegistersAgainWhereAResponseOrAnEventIsOfAnotherLife) {
  for (const bool by_event : {false, true}) {
    SCOPED_TRACE(by_event);
    begin();
    sent();
    respond(200);
    sent();
    respond(200, life("first", 1, version(1)));
    versions_.clear();
    if (by_event) {
      link_.stream_bytes("event: assignments\ndata: " + life("second", 1, version(7)) + "\n\n");
    } else {
      session_->report(report(0));
      sent();
      respond(200, life("second", 1, version(7)));
    }
    EXPECT_FALSE(session_->registered());
    EXPECT_THAT(versions_, IsEmpty());
    while (sent().empty()) pass(0.1);
    EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
    EXPECT_GT(link_.stops, 0);
    respond(200, life("second", 1, version(7)));
    EXPECT_THAT(versions_, ElementsAre(7));
  }
}

TEST_F(Session, AssignmentsOfAServerThatHadTheJobBeforeAreNotTaken) {
  sent();
  respond(200);
  sent();
  respond(200, life("one", 4, version(1007)));
  link_.stream_bytes("event: assignments\ndata: " + life("one", 3, version(8)) + "\n\n");
  EXPECT_THAT(versions_, ElementsAre(1007));
  link_.stream_bytes("event: assignments\ndata: " + life("one", 5, version(2008)) + "\n\n");
  EXPECT_THAT(versions_, ElementsAre(1007, 2008));
  session_->report(report(0));
  sent();
  EXPECT_EQ(parse_iteration_report(link_.requests[0].body)->epoch, 5);
}

TEST_F(Session, AStartOfTrainingThatGathersIsTriedEverySecond) {
  sent();
  respond(202, R"({"specification": "abc"})");
  const std::string waits =
      R"({"error": {"code": "gathering", "message": "1 of 8 ranks are there"}})";
  const auto lines = pass_responding(30, 409, waits);
  EXPECT_THAT(lines, ::testing::Each("POST /v1/jobs/gpt3/ranks"));
  EXPECT_GE(lines.size(), 28);
  EXPECT_LE(lines.size(), 31);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("1 of 8 ranks are there")));
  EXPECT_LE(pass_responding(300, 409, waits).size(), 100) << "less often where it takes long";
  EXPECT_FALSE(session_->registered());
  pass_responding(6, 200, "{}");
  EXPECT_TRUE(session_->registered());
}

TEST_F(Session, ANewTokenIsTriedAtOnce) {
  run_to_running();
  EXPECT_EQ(link_.token_reads, 0) << "not while it is good";
  session_->report(report(0));
  sent();
  respond(401, R"({"error": {"message": "the token has expired"}})");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the token has expired")));
  pass(10);
  EXPECT_EQ(sent(), "");
  EXPECT_GT(link_.token_reads, 0);
  link_.token_is_new = true;
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
  respond(200, "{}");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports") << "what was refused for its token is not lost";
  respond(200, "{}");
  EXPECT_THAT(governed_, ElementsAre(true)) << "it took less than the patience";
  EXPECT_EQ(session_->reports().dropped(), 0);
}

TEST_F(Session, RegistersAgainWhereTheServerForgot) {
  run_to_running();
  session_->report(report(0));
  sent();
  respond(409, R"({"error": {"code": "conflict", "message": "no such session"}})");
  EXPECT_FALSE(session_->registered());
  while (sent().empty()) pass(0.1);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
  respond(404);
  while (sent().empty()) pass(0.1);
  EXPECT_EQ(sent(), "PUT /v1/jobs/gpt3");
  respond(201);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
  respond(200, "{}");
  EXPECT_TRUE(session_->registered());
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(Session, APlaceThatIsTakenIsTriedAgainAndToldIfItStays) {
  sent();
  respond(200);
  for (int i = 0; i < 3; ++i) {
    while (sent().empty()) pass(0.1);
    EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/ranks");
    respond(409, R"({"error": {"code": "conflict", "message": "the place is taken"}})");
  }
  EXPECT_THAT(log_, IsEmpty()) << "the process before may only just have ended";
  for (int i = 0; i < 6; ++i) {
    while (sent().empty()) pass(1);
    respond(409, R"({"error": {"code": "conflict", "message": "the place is taken"}})");
  }
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the place is taken")));
}

TEST_F(Session, WhatOnlyAPersonCanMendIsToldOnceAndTriedSeldom) {
  sent();
  respond(401,
          R"({"error": {"code": "no_permission", "message": "the token is for\nanother job"}})");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the token is for another job (status 401)")));
  pass(50);
  EXPECT_EQ(sent(), "");
  pass(20);
  EXPECT_EQ(sent(), "PUT /v1/jobs/gpt3");
  respond(409, R"({"error": {"message": "another spec"}})");
  EXPECT_THAT(log_, SizeIs(1));
}

TEST_F(Session, ARefusedReportIsDroppedAndTheNextOneSent) {
  run_to_running();
  session_->report(report(0));
  session_->report(report(1));
  sent();
  respond(400, R"({"error": {"message": "time_s: expected more"}})");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  EXPECT_EQ(parse_iteration_report(link_.requests[0].body)->iteration, 1);
  respond(200, "not JSON at all");
  EXPECT_THAT(log_, SizeIs(2));
  EXPECT_EQ(session_->reports().dropped(), 1);
  EXPECT_EQ(session_->reports().sent(), 1);
}

TEST_F(Session, ReportsThatNobodyTakesAreBounded) {
  for (int i = 0; i < 10'000; ++i) session_->report(report(i));
  EXPECT_EQ(session_->reports().size(), ReportQueue::kMostReports);
  EXPECT_EQ(session_->reports().dropped(), 10'000 - ReportQueue::kMostReports);
  run_to_running();
  sent();
  EXPECT_EQ(parse_iteration_report(link_.requests[0].body)->iteration,
            static_cast<std::int64_t>(10'000 - ReportQueue::kMostReports));
}

TEST_F(Session, SaysThatTrainingHasEndedOnceAndBehindAllReports) {
  run_to_running();
  session_->report(report(0));
  session_->end();
  EXPECT_FALSE(session_->ended());
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  respond(200, R"({"version": 0})");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/end");
  EXPECT_THAT(link_.requests.front().body, HasSubstr(R"("session":"me")"));
  EXPECT_THAT(link_.requests.front().body, HasSubstr(R"("stage":2)"));
  respond(0);
  EXPECT_FALSE(session_->ended());
  pass(1);
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/end");
  respond(200, R"({"ended": true})");
  EXPECT_TRUE(session_->ended());
  EXPECT_EQ(sent(), "");
}

TEST_F(Session, OneThatHasEndedTakesNoPlaceAgainHoweverLongItStays) {
  run_to_running();
  session_->end();
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/end");
  respond(200, R"({"ended": true})");
  for (int i = 0; i < 100; ++i) {
    pass(1);
    EXPECT_EQ(sent(), "");
  }
}

TEST_F(Session, AServerThatDoesNotKnowTheJobIsToldNoEnd) {
  run_to_running();
  session_->end();
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/end");
  respond(404);
  EXPECT_TRUE(session_->ended());
}

TEST_F(Session, AStreamThatEndsIsOpenedAgain) {
  run_to_running();
  EXPECT_EQ(link_.listens, 1);
  link_.stream_ended({200, "", ""});
  pass(1);
  EXPECT_EQ(link_.listens, 2);
  link_.stream_ended({403, "", ""});
  for (int i = 0; i < 5; ++i) {
    pass(60);
    link_.stream_ended({403, "", ""});
  }
  EXPECT_THAT(log_, SizeIs(1));
  EXPECT_TRUE(session_->registered()) << "responses bring assignments, too";
}

TEST_F(Session, AStreamThatBringsSomethingShowsThatTheServerIsThereAgain) {
  run_to_running();
  session_->report(report(1));
  link_.stream_ended({0, "", "connection reset"});
  for (int failure = 0; failure < 8; ++failure) {
    while (sent().empty()) clock_.advance({1});
    respond(0);
  }
  EXPECT_EQ(sent(), "") << "the report is put off for long";
  link_.stream_bytes(": hb\n\n");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
  respond(0);
  link_.stream_bytes(": hb\n\n");
  EXPECT_EQ(sent(), "") << "once for each stream";
}

TEST_F(Session, AStreamThatStaysShowsThatTheServerIsThereButNotAtOnce) {
  run_to_running();
  link_.stream_bytes(": hb\n\n");
  session_->report(report(1));
  for (int failure = 0; failure < 8; ++failure) {
    while (sent().empty()) clock_.advance({1});
    respond(0);
  }
  link_.stream_bytes(": hb\n\n");
  EXPECT_EQ(sent(), "");
  clock_.advance({4.9});
  EXPECT_EQ(sent(), "");
  clock_.advance({0.2});
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
}

TEST_F(Session, AStreamThatComesBackWhileARequestHangsShowsItBehindThat) {
  run_to_running();
  session_->report(report(1));
  link_.stream_ended({0, "", "connection reset"});
  for (int failure = 0; failure < 8; ++failure) {
    while (sent().empty()) clock_.advance({1});
    if (failure < 7) respond(0);
  }
  link_.stream_bytes(": hb\n\n");
  respond(0);  // the request was sent to the server that is gone
  EXPECT_EQ(sent(), "");
  link_.stream_bytes(": hb\n\n");
  EXPECT_EQ(sent(), "POST /v1/jobs/gpt3/reports");
}

}  // namespace
}  // namespace harpe::training
