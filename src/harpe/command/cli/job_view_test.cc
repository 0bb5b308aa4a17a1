#include "harpe/command/cli/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

TEST(JobView, ShowsWhereAJobStands) {
  const std::string view = job_view(
      R"({"id": "gpt3", "name": "GPT-3", "phase": "straggling", "data": 4, "stages": 8, "tensor": 2,
          "schedule": "1f1b", "micro_batches": 96, "ranks": 64, "ranks_registered": 62,
          "ranks_missing": [{"data": 3, "stage": 7, "tensor": 0}], "newest_iteration": 120,
          "objective": {"slowdown": 0.05}, "profiling": null,
          "stragglers": [{"pipeline": 2, "factor": 1.2, "until": null, "detected": true, "seen": null}],
          "plans": [{"plan": 0, "pipelines": 1, "time_s": 1.5, "energy_j": 1e5},
                    {"plan": 31, "pipelines": 3, "time_s": 1.8, "energy_j": 8e4}],
          "iteration_time_s": 1.8, "predicted_time_s": 1.79, "measured_all_max_time_s": 1.5,
          "saved_j": 7.2e6,
          "refused": [{"who": "pipeline 1, stage 2, run 'x'", "why": "it is an earlier start", "count": 12, "at": 1}]})",
      false);
  for (const char* part :
       {"gpt3  GPT-3", "straggling", "62/64 registered", "stage 7", "and 1 more", "slowdown 5 %",
        "pipeline 2, 1.2 times slower, detected",
        "0 on 1 pipeline:", "31 on 3 pipelines:", "2.00 kWh",
        "refused     pipeline 1, stage 2, run 'x': it is an earlier start (12 times)"}) {
    EXPECT_NE(view.find(part), std::string::npos) << part << "\n" << view;
  }
}

TEST(JobView, SaysWhatIsPredictedBeyondThePlan) {
  const auto of = [](const std::string& predicted) {
    return job_view(R"({"id": "a", "plans": [{"plan": 0, "pipelines": 2, "time_s": 0.7188}],
                        "iteration_time_s": 0.721, "predicted_time_s": )" +
                        predicted + "}",
                    false);
  };
  EXPECT_NE(
      of("0.721").find("721.000 ms predicted (2.200 ms of it outside of the planned computations"),
      std::string::npos)
      << of("0.721");
  EXPECT_NE(of("0.7188").find("718.800 ms predicted, "), std::string::npos) << of("0.7188");
}

TEST(JobView, BeforeIterationsNothingIsPredictedBeyondThePlan) {
  const std::string view =
      job_view(R"({"id": "a", "plans": [{"plan": 0, "pipelines": 2, "time_s": 0.7188}],
                   "iteration_time_s": null, "predicted_time_s": 0.8})",
               false);
  EXPECT_NE(view.find("800.000 ms predicted"), std::string::npos) << view;
  EXPECT_EQ(view.find("outside"), std::string::npos) << view;
}

TEST(JobView, AJobThatIsOnlyObservedShowsWorkWaitingAndARange) {
  const auto of = [](const std::string& estimate) {
    return job_view(
        R"({"id": "a", "phase": "observing", "objective": {"slowdown": 0}, "saved_j": 0,
            "slow_workers": [{"pipeline": 1, "stage": 0, "factor": 1.2}],
            "observed": {"iterations": 120, "iteration_time_s": 1.25, "longest_stage": 1, "stages": [
              {"stage": 0, "work_s": 0.75, "waiting_s": 0.5, "energy_j": null, "waiting_power_w": null},
              {"stage": 1, "work_s": 1.0, "waiting_s": 0.25, "clock_mhz": 1740, "energy_j": 300, "waiting_power_w": 81.6}],)" +
            estimate + "}}",
        false);
  };
  const std::string view =
      of(R"("estimated_saving_percent": [8.25, 8.31], "estimated_by": "model of a40")");
  for (const char* part :
       {"observed    120 iterations of 1.2500 s at the present clocks of the GPUs; no clock is "
        "set\n",
        "  stage 0     works 750.000 ms (60 %), waits 500.000 ms (40 %)\n",
        "  stage 1     works 1.0000 s (80 %) at 1740 MHz, waits 250.000 ms (20 %) at 82 W a GPU: "
        "the longest\n",
        "would save  8 to 9 % of the energy without slowdown: an estimate (model of a40), not "
        "measured\n",
        "slow GPUs   stage 0 of pipeline 1, 1.2 times slower"}) {
    EXPECT_NE(view.find(part), std::string::npos) << part << "\n" << view;
  }
  for (const char* part : {"objective", "saved", "predicted", "plan"})
    EXPECT_EQ(view.find(part), std::string::npos) << part << "\n" << view;
  EXPECT_NE(of(R"("estimated_saving_percent": null, "estimated_by": "there is no model of 'X'")")
                .find("would save  not known: there is no model of 'X'\n"),
            std::string::npos);
  EXPECT_NE(of(R"("estimated_saving_percent": null, "estimated_by": null)")
                .find("would save  not known yet\n"),
            std::string::npos);
}

TEST(JobView, AStageThatIsFasterIsNotCalledSlow) {
  const std::string view = job_view(
      R"({"id": "a", "slow_stages": [{"stage": 1, "factor": 0.96}, {"stage": 2, "factor": 1.1}]})",
      false);
  EXPECT_NE(
      view.find("fast stage  stage 1 on all pipelines takes 0.96 times as long as predicted\n"),
      std::string::npos)
      << view;
  EXPECT_NE(
      view.find("slow stage  stage 2 on all pipelines takes 1.1 times as long as predicted\n"),
      std::string::npos)
      << view;
}

TEST(JobView, SaysOfProfilingWhatIsKnown) {
  const auto of = [](const std::string& seconds) {
    return job_view(R"({"id": "a", "data": 1, "stages": 2, "tensor": 1, "profiling": )"
                    R"({"iterations_left": 30, "slowdown": 0, "time_left_s": )" +
                        seconds + "}}",
                    false);
  };
  EXPECT_NE(of("90").find("about 30 iterations (2 min) left"), std::string::npos) << of("90");
  EXPECT_NE(of("0").find("at least 30 iterations left"), std::string::npos) << of("0");
  EXPECT_NE(of("0").find("1 pipeline x 2 stages x 1 tensor shard,"), std::string::npos) << of("0");
}

TEST(JobView, SaysUntilWhenItIsRolledBackAndWhatIsOnlyDeclared) {
  const auto of = [](const std::string& straggler) {
    return job_view(
        R"({"id": "a", "phase": "running", "rolled_back": true, "rolled_back_until": 277,
                        "all_max_time_s": 0.65, "stragglers": [{"pipeline": 1, "factor": 1.2,)" +
            straggler + "}]}",
        false);
  };
  const std::string declared = of(R"("detected": false)");
  EXPECT_NE(declared.find("running, rolled back to all-max until iteration 277\n"),
            std::string::npos)
      << declared;
  EXPECT_NE(declared.find("at all-max, if the straggler is as slow as declared\n"),
            std::string::npos)
      << declared;
  for (const char* seen : {R"("detected": true)", R"("detected": false, "seen": 1.1)"})
    EXPECT_EQ(of(seen).find("as slow as declared"), std::string::npos) << of(seen);
}

TEST(JobView, ShowsPaceAndPause) {
  const std::string view = job_view(
      R"({"id": "a", "pace": {"iteration_time_s": 16.4, "pause": true, "resumes": 1800014400,
                              "why": "412 g/kWh"},
          "pause": {"state": "paused", "since": 1800000000, "ranks_waiting": 63, "ended": false,
                    "resumes": 1800014400, "why": "412 g/kWh"}})",
      false);
  for (const char* part : {"pace        16.4000 s an iteration (412 g/kWh)",
                           "pause       63 ranks wait, since 2027-01-15 ", ", until 2027-01-15 "}) {
    EXPECT_NE(view.find(part), std::string::npos) << part << "\n" << view;
  }
  EXPECT_EQ(pause_text(R"({"pause": null})"), "");
  EXPECT_TRUE(pause_text(R"({"pause": {"state": "not_followed", "since": 1800000000}})")
                  .starts_with("requested, but training continues, since 2027"));
  EXPECT_TRUE(pause_text(R"({"pause": {"state": "paused", "since": 1, "ended": true}})")
                  .starts_with("all ranks have ended, to be restarted later"));
}

TEST(JobView, SaysWhatTheSearchForABetterPlanIsAt) {
  const auto said = [](const std::string& search) {
    const std::string view = job_view("{\"id\": \"a\", \"search\": " + search + "}", false);
    const std::size_t at = view.find("  search ");
    return at == std::string::npos ? "" : view.substr(at + 14, view.find('\n', at) - at - 14);
  };
  EXPECT_EQ(said(R"({"state": "searching", "windows": 80000, "spent_s": 2, "gained": 0.00021})"),
            "searching for a better plan: 0.021 % less energy");
  EXPECT_EQ(said(R"({"state": "ended", "gained": 0})"), "the search for a better plan has ended");
  EXPECT_EQ(said(R"({"state": "waiting", "gained": 0})"), "will search for a better plan");
  EXPECT_EQ(said(R"({"state": "halted"})"),
            "will search for a better plan when this plan is in force again");
  EXPECT_EQ(said("null"), "");
}

TEST(JobView, ListsWhichJobsPause) {
  const std::string table = jobs_table(
      R"({"jobs": [
          {"id": "a", "phase": "running", "activity": "active", "pause": "paused"},
          {"id": "b", "phase": "running", "activity": "active", "pause": "asked"},
          {"id": "c", "phase": "running", "activity": "ended", "pause": "paused"},
          {"id": "d", "phase": "running", "activity": "active", "pause": "none"},
          {"id": "e", "phase": "running", "activity": "active"}]})",
      false, "none");
  for (const char* part : {"a    running, paused  ", "b    running, pause requested  ",
                           "c    ended for a pause  ", "d    running  ", "e    running  "}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(JobView, ShowsWhatStragglersRun) {
  const std::string view = job_view(
      R"({"id": "a", "plans": [
            {"plan": 3, "pipelines": 2, "time_s": 1.5, "energy_j": 100},
            {"plan": null, "pipeline": 1, "all_max": true, "pipelines": 1, "time_s": 1, "energy_j": 90},
            {"plan": null, "pipeline": 2, "all_max": false, "pipelines": 1, "time_s": 1, "energy_j": 80}],
          "slow_workers": [{"pipeline": 1, "stage": 3, "factor": 1.31, "since": 70}]})",
      false);
  for (const char* part :
       {"3 on 2 pipelines: ", "all-max on pipeline 1: ", "from own costs on pipeline 2: ",
        "stage 3 of pipeline 1, 1.31 times slower"}) {
    EXPECT_NE(view.find(part), std::string::npos) << part << "\n" << view;
  }
}

TEST(JobView, ShowsWhatIsDeclaredBesideWhatIsSeen) {
  const std::string view = job_view(
      R"({"id": "a", "stragglers": [
            {"pipeline": 1, "factor": 1.4, "until": 1800014400, "detected": false, "seen": 1.012},
            {"pipeline": 2, "factor": 1.2, "until": null, "detected": false, "seen": null}]})",
      false);
  for (const char* part : {"pipeline 1, 1.4 times slower, declared until 2027-01-15 ",
                           "; at all-max it takes 1.01 times as long as a healthy pipeline\n",
                           "pipeline 2, 1.2 times slower, declared\n"}) {
    EXPECT_NE(view.find(part), std::string::npos) << part << "\n" << view;
  }
}

TEST(JobView, ClaimsSavingsOnlyWhereTheyAreCertain) {
  struct Case {
    double saved, error, measured;
    const char* text;
    bool green;
  };
  for (const Case& one :
       {Case{500, 40, 1.0, "saved       500 ± 40 J against", true},
        Case{7.2e6, 3.6e5, 1.0, "2.00 ± 0.10 kWh against", true},
        Case{30, 40, 1.0, "30 ± 40 J, not distinguishable from zero", false},
        Case{-30, 40, 1.0, "-30 ± 40 J, not distinguishable from zero", false},
        Case{-500, 40, 1.0, "-500 ± 40 J against", false},
        Case{500, 40, 1.1, "500 ± 40 J (iterations take 10 % more time than predicted)", false},
        Case{500, 40, 0.8, "500 ± 40 J (iterations take 20 % less time than predicted)", false}}) {
    const std::string status = R"({"id": "a", "predicted_time_s": 1, "saved_j": )" +
                               std::to_string(one.saved) + R"(, "saved_error_j": )" +
                               std::to_string(one.error) + R"(, "iteration_time_s": )" +
                               std::to_string(one.measured) + "}";
    EXPECT_NE(job_view(status, false).find(one.text), std::string::npos) << job_view(status, false);
    EXPECT_EQ(job_view(status, true).find("\x1b[32m") != std::string::npos, one.green) << status;
    const std::string shown = one.text;
    if (shown.find("zero") == std::string::npos &&
        shown.find("than predicted") == std::string::npos)
      continue;
    EXPECT_NE(jobs_table(R"({"jobs": [)" + status + "]}", true, "").find(shown), std::string::npos);
  }
}

TEST(JobView, SaysNearTheTopThatFiguresAreSynthetic) {
  EXPECT_EQ(job_view(R"({"id": "a", "synthetic": false})", false).find("synthetic"),
            std::string::npos);
  const std::string view = job_view(R"({"id": "a", "synthetic": true})", false);
  EXPECT_LT(view.find("of a synthetic profile or simulated GPUs"), view.find("phase"));
}

TEST(JobView, NamesCannotMoveTheCursor) {
  const std::string view = job_view(
      "{\"id\": \"a\", \"name\": \"\\u001b[2J\\u0007\\n\", \"phase\": \"running\"}", false);
  EXPECT_EQ(view.find('\x1b'), std::string::npos);
  EXPECT_EQ(view.find('\x07'), std::string::npos);
  EXPECT_EQ(event_line("log", "{\"text\": \"\\u001b[31m\"}", "12:00:00").find('\x1b'),
            std::string::npos);
}

TEST(JobView, APhaseIsWhatTheEventSaysAndNotAWordInIt) {
  EXPECT_EQ(phase_of_event(R"({"phase": "deleted"})"), "deleted");
  EXPECT_EQ(phase_of_event(R"({"phase": "running", "text": "\"deleted\""})"), "running");
  EXPECT_EQ(phase_of_event(R"({"deleted": 1})"), "");
  EXPECT_EQ(phase_of_event("no JSON"), "");
}

TEST(JobView, ResponsesThatLackThingsAreShownAsFarAsTheyGo) {
  for (const char* response : {"", "{}", "[]", "null", R"({"jobs": 3})", R"({"plans": [1, {}]})"}) {
    EXPECT_FALSE(job_view(response, false).empty()) << response;
    EXPECT_EQ(warning_text(response), "") << response;
    EXPECT_NE(jobs_table(response, false, "no jobs yet").find("no jobs yet"), std::string::npos)
        << response;
  }
  EXPECT_EQ(event_line("assignments", "{}", "12:00:00"), "");
}

TEST(JobView, SaysHowManyRanksAChangeMayNotReach) {
  EXPECT_EQ(warning_text(R"({"ranks_unheard": 0})"), "");
  EXPECT_EQ(warning_text(R"({"ranks_unheard": 2})"),
            "note: 2 ranks without a recent report may not know this yet\n");
}

TEST(JobView, AListFitsTheTerminal) {
  const std::string jobs = R"({"jobs": [
      {"id": "llama-70b-pretraining-of-the-third-month", "phase": "straggling", "activity": "idle",
       "heard_at": 1800000000, "ranks": 1024, "ranks_registered": 1024, "newest_iteration": 123456,
       "iteration_time_s": 0.731, "predicted_time_s": 0.868, "straggling": 1, "saved_j": 3320,
       "saved_error_j": 664}]})";
  for (const int columns : {80, 120}) {
    const std::string table = jobs_table(jobs, false, "none", columns);
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << table;
    for (const char* part : {"llama-70b-p", "idle (straggling)", "731.000 ms", "3320 ± 664 J *",
                             "* llama-70b-pretraining-of-the-third-month: 3320 ± 664 J "}) {
      EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
    }
    EXPECT_EQ(table.find("2027-01-15") != std::string::npos, columns == 120) << table;
  }
}

TEST(JobView, SaysHowAJobEnded) {
  EXPECT_THAT(
      end_of_job(R"({"id": "gpt3", "phase": "running", "activity": "ended",
                             "ended_at": 1800000000, "newest_iteration": 99})"),
      testing::MatchesRegex("gpt3 has ended, 2027-01-15 ..:.., after it was running; newest "
                            "iteration 99\n"));
  EXPECT_THAT(
      end_of_job(R"({"id": "gpt3", "phase": "running", "activity": "ended", "ended_at": null,
                             "heard_at": 1800000000, "newest_iteration": 99})"),
      testing::HasSubstr("has ended: no report from a rank since 2027-01-15 "));
  EXPECT_EQ(end_of_job(R"({"id": "gpt3", "phase": "running", "activity": "idle"})"), "");
  EXPECT_EQ(end_of_job(R"({"id": "gpt3", "phase": "running", "activity": "ended",
                           "pause": {"state": "paused", "ended": true}})"),
            "");
  EXPECT_EQ(end_of_job("not JSON"), "");
}

TEST(JobView, ListsJobsInATable) {
  EXPECT_NE(jobs_table(R"({"jobs": [], "unreachable": ["http://b:1"]})", false, "none")
                .find("did not respond: http://b:1"),
            std::string::npos);
  const std::string log = log_text(
      R"({"events": [{"at": 1, "kind": "phase", "text": "running"}, {"at": 2, "kind": "warning", "text": "w"}]})");
  EXPECT_NE(log.find("  now running\n"), std::string::npos) << log;
  EXPECT_NE(log.find("  warning: w\n"), std::string::npos) << log;
  EXPECT_EQ(log_text("not JSON"), "nothing yet\n");
  const std::string table = jobs_table(
      R"({"jobs": [{"id": "a", "phase": "profiling", "activity": "active", "profiling_fraction": 0.42,
                    "ranks": 8, "ranks_registered": 8, "straggling": 3, "saved_j": 12},
                   {"id": "b", "phase": "running", "activity": "ended", "ended_at": 7},
                   {"id": "c", "phase": "running", "activity": "idle"}]})",
      false, "none");
  EXPECT_NE(table.find("profiling 42 %"), std::string::npos) << table;
  EXPECT_NE(table.find("8/8"), std::string::npos) << table;
  EXPECT_EQ(table.find("  running"), std::string::npos) << table;
  EXPECT_NE(table.find("b    ended"), std::string::npos) << table;
  EXPECT_NE(table.find("idle (running)"), std::string::npos) << table;
}

}  // namespace
}  // namespace harpe::command
