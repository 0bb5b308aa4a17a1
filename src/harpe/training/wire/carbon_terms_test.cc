#include "harpe/training/wire/carbon_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

TEST(CarbonTerms, ReadBackTheSame) {
  CarbonTerms terms;
  terms.source = "electricity-maps:DE";
  terms.zone = "DE";
  terms.iterations = 50'000;
  terms.iterations_done = 120;
  terms.deadline = carbon::parse_utc("2026-12-01T06:00:00Z");
  terms.probability = 0.9;
  terms.pause = CarbonPause{.stop = Seconds{30},
                            .start = Seconds{90},
                            .min_dwell = Seconds{1800},
                            .idle_power = Watts{55}};
  terms.guard = 0.03;
  terms.guard_confidence = 0.9;
  terms.embodied = "150kg/5y";
  terms.host_power = Watts{100};
  terms.tokens_per_iteration = 4e6;
  const auto read = parse_carbon_terms(carbon_terms_json(terms));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(*read, terms);
  EXPECT_TRUE(validate(terms).ok());
}

TEST(CarbonTerms, SayWhatIsUsualWhereLittleIsGiven) {
  const auto read =
      parse_carbon_terms(R"({"iterations": 10, "deadline_factor": 1.25, "pause": true})");
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->probability, 0.95);
  EXPECT_EQ(read->pause, CarbonPause{});
  const auto never =
      parse_carbon_terms(R"({"iterations": 10, "deadline_factor": 1.25, "pause": false})");
  ASSERT_TRUE(never.ok()) << never.error().text();
  EXPECT_FALSE(never->pause.has_value());
}

TEST(CarbonTerms, EveryFaultIsTold) {
  const auto read = parse_carbon_terms(
      "{\"deadline\": \"noon\",\n \"probability\": 1, \"pause\": 3,\n"
      " \"embodied\": \"much\", \"sauce\": \"DE\", \"url\": \"http://example\"}");
  ASSERT_FALSE(read.ok());
  const std::string text = read.error().text();
  for (const char* part :
       {"iterations", "deadline", "probability", "pause", "embodied", "sauce", "url"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(read.error().diagnostics.size(), 7U) << text;
  for (const Diagnostic& one : read.error().diagnostics) EXPECT_GT(one.line, 0) << one.message;
}

TEST(CarbonTerms, HaveOneDeadline) {
  EXPECT_FALSE(parse_carbon_terms(R"({"iterations": 1})").ok());
  EXPECT_FALSE(
      parse_carbon_terms(R"({"iterations": 1, "deadline": "2026-12-01", "deadline_factor": 2})")
          .ok());
  EXPECT_FALSE(parse_carbon_terms(R"({"iterations": 1, "deadline_factor": 0.9})").ok());
  EXPECT_FALSE(validate(CarbonTerms{}).ok());
}

TEST(CarbonTerms, OfARunOfUnknownLengthHaveASlackInPlaceOfADeadline) {
  const auto read =
      parse_carbon_terms(R"({"slack_s": 43200, "deadline_factor": 1.25, "pause": true})");
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_TRUE(read->is_open_ended());
  EXPECT_EQ(read->slack, Seconds{43'200});
  EXPECT_EQ(*parse_carbon_terms(carbon_terms_json(*read)), *read);
  const std::string open = R"({"slack_s": 0, "deadline_factor": 1.25)";
  EXPECT_TRUE(parse_carbon_terms(open + "}").ok());
  for (const char* other : {R"("iterations": 9)", R"("deadline": "2026-12-01T06:00:00Z")",
                            R"("probability": 0.9)", R"("guard": 0.01)"}) {
    const auto refused = parse_carbon_terms(open + ", " + other + "}");
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_EQ(refused.error().diagnostics.size(), 1U) << refused.error().text();
    EXPECT_THAT(refused.error().text(), HasSubstr("slack_s"));
  }
  EXPECT_FALSE(parse_carbon_terms(R"({"slack_s": 3600})").ok());
  EXPECT_FALSE(parse_carbon_terms(R"({"slack_s": 1e6, "deadline_factor": 1.25})").ok());
}

TEST(CarbonTerms, GuardBy99PercentOfTheErrorsWhereNothingElseIsSaid) {
  const std::string rest = R"({"iterations": 9, "deadline_factor": 2, )";
  const auto usual = parse_carbon_terms(rest + R"("guard": 0.01})");
  ASSERT_TRUE(usual.ok()) << usual.error().text();
  EXPECT_EQ(usual->guard_confidence, 0.99);
  EXPECT_TRUE(parse_carbon_terms(rest + R"("guard": 0.01, "guard_confidence": 1})").ok());
  EXPECT_FALSE(parse_carbon_terms(rest + R"("guard": 0.01, "guard_confidence": 1.1})").ok());
  const auto alone = parse_carbon_terms(rest + R"("guard_confidence": 0.9})");
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().text(), HasSubstr("guard"));
}

TEST(CarbonTerms, ArePartOfASpecification) {
  const std::string job = R"({"stages": 2, "schedule": "1f1b", "micro_batches": 4, "carbon": )";
  const auto spec = parse_job_spec(job + R"({"iterations": 100, "deadline_factor": 1.5}})");
  ASSERT_TRUE(spec.ok()) << spec.error().text();
  ASSERT_TRUE(parse_carbon_terms(spec->carbon).ok());
  EXPECT_EQ(parse_carbon_terms(spec->carbon)->iterations, 100);
  EXPECT_EQ(parse_job_spec(job_spec_json(*spec))->carbon, spec->carbon);
  const auto wrong = parse_job_spec(job + R"({"iterations": 100}})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text(), HasSubstr("deadline"));
}

}  // namespace
}  // namespace harpe::training
