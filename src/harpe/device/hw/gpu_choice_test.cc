// The meaning of --gpus.

#include "harpe/device/hw/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<GpuIdentity> six() {
  std::vector<GpuIdentity> gpus;
  const std::vector<std::pair<const char*, const char*>> names = {
      {"GPU-7a5e0001", "0000:07:00.0"}, {"GPU-7a5e0002", "0000:0b:00.0"},
      {"GPU-1234abcd", "0000:65:00.0"}, {"GPU-ffff0000", "0000:65:00.1"},
      {"GPU-00000004", "0001:65:00.0"}, {"GPU-00000005", "0000:e3:1f.7"}};
  for (const auto& [uuid, pci] : names) {
    gpus.push_back({.index = static_cast<int>(gpus.size()),
                    .uuid = uuid,
                    .pci = pci,
                    .name = "NVIDIA A40",
                    .backend = "nvml"});
  }
  return gpus;
}

std::vector<int> chosen(const std::string& text) {
  const auto choice = choose_gpus(text, six(), {.cuda_visible_devices = "5,1"});
  EXPECT_TRUE(choice.ok()) << text << ": " << choice.error().text();
  return choice.ok() ? choice->gpus : std::vector<int>{-99};
}

Error refused(const std::string& text) {
  const auto choice = choose_gpus(text, six(), {});
  EXPECT_FALSE(choice.ok()) << text;
  return choice.ok() ? Error{} : choice.error();
}

TEST(GpuChoice, TakesIndicesRangesUuidsAndPciAddressesInTheirOrder) {
  EXPECT_THAT(chosen("3"), ElementsAre(3));
  EXPECT_THAT(chosen("5,0"), ElementsAre(5, 0));
  EXPECT_THAT(chosen("2-4"), ElementsAre(2, 3, 4));
  EXPECT_THAT(chosen("2-2"), ElementsAre(2));
  EXPECT_THAT(chosen("all"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(chosen("GPU-12"), ElementsAre(2));
  EXPECT_THAT(chosen("gpu-7A5E0002"), ElementsAre(1));
  EXPECT_THAT(chosen("65:00.1"), ElementsAre(3));
  EXPECT_THAT(chosen("65:00"), ElementsAre(2));
  EXPECT_THAT(chosen("00000001:65:00.0"), ElementsAre(4));
  EXPECT_THAT(chosen("E3:1F.7"), ElementsAre(5));
  EXPECT_THAT(chosen(" 4 , 0-1 "), ElementsAre(4, 0, 1));
}

TEST(GpuChoice, TakesEveryGpuOnce) {
  EXPECT_THAT(chosen("1,0-2,GPU-1234,65:00.0,all"), ElementsAre(1, 0, 2, 3, 4, 5));
}

TEST(GpuChoice, WithoutTextMeansWhatAProgramWouldUse) {
  EXPECT_THAT(chosen(""), ElementsAre(5, 1));
  EXPECT_THAT(chosen("  "), ElementsAre(5, 1));
  EXPECT_THAT(choose_gpus("all", {}, {})->gpus, IsEmpty());
}

TEST(GpuChoice, NamesWhatIsWrongAndWhatIsHere) {
  EXPECT_EQ(refused("6").code, ErrorCode::kNotFound);
  EXPECT_THAT(refused("6").text(), HasSubstr("no GPU '6'; this machine has GPUs 0 to 5"));
  EXPECT_EQ(refused("0-6").code, ErrorCode::kNotFound);
  EXPECT_EQ(refused("GPU-99").code, ErrorCode::kNotFound);
  EXPECT_EQ(refused("77:00.0").code, ErrorCode::kNotFound);
  EXPECT_EQ(refused("3-1").code, ErrorCode::kInvalidInput);
  EXPECT_THAT(refused("GPU-7a5e").text(), HasSubstr("matches the UUIDs of several GPUs"));
  EXPECT_EQ(refused("MIG-12").code, ErrorCode::kNotSupported);
  for (const char* text : {"x", "-1", "1-", "1--2", "0,,1", ",", "0x1", "1.5", "gpu", "1e0",
                           "99999999999999999999", "65:00.9", "65:20.0", "1:2:3:4"}) {
    EXPECT_FALSE(choose_gpus(text, six(), {}).ok()) << text;
  }
}

TEST(GpuChoice, ReportsAllErrorsAtOnce) {
  EXPECT_EQ(refused("7,x,GPU-7a").diagnostics.size(), 3U);
}

TEST(GpuChoice, SaysThatThereIsNoGpu) {
  EXPECT_THAT(choose_gpus("0", {}, {}).error().text(), HasSubstr("there is no GPU here"));
}

TEST(PciAddress, IsWrittenOneWay) {
  EXPECT_EQ(normal_pci_address("00000000:65:00.0"), "0000:65:00.0");
  EXPECT_EQ(normal_pci_address("0000:C1:1f.7"), "0000:c1:1f.7");
  EXPECT_EQ(normal_pci_address("1:2"), "0000:01:02.0");
  EXPECT_EQ(normal_pci_address("12345:65:00.0"), "12345:65:00.0");
  for (const char* other : {"", ":", "65", "65:", ":00.0", "65:00.", "g5:00.0", "165:00.0",
                            "123456789:65:00.0", "65:00.0.0"}) {
    EXPECT_EQ(normal_pci_address(other), "") << other;
  }
}

}  // namespace
}  // namespace harpe::device
