#include "harpe/node/agent/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "harpe/base/test_directory_testing.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kPolicyAlice = 12001, kPolicyBob = 12002;

GpuIdentity gpu(int index) {
  GpuIdentity identity;
  identity.index = index;
  identity.uuid = "GPU-000000-" + std::to_string(index);
  identity.pci = "0000:0" + std::to_string(index) + ":00.0";
  return identity;
}

net::Peer user(std::int64_t uid, std::vector<std::int64_t> groups = {}) {
  net::Peer peer;
  peer.uid = uid;
  peer.pid = 1;
  peer.groups = std::move(groups);
  return peer;
}

net::Peer token(std::string subject, std::vector<std::string> scopes) {
  net::Peer peer;
  peer.token_subject = std::move(subject);
  peer.scopes = std::move(scopes);
  return peer;
}

Policy parsed(const std::string& text) {
  auto policy = Policy::parse(text, "policy.toml");
  EXPECT_TRUE(policy.ok()) << (policy.ok() ? "" : policy.error().text());
  return policy.ok() ? *policy : Policy();
}

std::string errors(const std::string& text) {
  const auto policy = Policy::parse(text, "policy.toml");
  return policy.ok() ? "" : policy.error().text();
}

bool allows_nothing(const Allowance& allowance) {
  return !allowance.read && !allowance.may_control() && allowance.max_lease.value == 0;
}

TEST(Policy, TellsWhichGpusThatItNamesAreNotThere) {
  GpuIdentity here = gpu(0);
  here.uuid = "GPU-0A";
  here.pci = "0000:65:00.0";
  const Policy policy = parsed(
      "[[allow]]\nusers = '*'\nread = true\n"
      "gpus = [0, 9, '9', 'GPU-0a', 'GPU-zz', '65:00.0', '66:00.0', '*']\n");
  EXPECT_THAT(policy.gpus_not_among({here}), ElementsAre("9", "gpu-zz", "0000:66:00.0"));
  EXPECT_THAT(Policy().gpus_not_among({here}), IsEmpty());
}

TEST(Policy, DeniesByDefault) {
  EXPECT_TRUE(allows_nothing(Policy().allowance(user(0), gpu(0))));
  EXPECT_TRUE(allows_nothing(parsed("").allowance(user(0), gpu(0))));
  EXPECT_FALSE(parsed("").may_read_node(user(0)));
}

TEST(Policy, AUserOrGroupMayBeANumberWithOrWithoutQuotes) {
  for (const char* who : {"users = [12001]", "users = 12001", "users = ['12001']",
                          "users = '12001'", "groups = ['0']"}) {
    net::Peer peer = user(kPolicyAlice);
    if (std::string(who).starts_with("groups")) peer.groups = {0};
    const Policy policy = parsed("[[allow]]\n" + std::string(who) + "\ngpus = '*'\nread = true\n");
    EXPECT_TRUE(policy.allowance(peer, gpu(1)).read) << who;
    EXPECT_FALSE(policy.allowance(user(kPolicyBob), gpu(1)).read) << who;
  }
}

TEST(Policy, AllowsWhatItSaysToWhomItNames) {
  const Policy policy = parsed(
      "[[allow]]\nusers = [12001]\ngpus = [1]\nread = true\nclocks_mhz = [900, 1410]\n"
      "power_limit_w = [200, 400.5]\nmax_lease_s = 60\n");
  const Allowance allowed = policy.allowance(user(kPolicyAlice), gpu(1));
  EXPECT_TRUE(allowed.read);
  ASSERT_EQ(allowed.clocks.size(), 1);
  EXPECT_EQ(allowed.clocks[0], (ClockRange{{900}, {1410}}));
  ASSERT_EQ(allowed.power_limits.size(), 1);
  EXPECT_EQ(allowed.power_limits[0].highest, Watts{400.5});
  EXPECT_TRUE(allowed.memory_clocks.empty());
  EXPECT_FALSE(allowed.persistence_mode);
  EXPECT_EQ(allowed.max_lease, Seconds{60});
  EXPECT_TRUE(allows_nothing(policy.allowance(user(kPolicyAlice), gpu(0))));
  EXPECT_TRUE(allows_nothing(policy.allowance(user(kPolicyBob), gpu(1))));
}

TEST(Policy, FindsGpusByIndexUuidAndPciAddressAsPeopleWriteThem) {
  for (const char* name :
       {"1", "GPU-000000-1", "gpu-000000-1", "0000:01:00.0", "01:00.0", "00000000:01:00.0", "*"}) {
    const Policy policy =
        parsed("[[allow]]\nusers = '*'\nread = true\ngpus = '" + std::string(name) + "'\n");
    EXPECT_TRUE(policy.allowance(user(kPolicyBob), gpu(1)).read) << name;
    EXPECT_EQ(policy.allowance(user(kPolicyBob), gpu(0)).read, std::string(name) == "*") << name;
  }
}

TEST(Policy, NamesOfUsersAndGroupsAreThoseOfTheSystem) {
  const Policy policy = parsed(
      "[[allow]]\nusers = ['root']\ngpus = ['*']\nread = true\n"
      "[[allow]]\ngroups = ['root', 77]\ngpus = ['*']\npersistence_mode = true\n");
  EXPECT_TRUE(policy.allowance(user(0), gpu(0)).read);
  EXPECT_FALSE(policy.allowance(user(0), gpu(0)).persistence_mode);
  EXPECT_TRUE(policy.allowance(user(kPolicyBob, {5, 0}), gpu(0)).persistence_mode);
  EXPECT_TRUE(policy.allowance(user(kPolicyBob, {77}), gpu(0)).persistence_mode);
  EXPECT_FALSE(policy.allowance(user(kPolicyBob, {77}), gpu(0)).read);
}

TEST(Policy, EverybodyIsNobodyFromOutside) {
  const Policy policy =
      parsed("[[allow]]\nusers = '*'\ngroups = [0]\ngpus = '*'\nread = true\nclocks_mhz=[1,2]\n");
  EXPECT_TRUE(allows_nothing(policy.allowance(net::Peer(), gpu(0))));
  EXPECT_TRUE(allows_nothing(
      policy.allowance(token("grafana", {"gpu-read", "gpu-control", "cpu-read"}), gpu(0))));
  EXPECT_FALSE(policy.may_read_node(net::Peer()));
}

TEST(Policy, TokensGetNoMoreThanTheirScopes) {
  const Policy policy = parsed(
      "[[allow]]\ntokens = ['grafana']\ngpus = '*'\nread = true\npower_limit_w = [100, 200]\n");
  const auto allowed = [&](std::vector<std::string> scopes) {
    return policy.allowance(token("grafana", std::move(scopes)), gpu(0));
  };
  EXPECT_TRUE(allows_nothing(allowed({})));
  EXPECT_TRUE(allowed({"gpu-read"}).read);
  EXPECT_FALSE(allowed({"gpu-read"}).may_control());
  EXPECT_TRUE(allowed({"gpu-control"}).may_control());
  EXPECT_FALSE(policy.may_read_node(token("grafana", {"gpu-read"})));
  EXPECT_TRUE(policy.may_read_node(token("grafana", {"cpu-read"})));
  EXPECT_TRUE(allows_nothing(policy.allowance(token("other", {"gpu-read"}), gpu(0))));
}

TEST(Policy, ErrorsComeAllAtOnceWithTheirLines) {
  const std::string text = errors(
      "[[allow]]\n"
      "users = ['no-such-user', -4]\n"
      "groups = ['no-such-group']\n"
      "gpus = ['first']\n"
      "clocks_mhz = [1410, 900]\n"
      "power_limits_w = [1, 2]\n"
      "read = 'yes'\n"
      "[[allow]]\n"
      "read = true\n"
      "[other]\n");
  EXPECT_THAT(text, HasSubstr("policy.toml:2:10: users: this system has no user 'no-such-user'"));
  EXPECT_THAT(text, HasSubstr("policy.toml:2:26: users: expected a name or a number"));
  EXPECT_THAT(text, HasSubstr("policy.toml:3:11: groups: this system has no group"));
  EXPECT_THAT(text, HasSubstr("policy.toml:4:9: gpus: 'first' is not an index, a UUID"));
  EXPECT_THAT(text, HasSubstr("policy.toml:5:14: clocks_mhz: the first number is above"));
  EXPECT_THAT(text, HasSubstr("policy.toml:6:1: an [[allow]] entry has no key 'power_limits_w'; "
                              "did you mean 'power_limit_w'?"));
  EXPECT_THAT(text, HasSubstr("policy.toml:7:8: read: expected true or false"));
  EXPECT_THAT(text, HasSubstr("policy.toml:8:1: the entry names no users, groups or tokens"));
  EXPECT_THAT(text, HasSubstr("the entry names no gpus"));
  EXPECT_THAT(text, HasSubstr("the policy has no key 'other'"));
}

TEST(Policy, RefusesEntriesWithoutEffect) {
  EXPECT_THAT(errors("[[allow]]\nusers = '*'\ngpus = '*'\n"), HasSubstr("allows nothing"));
  EXPECT_THAT(errors("[[allow]]\nusers = []\ngpus = '*'\nread = true\n"), HasSubstr("empty list"));
  EXPECT_THAT(errors("allow = [3]\n"), HasSubstr("expected a table"));
}

// The union of the rules is computed here without the code under test.
TEST(Policy, AnAllowanceIsExactlyTheUnionOfMatchingRules) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  for (int round = 0; round < 300; ++round) {
    struct Expected {
      int user, gpu, lowest, highest;
      bool read, clocks;
    };
    std::vector<Expected> rules;
    std::string text;
    for (int i = upto(6); i > 0; --i) {
      Expected rule{};
      rule.user = upto(2);
      rule.gpu = upto(3);
      rule.lowest = 100 + upto(10);
      rule.highest = rule.lowest + upto(10);
      rule.read = upto(1) == 0;
      rule.clocks = !rule.read || upto(1) == 0;
      rules.push_back(rule);
      text += "[[allow]]\nusers = [" + std::to_string(rule.user) + "]\ngpus = [" +
              (rule.gpu == 3 ? "'*'" : std::to_string(rule.gpu)) + "]\n";
      if (rule.read) text += "read = true\n";
      if (rule.clocks) {
        text += "clocks_mhz = [" + std::to_string(rule.lowest) + ", " +
                std::to_string(rule.highest) + "]\n";
      }
    }
    const Policy policy = parsed(text);
    for (int uid = 0; uid < 3; ++uid) {
      for (int index = 0; index < 3; ++index) {
        const Allowance allowed = policy.allowance(user(uid), gpu(index));
        bool read = false;
        for (int clock = 99; clock <= 122; ++clock) {
          bool expected = false;
          for (const Expected& rule : rules) {
            if (rule.user != uid || (rule.gpu != index && rule.gpu != 3)) continue;
            read |= rule.read;
            expected |= rule.clocks && rule.lowest <= clock && clock <= rule.highest;
          }
          const bool actual = std::ranges::any_of(allowed.clocks, [&](const ClockRange& range) {
            return range.lowest.value <= clock && clock <= range.highest.value;
          });
          ASSERT_EQ(actual, expected) << text << uid << " " << index << " " << clock;
        }
        ASSERT_EQ(allowed.read, read) << text;
        ASSERT_TRUE(allowed.memory_clocks.empty() && allowed.power_limits.empty());
      }
    }
  }
}

TEST(Policy, AnEntryThatRequiresAProofCountsWithItAlone) {
  const auto policy = Policy::parse(
      "[[allow]]\nusers = [1000]\ngpus = '*'\nclocks_mhz = [900, 1410]\nrequires = ['device']\n"
      "[[allow]]\nusers = [1000]\ngpus = ['0']\npower_limit_w = [200, 300]\n"
      "requires = ['device', 'computing']\n"
      "[[allow]]\nusers = [1000]\ngpus = ['0']\npersistence_mode = true\n",
      "policy");
  ASSERT_TRUE(policy.ok()) << policy.error().text();
  net::Peer peer;
  peer.uid = 1000;
  GpuIdentity gpu;
  const Proofs both{Proof::kDevice, Proof::kComputing};
  EXPECT_EQ(policy->required(peer, gpu), both);
  EXPECT_TRUE(policy->allowance(peer, gpu).clocks.empty());
  EXPECT_TRUE(policy->allowance(peer, gpu).persistence_mode) << "which requires nothing";
  EXPECT_FALSE(policy->allowance(peer, gpu, {Proof::kDevice}).clocks.empty());
  EXPECT_TRUE(policy->allowance(peer, gpu, {Proof::kDevice}).power_limits.empty());
  EXPECT_FALSE(policy->allowance(peer, gpu, both).power_limits.empty());
  gpu.index = 1;
  EXPECT_EQ(policy->required(peer, gpu), Proofs{Proof::kDevice});
  peer.uid = 1001;
  EXPECT_TRUE(policy->required(peer, gpu).empty());
  EXPECT_EQ(policy->required(), both);
}

TEST(Policy, WhatCannotBeProvenIsAFault) {
  const auto error = [](const std::string& more) {
    const auto policy =
        Policy::parse("[[allow]]\ngpus = '*'\nclocks_mhz = [900, 1410]\n" + more, "p");
    return policy.ok() ? "none" : policy.error().text();
  };
  EXPECT_EQ(error("users = [1]\nrequires = 'device'\n"), "none");
  EXPECT_THAT(error("users = [1]\nrequires = ['cuda']\n"), HasSubstr("neither"));
  EXPECT_THAT(error("users = [1]\nrequires = [1]\n"), HasSubstr("p:5:"));
  EXPECT_THAT(error("tokens = ['x']\nrequires = ['device']\n"), HasSubstr("nothing can be proven"));
  EXPECT_THAT(error("users = [1]\nread = true\nrequires = ['device']\n"),
              HasSubstr("into a separate entry"));
}

TEST(Policy, SaysWhetherControlGoesOnWithoutAnAuditLog) {
  EXPECT_FALSE(Policy().goes_on_without_audit());
  EXPECT_FALSE(Policy::parse("", "p")->goes_on_without_audit());
  EXPECT_FALSE(Policy::parse("[audit]\nwhen_full = 'deny'\n", "p")->goes_on_without_audit());
  EXPECT_TRUE(Policy::parse("[audit]\nwhen_full = 'allow'\n", "p")->goes_on_without_audit());
  EXPECT_FALSE(Policy::parse("[audit]\nwhen_full = 'maybe'\n", "p").ok());
  EXPECT_FALSE(Policy::parse("[audit]\nother = 1\n", "p").ok());
}

class PolicyFile : public ::testing::Test {
 protected:
  PolicyFile() {
    std::ofstream(path_) << "[[allow]]\nusers = '*'\ngpus = '*'\nread = true\n";
    fs::permissions(path_, fs::perms{0644});
  }

  std::string error() const {
    const auto policy = Policy::read(path_);
    return policy.ok() ? "" : policy.error().text();
  }

  const TestDirectory directory_;
  fs::path path_ = directory_ / "policy.toml";
};

TEST_F(PolicyFile, IsReadWhereOnlyTrustedUsersCanWrite) {
  EXPECT_EQ(error(), "");
}

TEST_F(PolicyFile, IsRefusedWhereOthersCanWriteIt) {
  fs::permissions(path_, fs::perms{0666});
  EXPECT_THAT(error(), HasSubstr(path_.string() + " can be written by everybody"));
  fs::permissions(path_, fs::perms{0664});
  EXPECT_THAT(error(), HasSubstr("can be written by its group"));
}

TEST_F(PolicyFile, IsRefusedWhereOthersCanWriteItsDirectory) {
  fs::permissions(directory_.path(), fs::perms{0777});
  EXPECT_THAT(error(), HasSubstr(directory_.path().string() + " can be written by everybody"));
  fs::permissions(directory_.path(), fs::perms{0770});
  EXPECT_THAT(error(), HasSubstr("can be written by its group"));
}

TEST_F(PolicyFile, IsRefusedWhereItBelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path_.c_str(), 12345, 0), 0);
  EXPECT_THAT(error(), AllOf(HasSubstr("belongs to user 12345"),
                             HasSubstr("sudo install -D -m 644 " + path_.string() +
                                       " /etc/harpe/agent.toml"),
                             Not(HasSubstr("chown"))));
}

TEST_F(PolicyFile, ALinkIsJudgedByWhatItLeadsTo) {
  const fs::path link = directory_ / "link.toml";
  fs::create_symlink(path_, link);
  EXPECT_TRUE(Policy::read(link).ok());
  fs::permissions(path_, fs::perms{0666});
  EXPECT_FALSE(Policy::read(link).ok());
}

TEST_F(PolicyFile, ThatIsMissingOrNoFileIsRefused) {
  path_ = directory_ / "none.toml";
  EXPECT_THAT(error(), HasSubstr("cannot read the policy"));
  path_ = directory_.path();
  EXPECT_NE(error(), "");
}

}  // namespace
}  // namespace harpe::node
