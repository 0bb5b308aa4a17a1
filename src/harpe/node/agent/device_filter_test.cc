#include "harpe/node/agent/device_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <random>

#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/device_filter_testing.h"

namespace harpe::node {
namespace {

constexpr DeviceNumber kGpu{195, 3};

TEST(DeviceList, LetsThroughWhatALineFits) {
  const auto allows = [](const char* list) { return list_allows(list, kGpu); };
  EXPECT_EQ(allows("c 195:3 rwm\n"), true);
  EXPECT_EQ(allows("c 1:3 rw\nc 195:* rw"), true);
  EXPECT_EQ(allows("c *:3 rwm\n"), true);
  EXPECT_EQ(allows("a *:* rwm\n"), true);
  EXPECT_EQ(allows(""), false);
  EXPECT_EQ(allows("c 195:2 rwm\nc 1:3 rwm\n"), false);
  EXPECT_EQ(allows("b 195:3 rwm\n"), false);
  EXPECT_EQ(allows("c 195:3 r\nc 195:3 wm\n"), false) << "not both by one line";
  EXPECT_EQ(allows("c *:* m\n"), false) << "to make a file is not to use it";
  for (const char* none :
       {"c195:3 rw", "c 195 3 rw", "x 195:3 rw", "c 195:x rw", "c -1:3 rw", "c"}) {
    EXPECT_EQ(allows(none), std::nullopt) << none;
  }
}

TEST(DeviceProgram, LetsThroughWhatItsRulesFit) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  int allowed = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<DeviceRule> rules(static_cast<std::size_t>(upto(4)));
    for (DeviceRule& rule : rules) {
      rule = {.major = upto(3) - 1,
              .minor = upto(3) - 1,
              .block = upto(4) == 0,
              .read_only = upto(4) == 0};
    }
    const DeviceNumber device{static_cast<std::uint32_t>(upto(2)),
                              static_cast<std::uint32_t>(upto(2))};
    const bool expected =
        std::ranges::any_of(rules, [&](const DeviceRule& rule) { return rule.fits(device); });
    ASSERT_EQ(program_allows(device_program(rules), device), expected) << round;
    allowed += expected ? 1 : 0;
  }
  EXPECT_GT(allowed, 500);
}

TEST(DeviceProgram, OfTheKindThatSystemdWritesIsFollowed) {
  // "Allow all except": an early exit, a jump of 32 bits, a constant of 64 bits.
  const std::vector<bpf_insn> program{
      step(BPF_LDX | BPF_MEM | BPF_H, 2, 1, 0, 0),
      step(BPF_JMP32 | BPF_JEQ | BPF_K, 2, 0, 2, BPF_DEVCG_DEV_CHAR),
      step(BPF_ALU | BPF_MOV | BPF_K, 0, 0, 0, 1),
      step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
      step(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0),
      step(BPF_ALU64 | BPF_ADD | BPF_K, 6, 0, 0, 4),
      step(BPF_LDX | BPF_MEM | BPF_W, 4, 6, 0, 0),
      step(BPF_LD | BPF_IMM | BPF_DW, 7, 0, 0, 195),
      step(0, 0, 0, 0, 0),
      step(BPF_ALU64 | BPF_XOR | BPF_X, 7, 4, 0, 0),
      step(BPF_ALU64 | BPF_MOV | BPF_X, 0, 7, 0, 0),
      step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
  EXPECT_EQ(program_allows(program, {195, 0}), false);
  EXPECT_EQ(program_allows(program, {1, 3}), true);
}

TEST(DeviceProgram, ThatDoesMoreThanToCompareIsNotFollowed) {
  const bpf_insn one = step(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
  const bpf_insn end = step(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  const std::vector<std::vector<bpf_insn>> programs{
      {},
      {one},                                                 // no exit
      {end},                                                 // no result
      {step(BPF_ALU64 | BPF_MOV | BPF_X, 0, 1, 0, 0), end},  // returns an address
      {one, step(BPF_JMP | BPF_CALL, 0, 0, 0, 1), end},      // calls the kernel
      {one, step(BPF_JMP | BPF_JA, 0, 0, -2, 0), end},       // a loop
      {one, step(BPF_JMP | BPF_JA, 0, 0, 7, 0), end},        // jumps out of the program
      {step(BPF_LDX | BPF_MEM | BPF_W, 0, 1, 12, 0), end},   // reads beyond its argument
      {step(BPF_LDX | BPF_MEM | BPF_W, 0, 1, -4, 0), end},
      {step(BPF_LDX | BPF_MEM | BPF_DW, 0, 1, 0, 0), end},
      {step(BPF_LDX | BPF_MEM | BPF_W, 0, 10, -8, 0), end},  // reads the stack
      {step(BPF_STX | BPF_MEM | BPF_W, 10, 1, -8, 0), one, end},
      {step(BPF_LD | BPF_IMM | BPF_DW, 0, BPF_PSEUDO_MAP_FD, 0, 3), step(0, 0, 0, 0, 0), end},
      {step(BPF_ALU64 | BPF_MOV | BPF_X, 0, 5, 0, 0), end},  // reads an unset register
      {one, step(BPF_ALU64 | BPF_DIV | BPF_K, 0, 0, 0, 1), end}};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    EXPECT_EQ(program_allows(programs[i], kGpu), std::nullopt) << i;
  }
}

/// Opens a device to read and write in a process of the cgroup. Returns 0 or the error number.
int open_in(const TestCgroup& cgroup, const std::filesystem::path& device) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!cgroup.add(::getpid())) ::_exit(255);
    ::_exit(::open(device.c_str(), O_RDWR | O_CLOEXEC) >= 0 ? 0 : errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

// Compares with the kernel's own verdict, for nested cgroups and random rules.
TEST(DeviceProgram, AnswersAsTheKernelDoes) {
  if (TestCgroup::make(unified_tree()) == nullptr) {
    GTEST_SKIP() << "no cgroups (v2) can be made here";
  }
  const TestDirectory directory;
  constexpr std::array<unsigned, 4> kMinors{3, 5, 7, 9};  // null, zero, full, urandom
  for (const unsigned minor_number : kMinors) {
    const auto file = directory.path() / std::to_string(minor_number);
    if (::mknod(file.c_str(), S_IFCHR | 0666, ::makedev(1, minor_number)) != 0) {
      GTEST_SKIP() << "no devices can be made here";
    }
  }
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  const auto some_rules = [&] {
    std::vector<DeviceRule> rules(1 + static_cast<std::size_t>(upto(2)));
    for (DeviceRule& rule : rules) {
      rule.major = upto(3) == 0 ? -1 : 1;
      rule.minor = upto(3) == 0 ? -1 : static_cast<int>(kMinors[static_cast<std::size_t>(upto(3))]);
      rule.read_only = upto(4) == 0;
    }
    return rules;
  };
  int allowed = 0, denied = 0;
  for (int round = 0; round < 20; ++round) {
    const auto upper = TestCgroup::make(unified_tree());
    const auto lower = TestCgroup::make(upper->path());
    const UniqueFd place(::open(lower->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_TRUE(*programs_allow(place.get(), {1, 3})) << "nothing is in force";
    for (int i = upto(2); i >= 0; --i) {
      if (!(upto(1) == 0 ? upper : lower)->attach(device_program(some_rules()))) {
        GTEST_SKIP() << "no programs can be put in force here";
      }
    }
    for (const unsigned minor_number : kMinors) {
      const int opened = open_in(*lower, directory.path() / std::to_string(minor_number));
      ASSERT_TRUE(opened == 0 || opened == EPERM) << opened;
      const auto response = programs_allow(place.get(), {1, minor_number});
      ASSERT_TRUE(response.ok()) << response.error().text();
      EXPECT_EQ(*response, opened == 0) << "round " << round << " minor " << minor_number;
      ++(opened == 0 ? allowed : denied);
    }
  }
  EXPECT_GT(allowed, 0);
  EXPECT_GT(denied, 0);
}

}  // namespace
}  // namespace harpe::node
