#include <gtest/gtest.h>

#include <string>

#include "harpe/training/server/job_claims.h"

namespace harpe::training {
namespace {

/// A job without stored data.
class Registered final : public Hosted {
 public:
  using Hosted::Hosted;
  HostedTexts take_texts() override { return {}; }
  std::string summary_text() const override { return {}; }
  Seconds heard() const override { return Seconds{0}; }
  std::optional<Seconds> ended() const override { return std::nullopt; }
  std::size_t memory() const override { return 0; }
  bool asleep() const override { return false; }
  void go_on(Seconds) override {}
  void hear(Seconds) override {}
  void tick(Seconds) override {}
  HostedEffects take_effects(Seconds) override { return {}; }
  void leave() override {}
};

TEST(JobRemovals, ADoubtIsAboutTheJobThatWasThere) {
  JobRemovals removals;
  const Registered before("job");
  removals.doubt("job", nullptr);  // the store did not confirm the removal
  EXPECT_TRUE(removals.is_in_doubt("job", &before));
  // A second removal succeeds, and training registers another job at once.
  removals.begin("job");
  removals.end("job");
  removals.forget("job");
  const Registered after("job");
  EXPECT_FALSE(removals.is_in_doubt("job", &after));
}

}  // namespace
}  // namespace harpe::training
