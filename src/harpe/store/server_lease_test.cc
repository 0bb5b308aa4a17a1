// Leases on clocks that a test moves: by hand, and of whole clusters at random.

#include "harpe/store/server_lease.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

namespace harpe {
namespace {

constexpr LeaseTimes kTimes{.lease = 10_s, .beat = 2_s, .margin = 1_s};

Instant at(double seconds) {
  return Instant{} + Seconds{seconds};
}

TEST(ServerLease, HoldsFromTheMomentARenewalWasSentNotFromItsAnswer) {
  ServerLease lease(kTimes);
  EXPECT_FALSE(lease.held(at(0)));
  lease.sending(at(0));
  EXPECT_FALSE(lease.held(at(1))) << "not before the answer";
  lease.acknowledged();  // at 5 s
  EXPECT_TRUE(lease.held(at(8.9)));
  EXPECT_FALSE(lease.held(at(9)));
  EXPECT_EQ(lease.next_beat(at(1)), at(2));
  EXPECT_EQ(lease.next_beat(at(5)), at(5));
  lease.sending(at(5));
  lease.acknowledged();
  EXPECT_TRUE(lease.held(at(13.9)));
  EXPECT_FALSE(lease.held(at(14)));
}

TEST(ServerLease, ARenewalOfUnknownOutcomeRenewsNothing) {
  ServerLease lease(kTimes);
  lease.sending(at(0));
  lease.acknowledged();
  lease.sending(at(2));
  lease.failed();
  lease.acknowledged();  // of nothing
  EXPECT_EQ(lease.held_until(), at(9));
  EXPECT_EQ(lease.next_beat(at(2.5)), at(2.5));
}

TEST(ServerLease, WithoutItsRowItHoldsNothingAtOnce) {
  ServerLease lease(kTimes);
  lease.sending(at(0));
  lease.acknowledged();
  lease.sending(at(2));
  lease.lost();
  EXPECT_FALSE(lease.held(at(2)));
  lease.sending(at(3));
  lease.acknowledged();
  EXPECT_TRUE(lease.held(at(3)));
}

TEST(ServerLease, AnotherMayBeRemovedOnceItsBeatStoodStillForAsLongAsSeenHere) {
  ServerLease lease(kTimes);
  const SeenBeat row{"other", 7};
  EXPECT_FALSE(lease.may_remove(row, at(1000))) << "never seen before";
  lease.saw({row}, at(0));
  EXPECT_FALSE(lease.may_remove(row, at(10.9)));
  EXPECT_TRUE(lease.may_remove(row, at(11)));
  EXPECT_FALSE(lease.may_remove({"other", 8}, at(11))) << "it beats";
  lease.saw({{"other", 8}}, at(11));
  lease.saw({{"other", 8}}, at(15));
  EXPECT_FALSE(lease.may_remove({"other", 8}, at(21.9)));
  EXPECT_TRUE(lease.may_remove({"other", 8}, at(22)));
  lease.saw({}, at(23));
  lease.saw({{"other", 8}}, at(24));
  EXPECT_FALSE(lease.may_remove({"other", 8}, at(30))) << "what was gone is seen anew";
}

/// A table of servers, and servers whose clocks run apart, that stop, and whose messages take long.
class Cluster {
 public:
  Cluster(unsigned seed, int servers) : random_(seed) {
    for (int i = 0; i < servers; ++i) {
      // Nearly as far apart as the margin allows.
      Node& node = nodes_.emplace_back();
      node.rate = i % 2 == 0 ? 0.91 : 1.09;
      node.offset = uniform(0, 1e6);
    }
  }

  /// One hundredth of a second. \returns what went wrong
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
  int acknowledged() const { return acknowledged_; }

 private:
  /// A statement on its way to the database, or its answer on the way back.
  struct Message {
    enum class Kind : unsigned char { kJoin, kRenew, kLook, kRemove } kind = Kind::kJoin;
    double arrives = 0;
    bool answered = false, done = false;
    SeenBeat row;
    std::vector<SeenBeat> rows;
  };
  struct Node {
    double rate = 1, offset = 0;
    double stopped_until = 0, cut_until = 0;
    ServerLease lease{kTimes};
    std::string name;
    std::optional<Message> message;
    std::vector<SeenBeat> to_remove;
    bool look = false;
  };

  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  Instant clock(const Node& node) const { return at(node.offset + now_ * node.rate); }

  void send(Node& node, Message::Kind kind, SeenBeat row = {}) {
    node.message = Message{.kind = kind, .arrives = delay(), .row = std::move(row), .rows = {}};
  }
  double delay() { return now_ + (chance(0.05) ? uniform(0, 15) : uniform(0, 0.05)); }

  std::string move(Node& node) {
    if (!node.message) {
      begin(node);
      return {};
    }
    Message& message = *node.message;
    if (now_ < message.arrives) return {};
    if (now_ < node.cut_until) {
      // The connection is lost: what was written is not known.
      if (message.kind == Message::Kind::kJoin || message.kind == Message::Kind::kRenew) {
        if (chance(0.5) && !message.answered) (void)execute(node, message);
        node.lease.failed();
      }
      node.message.reset();
      return {};
    }
    if (!message.answered) {
      std::string wrong = execute(node, message);
      message.answered = true;
      message.arrives = delay();
      return wrong;
    }
    finish(node);
    return {};
  }

  void begin(Node& node) {
    const Instant now = clock(node);
    if (!node.to_remove.empty()) {
      const SeenBeat row = node.to_remove.back();
      node.to_remove.pop_back();
      if (node.lease.may_remove(row, now)) send(node, Message::Kind::kRemove, row);
    } else if (node.name.empty()) {
      node.lease.sending(now);
      send(node, Message::Kind::kJoin, {"server " + std::to_string(++names_), 1});
    } else if (std::exchange(node.look, false)) {
      send(node, Message::Kind::kLook);
    } else if (node.lease.next_beat(now) <= now) {
      node.lease.sending(now);
      send(node, Message::Kind::kRenew, {node.name, 0});
    }
  }

  std::string execute(const Node& node, Message& message) {
    switch (message.kind) {
      case Message::Kind::kJoin:
        table_[message.row.server] = 1;
        message.done = true;
        return {};
      case Message::Kind::kRenew:
        message.done = table_.contains(message.row.server);
        if (message.done) ++table_[message.row.server];
        return {};
      case Message::Kind::kLook:
        for (const auto& [server, beat] : table_)
          if (server != node.name) message.rows.push_back({server, beat});
        return {};
      case Message::Kind::kRemove:
        break;
    }
    const auto row = table_.find(message.row.server);
    if (row == table_.end() || row->second != message.row.beat) return {};
    table_.erase(row);
    ++removals_;
    for (const Node& other : nodes_) {
      if (other.name == message.row.server && other.lease.held(clock(other))) {
        return other.name + " holds its lease at " + std::to_string(now_) + " s, and was removed";
      }
    }
    return {};
  }

  void finish(Node& node) {
    const Message message = *std::exchange(node.message, std::nullopt);
    switch (message.kind) {
      case Message::Kind::kJoin:
        node.name = message.row.server;
        node.lease.acknowledged();
        break;
      case Message::Kind::kRenew:
        if (message.done) {
          node.lease.acknowledged();
          ++acknowledged_;
        } else {
          node.lease.lost();
          node.name.clear();
        }
        node.look = true;
        break;
      case Message::Kind::kLook:
        node.lease.saw(message.rows, clock(node));
        node.to_remove = message.rows;
        break;
      case Message::Kind::kRemove:
        break;
    }
  }

  std::mt19937 random_;
  double now_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string, std::int64_t> table_;
  int names_ = 0, removals_ = 0, acknowledged_ = 0;
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
    EXPECT_GT(cluster.acknowledged(), 100);
  }
  EXPECT_GT(removals, 20) << "it was tried";
}

}  // namespace
}  // namespace harpe
