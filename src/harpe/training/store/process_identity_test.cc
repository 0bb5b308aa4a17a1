#include "harpe/training/store/process_identity.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace harpe::training {
namespace {

/// A process that waits to be killed, and its identity as it reports it.
class Child {
 public:
  Child() {
    int said[2];
    EXPECT_EQ(::pipe(said), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::int64_t started = ProcessIdentity::own().started;
      if (::write(said[1], &started, sizeof started) != sizeof started) ::_exit(1);
      while (true) ::pause();
    }
    identity_ = ProcessIdentity::own();
    identity_.pid = pid_;
    EXPECT_EQ(::read(said[0], &identity_.started, sizeof identity_.started),
              sizeof identity_.started);
    ::close(said[0]), ::close(said[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const ProcessIdentity& identity() const { return identity_; }
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t ended{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT), 0);
  }
  void wait() const { ::waitpid(pid_, nullptr, 0); }

 private:
  pid_t pid_ = -1;
  ProcessIdentity identity_;
};

TEST(ProcessIdentity, IsGoneOnlyOnceItIsKilled) {
  const ProcessIdentity me = ProcessIdentity::own();
  EXPECT_FALSE(me.boot.empty());
  EXPECT_FALSE(me.namespaces.empty());
  EXPECT_GT(me.started, 0);
  EXPECT_FALSE(is_proven_gone(me, me));
  const Child child;
  EXPECT_FALSE(is_proven_gone(child.identity(), me));
  ::kill(static_cast<pid_t>(child.identity().pid), SIGSTOP);
  EXPECT_FALSE(is_proven_gone(child.identity(), me)) << "a process that is stopped may wake up";
  child.kill();
  EXPECT_TRUE(is_proven_gone(child.identity(), me)) << "before its parent has waited for it";
  child.wait();
  EXPECT_TRUE(is_proven_gone(child.identity(), me));
}

TEST(ProcessIdentity, ANumberThatBelongsToAnotherProcessProvesTheEnd) {
  const ProcessIdentity me = ProcessIdentity::own();
  ProcessIdentity before = me;
  before.started -= 1;
  EXPECT_TRUE(is_proven_gone(before, me));
  before.pid = 1;  // of another user, unless this one is root
  EXPECT_TRUE(is_proven_gone(before, me));
}

TEST(ProcessIdentity, NothingIsProvenOfAnotherMachineOrContainerOrWhatIsNotKnown) {
  const ProcessIdentity me = ProcessIdentity::own();
  const Child child;
  child.kill();
  child.wait();
  for (const auto member : {&ProcessIdentity::boot, &ProcessIdentity::namespaces}) {
    for (const char* other : {"", "another"}) {
      ProcessIdentity process = child.identity();
      process.*member = other;
      EXPECT_FALSE(is_proven_gone(process, me));
    }
  }
  ProcessIdentity observer = me;
  observer.boot.clear();
  ProcessIdentity process = child.identity();
  process.boot.clear();
  EXPECT_FALSE(is_proven_gone(process, observer));
  process = child.identity();
  process.started = 0;
  EXPECT_FALSE(is_proven_gone(process, me));
  process = child.identity();
  process.pid = 0;
  EXPECT_FALSE(is_proven_gone(process, me));
}

}  // namespace
}  // namespace harpe::training
