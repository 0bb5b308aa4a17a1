// Leases on clocks that a test moves: single leases by hand, and clusters at random.

#include "harpe/training/store/server_lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace harpe::training {
namespace {

constexpr LeaseTimes kTimes{.lease = 10_s, .beat = 2_s, .margin = 1_s};

Instant at(double seconds) {
  return Instant{} + Seconds{seconds};
}

using Kind = LeaseStep::Kind;

std::function<std::string()> names(const std::string& start = "server ") {
  return [start, count = 0]() mutable { return start + std::to_string(++count); };
}

/// Returns the kinds of all steps to send, in order, if every write succeeds.
std::vector<Kind> steps(ServerLease& lease, Instant now, const std::vector<SeenBeat>& others = {}) {
  std::vector<Kind> kinds;
  while (const auto step = lease.next(now)) {
    kinds.push_back(step->kind);
    step->kind == Kind::kLook ? lease.looked(others, now) : lease.written(true);
  }
  return kinds;
}

TEST(ServerLease, JoinsLooksAroundAndRenewsInTime) {
  ServerLease lease(kTimes, names());
  EXPECT_EQ(lease.server(), "");
  EXPECT_FALSE(lease.held(at(0)));
  EXPECT_EQ(steps(lease, at(0)), (std::vector{Kind::kJoin, Kind::kLook}));
  EXPECT_EQ(lease.server(), "server 1");
  EXPECT_TRUE(lease.held(at(0)));
  EXPECT_EQ(lease.wake(at(0)), at(2));
  EXPECT_EQ(steps(lease, at(1.9)), std::vector<Kind>());
  EXPECT_EQ(steps(lease, at(2)), (std::vector{Kind::kRenew, Kind::kLook}));
  EXPECT_EQ(lease.held_until(), at(11));
  EXPECT_EQ(lease.tenure(), 1);
}

TEST(ServerLease, HoldsFromTheMomentARenewalWasSentNotFromItsAnswer) {
  ServerLease lease(kTimes, names());
  EXPECT_EQ(lease.next(at(0))->kind, Kind::kJoin);
  EXPECT_FALSE(lease.held(at(1))) << "not before the answer";
  lease.written(true);  // at 5 s
  EXPECT_TRUE(lease.held(at(8.9)));
  EXPECT_FALSE(lease.held(at(9)));
  EXPECT_EQ(lease.next(at(5))->kind, Kind::kRenew) << "before anything else";
  lease.written(true);
  EXPECT_TRUE(lease.held(at(13.9)));
  EXPECT_FALSE(lease.held(at(14)));
}

TEST(ServerLease, ARenewalOfUnknownOutcomeRenewsNothingAndIsSentAgain) {
  ServerLease lease(kTimes, names());
  steps(lease, at(0));
  EXPECT_EQ(lease.next(at(2))->kind, Kind::kRenew);
  lease.failed();
  lease.written(true);  // nothing was sent
  EXPECT_EQ(lease.held_until(), at(9));
  EXPECT_EQ(lease.wake(at(2.5)), at(2.5));
  EXPECT_EQ(lease.next(at(2.5))->kind, Kind::kRenew);
  lease.written(true);
  EXPECT_EQ(lease.held_until(), at(11.5));
}

TEST(ServerLease, WithoutItsRowItHoldsNothingAtOnceAndJoinsUnderAnotherName) {
  ServerLease lease(kTimes, names());
  steps(lease, at(0));
  EXPECT_EQ(lease.next(at(2))->kind, Kind::kRenew);
  lease.written(false);
  EXPECT_FALSE(lease.held(at(2)));
  EXPECT_EQ(lease.server(), "");
  EXPECT_EQ(lease.tenure(), 2);
  const auto again = lease.next(at(3));
  EXPECT_EQ(again->kind, Kind::kJoin);
  EXPECT_EQ(again->server, "server 2");
  lease.failed();  // it may have been written: that name is not used again
  EXPECT_EQ(lease.next(at(4))->server, "server 3");
  lease.written(true);
  EXPECT_TRUE(lease.held(at(4)));
}

TEST(ServerLease, AnotherIsRemovedOnceItsBeatStoodStillForAsLongAsSeenHere) {
  ServerLease lease(kTimes, names());
  const auto removes = [&](double seconds, std::int64_t beat) {
    return std::ranges::count(steps(lease, at(seconds), {{"other", beat}}), Kind::kRemove);
  };
  EXPECT_FALSE(lease.may_remove({"other", 7}, at(1000))) << "never seen before";
  EXPECT_EQ(removes(0, 7), 0);
  EXPECT_EQ(removes(10.9, 7), 0);
  EXPECT_TRUE(lease.may_remove({"other", 7}, at(11)));
  EXPECT_FALSE(lease.may_remove({"other", 8}, at(11))) << "it beats";
  EXPECT_EQ(removes(12.9, 7), 1);
  EXPECT_EQ(removes(15, 8), 0) << "it was too early by its own clock, and beats on";
  EXPECT_EQ(removes(25.9, 8), 0);
  EXPECT_EQ(removes(28, 8), 1);
  steps(lease, at(30), {});
  EXPECT_EQ(removes(32, 8), 0) << "what was gone is seen anew";
}

TEST(ServerLease, OneWhoseProcessHasEndedIsRemovedAtOnce) {
  ServerLease lease(kTimes, names());
  EXPECT_EQ(steps(lease, at(0), {{.server = "killed", .beat = 7, .gone = true}, {"other", 3}}),
            (std::vector{Kind::kJoin, Kind::kLook, Kind::kRemove}));
}

/// A table of servers. Their clocks drift apart, they stop, and their messages are slow.
class Cluster {
 public:
  Cluster(unsigned seed, int servers) : random_(seed) {
    for (int i = 0; i < servers; ++i) {
      // Their rates are nearly as far apart as the margin allows.
      nodes_.push_back({.rate = i % 2 == 0 ? 0.91 : 1.09,
                        .offset = uniform(0, 1e6),
                        .lease = ServerLease(kTimes, names(std::to_string(i) + "."))});
    }
  }

  /// Advances by a hundredth of a second. Returns an error, or an empty string.
  std::string step() {
    now_ += 0.01;
    for (Node& node : nodes_) {
      if (now_ < node.stopped_until) continue;
      if (chance(0.0004)) node.stopped_until = now_ + uniform(0, 40);
      if (chance(0.0002)) node.cut_until = now_ + uniform(0, 40);
      if (std::string wrong = move(node); !wrong.empty()) return wrong;
    }
    return {};
  }

  int removals() const { return removals_; }
  int renewals() const { return renewals_; }

 private:
  /// A statement on its way to the database, or its response on the way back.
  struct Message {
    LeaseStep step;
    double arrives = 0;
    bool answered = false, found = false;
    std::vector<SeenBeat> rows = {};
  };
  struct Node {
    double rate = 1, offset = 0;
    ServerLease lease;
    double stopped_until = 0, cut_until = 0;
    std::optional<Message> message = {};
  };

  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  Instant clock(const Node& node) const { return at(node.offset + now_ * node.rate); }
  double delay() { return now_ + (chance(0.05) ? uniform(0, 15) : uniform(0, 0.05)); }

  std::string move(Node& node) {
    if (!node.message) {
      if (auto step = node.lease.next(clock(node))) {
        node.message = Message{.step = *std::move(step), .arrives = delay()};
      }
      return {};
    }
    Message& message = *node.message;
    if (now_ < message.arrives) return {};
    if (now_ < node.cut_until) {
      // The connection is lost, before or after the statement was executed.
      std::string wrong;
      if (!message.answered && chance(0.5)) wrong = execute(message);
      node.message.reset();
      node.lease.failed();
      return wrong;
    }
    if (!message.answered) {
      message.answered = true;
      message.arrives = delay();
      return execute(message);
    }
    if (message.step.kind == Kind::kLook) {
      node.lease.looked(message.rows, clock(node));
    } else {
      node.lease.written(message.found);
    }
    node.message.reset();
    return {};
  }

  std::string execute(Message& message) {
    const std::string& server = message.step.server;
    const auto row = table_.find(server);
    message.found = row != table_.end();
    switch (message.step.kind) {
      case Kind::kJoin:
        table_[server] = 1;
        break;
      case Kind::kRenew:
        if (message.found) ++row->second;
        renewals_ += message.found;
        break;
      case Kind::kLook:
        for (const auto& [other, beat] : table_)
          if (other != server) message.rows.push_back({other, beat});
        break;
      case Kind::kRemove:
        message.found = message.found && row->second == message.step.beat;
        if (!message.found) break;
        table_.erase(row);
        ++removals_;
        for (const Node& node : nodes_) {
          if (node.lease.server() == server && node.lease.held(clock(node))) {
            return server + " holds its lease at " + std::to_string(now_) + " s, and was removed";
          }
        }
        break;
    }
    return {};
  }

  std::mt19937 random_;
  double now_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string, std::int64_t> table_;
  int removals_ = 0, renewals_ = 0;
};

TEST(ServerLease, NoServerIsRemovedWhileItHoldsItsLeaseWhateverStopsOrIsLate) {
  const unsigned first = std::random_device{}();
  std::printf("seed %u\n", first);
  int removals = 0;
  for (unsigned seed = first; seed < first + 20; ++seed) {
    Cluster cluster(seed, 4);
    for (int step = 0; step < 30'000; ++step) {
      const std::string wrong = cluster.step();
      ASSERT_EQ(wrong, "") << "seed " << seed;
    }
    removals += cluster.removals();
    EXPECT_GT(cluster.renewals(), 100);
  }
  EXPECT_GT(removals, 20) << "it was tried";
}

}  // namespace
}  // namespace harpe::training
