// Watched descriptors of a loop. All tests of servers use timers and posted work.

#include "harpe/net/http/server_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "harpe/base/unique_fd.h"

namespace harpe::net {
namespace {

void make_readable(const UniqueFd& descriptor) {
  ASSERT_EQ(::eventfd_write(descriptor.get(), 1), 0);
}
void read_all(const UniqueFd& descriptor) {
  eventfd_t count = 0;
  ASSERT_EQ(::eventfd_read(descriptor.get(), &count), 0);
}

struct Watching : ::testing::Test {
  ServerLoop loop;
  UniqueFd descriptor{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(Watching, IsToldUntilAllIsReadAndAgainWhenMoreComes) {
  std::string told;
  const auto watch = loop.watch(descriptor.get(), [&] {
    told += told.size() < 2 ? 'a' : 'b';
    if (told == "aa") {
      read_all(descriptor);
      // Time for another call, which must not happen.
      loop.after(Seconds{0.02}, [&] {
        EXPECT_EQ(told, "aa");
        make_readable(descriptor);
      });
    }
    if (told == "aab") loop.stop();
  });
  make_readable(descriptor);
  loop.run();
  EXPECT_EQ(told, "aab");
}

TEST_F(Watching, EndsWithItsHandleAndLeavesTheDescriptorOpen) {
  int told = 0;
  auto watch = loop.watch(descriptor.get(), [&] { ++told; });
  make_readable(descriptor);
  watch.reset();
  loop.after(Seconds{0.02}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(told, 0);
  EXPECT_GE(::fcntl(descriptor.get(), F_GETFD), 0);
}

TEST_F(Watching, CanBeEndedByWhatItCalls) {
  std::shared_ptr<void> watch;
  auto kept = std::make_shared<int>(0);
  watch = loop.watch(descriptor.get(), [&, kept] {
    watch.reset();
    ++*kept;  // exists while this runs
    loop.after(Seconds{0.02}, [&] { loop.stop(); });
  });
  make_readable(descriptor);
  loop.run();
  EXPECT_EQ(*kept, 1);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(Watching, OfANumberThatIsUsedAgainIsOfTheNewDescriptor) {
  UniqueFd other(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  std::string told;
  std::shared_ptr<void> old_watch, new_watch;
  // Both are reported at once. The first callback closes the other descriptor, whose number is then
  // used by a descriptor with nothing to read.
  const auto replace = [&](UniqueFd& closed, std::shared_ptr<void>& watch) {
    watch.reset();
    const int number = closed.get();
    closed.reset();
    closed = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    EXPECT_EQ(closed.get(), number);
    watch = loop.watch(closed.get(), [&] { told += "new"; });
  };
  old_watch = loop.watch(descriptor.get(), [&] {
    told += "one ";
    read_all(descriptor);
    replace(other, new_watch);
  });
  new_watch = loop.watch(other.get(), [&] {
    told += "one ";
    read_all(other);
    replace(descriptor, old_watch);
  });
  make_readable(descriptor);
  loop.after(Seconds{0.02}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(told, "one ");
}

TEST_F(Watching, IsToldOfAHangUp) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const auto watch = loop.watch(reading.get(), [&] { loop.stop(); });
  loop.post([&] { writing.reset(); });
  loop.run();
  char byte = 0;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0);
}

TEST_F(Watching, SaysWhereNoMoreFilesCanBeOpened) {
  // The undefined behaviour sanitizer checks memory through a pipe, and raises a false alarm if it
  // cannot open one.
  if (HARPE_UNDER_SANITIZERS) GTEST_SKIP();
  EXPECT_TRUE(loop.ready().ok());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ServerLoop other;
  const Status status = other.ready();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(other.ready().ok());
}

}  // namespace
}  // namespace harpe::net
