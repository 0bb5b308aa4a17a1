#include "harpe/net/http_client/authorities.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace harpe::net {
namespace {

class Authorities : public testing::Test {
 protected:
  std::string file(const std::string& name) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << "-----BEGIN CERTIFICATE-----\n";
    return path;
  }

  const std::filesystem::path folder_ = [] {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                       ("harpe_authorities_" + std::to_string(::getpid()));
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    return path;
  }();
  const std::string missing_ = (folder_ / "missing.pem").string();
};

TEST_F(Authorities, ThoseThatLibcurlWasBuiltWithComeFirst) {
  const std::string built_in = file("built-in.pem"), other = file("other.pem");
  EXPECT_EQ(authorities_among(built_in.c_str(), std::array{other.c_str()}), built_in);
}

TEST_F(Authorities, OnAnotherSystemTheFirstThatIsThereIsTaken) {
  const std::string second = file("second.pem"), third = file("third.pem");
  const std::array others = {missing_.c_str(), second.c_str(), third.c_str()};
  EXPECT_EQ(authorities_among(missing_.c_str(), others), second);
  EXPECT_EQ(authorities_among(nullptr, others), second);
}

TEST_F(Authorities, WhereNoneIsThereLibcurlDecides) {
  const std::string folder = folder_.string();
  EXPECT_EQ(authorities_among(missing_.c_str(), std::array{folder.c_str()}), "");
}

TEST_F(Authorities, TheUsersFileIsTakenAsItIs) {
  EXPECT_EQ(authorities_file(missing_), missing_);
}

}  // namespace
}  // namespace harpe::net
