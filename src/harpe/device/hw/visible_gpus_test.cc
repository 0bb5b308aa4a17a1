// CUDA's and ROCm's rules for their variables, compared with a second implementation on every list
// of up to three entries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harpe/device/hw/gpu_choice.h"

namespace harpe::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GpuIdentity gpu(int index, const std::string& uuid, const std::string& name = "NVIDIA A40",
                double speed = 1, const std::string& backend = "nvml") {
  return {
      .index = index, .uuid = uuid, .pci = {}, .name = name, .backend = backend, .speed = speed};
}

std::vector<GpuIdentity> three_equal() {
  return {gpu(0, "GPU-aa11"), gpu(1, "GPU-ab22"), gpu(2, "GPU-b033")};
}

std::vector<int> cuda(const std::string& list, const std::vector<GpuIdentity>& gpus) {
  const auto visible = visible_gpus(gpus, {.cuda_visible_devices = list});
  EXPECT_TRUE(visible.ok()) << list << ": " << visible.error().text();
  return visible.ok() ? visible->gpus : std::vector<int>{-99};
}

// The rules as PyTorch and nvitop implement them, over entries whose meaning the test knows: no
// text is parsed here.
struct Entry {
  const char* text;
  enum Kind { kOrdinal, kUuid, kOther } kind;
  int gpu;  ///< -1 if none
};
const std::vector<Entry> kEntries = {
    {"0", Entry::kOrdinal, 0},     {"1", Entry::kOrdinal, 1},
    {" 2 ", Entry::kOrdinal, 2},   {"+1", Entry::kOrdinal, 1},
    {"1gpu", Entry::kOrdinal, 1},  {"007", Entry::kOrdinal, -1},
    {"02", Entry::kOrdinal, 2},    {"-1", Entry::kOrdinal, -1},
    {"3", Entry::kOrdinal, -1},    {"99999999999999999999", Entry::kOrdinal, -1},
    {"", Entry::kOther, -1},       {"x1", Entry::kOther, -1},
    {"-", Entry::kOther, -1},      {"NoDevFiles", Entry::kOther, -1},
    {"GPU-aa11", Entry::kUuid, 0}, {"GPU-aa", Entry::kUuid, 0},
    {"GPU-ab2", Entry::kUuid, 1},  {"GPU-b", Entry::kUuid, 2},
    {"GPU-a", Entry::kUuid, -1},   {"GPU-", Entry::kUuid, -1},
    {"GPU-zz", Entry::kUuid, -1},  {"GPU-aa11ff", Entry::kUuid, -1}};

std::vector<int> expected(const std::vector<Entry>& list) {
  std::vector<int> gpus;
  for (const Entry& entry : list) {
    const bool by_uuid = list.front().kind == Entry::kUuid;
    const bool fits = entry.kind == (by_uuid ? Entry::kUuid : Entry::kOrdinal);
    if (!fits || entry.gpu < 0) return gpus;
    if (std::ranges::count(gpus, entry.gpu) > 0) return {};
    gpus.push_back(entry.gpu);
  }
  return gpus;
}

TEST(CudaVisibleDevices, FollowsTheRulesForEveryListOfUpToThreeEntries) {
  const auto gpus = three_equal();
  int lists = 0;
  for (const Entry& a : kEntries) {
    EXPECT_EQ(cuda(a.text, gpus), expected({a})) << a.text;
    for (const Entry& b : kEntries) {
      const std::string two = std::string(a.text) + "," + b.text;
      EXPECT_EQ(cuda(two, gpus), expected({a, b})) << two;
      for (const Entry& c : kEntries) {
        const std::string three = two + "," + c.text;
        ASSERT_EQ(cuda(three, gpus), expected({a, b, c})) << three;
        ++lists;
      }
    }
  }
  EXPECT_EQ(lists, 22 * 22 * 22);
}

TEST(CudaVisibleDevices, TheExamplesOfTheProgrammingGuideHold) {
  EXPECT_THAT(cuda("2,1", three_equal()), ElementsAre(2, 1));
  EXPECT_THAT(cuda("0,2,-1,1", three_equal()), ElementsAre(0, 2));
  EXPECT_THAT(cuda("", three_equal()), IsEmpty());
  EXPECT_THAT(visible_gpus(three_equal(), {})->gpus, ElementsAre(0, 1, 2));
}

TEST(CudaVisibleDevices, WhatCutsTheListIsSaid) {
  const auto note = [](const std::string& list) {
    const auto visible = visible_gpus(three_equal(), {.cuda_visible_devices = list});
    return visible->notes.empty() ? "" : visible->notes.front();
  };
  EXPECT_THAT(note("0,7,1"),
              HasSubstr("'7' is not a GPU of this machine; it and all later entries are ignored"));
  EXPECT_THAT(note("0,-1,1"), HasSubstr("'-1' ends the list"));
  EXPECT_THAT(note("GPU-a"), HasSubstr("matches the UUIDs of several GPUs"));
  EXPECT_THAT(note("1,1"), HasSubstr("names GPU 1 twice, so no GPU is selected"));
  EXPECT_EQ(note("1,0"), "");
}

TEST(CudaVisibleDevices, AMigInstanceIsRefusedWithTheReason) {
  for (const char* list :
       {"MIG-8d3f1f2a-0000-5111-8222-123456789abc", "MIG-GPU-aa11/1/0", "MIG-1,0", " MIG-1"}) {
    const auto visible = visible_gpus(three_equal(), {.cuda_visible_devices = list});
    ASSERT_FALSE(visible.ok()) << list;
    EXPECT_EQ(visible.error().code, ErrorCode::kNotSupported);
    EXPECT_THAT(visible.error().text(), HasSubstr("only the whole GPU has a clock"));
  }
  // After an entry of another kind, CUDA does not reach the MIG entry.
  EXPECT_THAT(cuda("0,MIG-1", three_equal()), ElementsAre(0));
  EXPECT_THAT(cuda("GPU-aa,MIG-1", three_equal()), ElementsAre(0));
}

TEST(CudaVisibleDevices, ADividedGpuIsNamedAsSuch) {
  auto gpus = three_equal();
  gpus[1].is_mig = true;
  const auto visible = visible_gpus(gpus, {.cuda_visible_devices = "1"});
  ASSERT_EQ(visible->notes.size(), 1U);
  EXPECT_THAT(visible->notes[0], HasSubstr("GPU 1 is divided into MIG instances"));
}

std::vector<GpuIdentity> mixed() {
  return {gpu(0, "GPU-aa11", "Slow", 10), gpu(1, "GPU-ab22", "Fast", 30),
          gpu(2, "GPU-b033", "Slow", 10), gpu(3, "GPU-c044", "Fast", 30)};
}

TEST(CudaDeviceOrder, DifferentGpusAreSortedFastestFirstAndThatIsAnEstimate) {
  const auto all = visible_gpus(mixed(), {});
  EXPECT_THAT(all->gpus, ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(all->notes, ElementsAre(HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID")));
  EXPECT_THAT(cuda("0,2", mixed()), ElementsAre(1, 0));
  const auto wrong_word =
      visible_gpus(mixed(), {.cuda_visible_devices = "0", .cuda_device_order = "FASTEST"});
  EXPECT_THAT(wrong_word->gpus, ElementsAre(1));
}

TEST(CudaDeviceOrder, PciOrderUuidsAndEqualGpusAreCertain) {
  const auto pci =
      visible_gpus(mixed(), {.cuda_visible_devices = "0,1", .cuda_device_order = "PCI_BUS_ID"});
  EXPECT_THAT(pci->gpus, ElementsAre(0, 1));
  EXPECT_THAT(pci->notes, IsEmpty());
  const auto uuids = visible_gpus(mixed(), {.cuda_visible_devices = "GPU-c,GPU-aa"});
  EXPECT_THAT(uuids->gpus, ElementsAre(3, 0));
  EXPECT_THAT(uuids->notes, IsEmpty());
  EXPECT_THAT(visible_gpus(three_equal(), {})->notes, IsEmpty());
  EXPECT_THAT(visible_gpus(mixed(), {.cuda_visible_devices = ""})->notes, IsEmpty());
}

std::vector<GpuIdentity> amd(int first_index) {
  std::vector<GpuIdentity> gpus;
  for (int i = 0; i < 4; ++i) {
    gpus.push_back(gpu(first_index + i, "GPU-00000000000000a" + std::to_string(i),
                       "AMD Instinct MI300X", 0, "rocm"));
  }
  return gpus;
}

TEST(RocmVariables, RocrSelectsFirstAndHipAmongThose) {
  const auto both =
      visible_gpus(amd(0), {.hip_visible_devices = "1,0", .rocr_visible_devices = "3,1,2"});
  EXPECT_THAT(both->gpus, ElementsAre(1, 3));
  const auto uuid =
      visible_gpus(amd(0), {.rocr_visible_devices = "GPU-00000000000000a2,GPU-00000000000000a0"});
  EXPECT_THAT(uuid->gpus, ElementsAre(2, 0));
  EXPECT_THAT(visible_gpus(amd(0), {.hip_visible_devices = "0,9,1"})->gpus, ElementsAre(0));
  EXPECT_THAT(visible_gpus(amd(0), {.rocr_visible_devices = ""})->gpus, IsEmpty());
}

TEST(RocmVariables, CudasVariableStandsInForHipsWhereThereIsNoNvidiaGpu) {
  EXPECT_THAT(visible_gpus(amd(0), {.cuda_visible_devices = "2"})->gpus, ElementsAre(2));
  EXPECT_THAT(visible_gpus(amd(0), {.cuda_visible_devices = "2", .hip_visible_devices = "1"})->gpus,
              ElementsAre(1));
  auto both = three_equal();
  for (const GpuIdentity& more : amd(3)) both.push_back(more);
  EXPECT_THAT(visible_gpus(both, {.cuda_visible_devices = "2"})->gpus, ElementsAre(2, 3, 4, 5, 6));
}

TEST(VisibleGpus, WithoutGpusNothingIsWrong) {
  EXPECT_THAT(visible_gpus({}, {.cuda_visible_devices = "MIG-1"})->gpus, IsEmpty());
}

}  // namespace
}  // namespace harpe::device
