#include "harpe/node/agent/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

namespace harpe::node {
namespace {

net::Peer user(std::int64_t uid, std::int64_t pid = 1) {
  net::Peer peer;
  peer.uid = uid;
  peer.pid = pid;
  return peer;
}

std::function<std::string()> counter() {
  return [next = 0]() mutable { return "lease-" + std::to_string(next++); };
}

bool everybody(int) {
  return true;
}
bool sees_none(int) {
  return false;
}

TEST(LeaseBook, AConflictNamesTheHolderToThoseWhoMaySee) {
  LeaseBook book(2, counter());
  ASSERT_TRUE(book.take(user(7, 99), {{1}, 60_s, "train.py"}, {}, everybody).ok());
  const auto seen = book.take(user(8), {{0, 1}, 60_s, ""}, Instant{} + 10_s, everybody);
  ASSERT_FALSE(seen.ok());
  EXPECT_EQ(seen.error().code, ErrorCode::kConflict);
  EXPECT_EQ(seen.error().text(),
            "GPU 1 is leased by uid 7, pid 99 ('train.py') for another 50 s; wait, or ask them to "
            "release it (root can)");
  const auto unseen = book.take(user(8), {{0, 1}, 60_s, ""}, {}, sees_none);
  EXPECT_EQ(unseen.error().text(),
            "GPU 1 is leased by another user; try again later, or ask the administrator");
  const auto own = book.take(user(7, 100), {{1}, 60_s, ""}, {}, sees_none);
  EXPECT_THAT(own.error().text(), ::testing::HasSubstr("that is you"));
  EXPECT_TRUE(book.take(user(8), {{0}, 60_s, ""}, {}, sees_none).ok());
}

TEST(LeaseBook, OneUserMayHoldTheControlsOfAGpuInSeveralLeases) {
  LeaseBook book(1, counter());
  const Controls clocks{Control::kClocks}, limit{Control::kPowerLimit};
  const auto first = book.take(user(7), {{0}, 600_s, "a", false, clocks}, {}, everybody);
  const auto second = book.take(user(7), {{0}, 60_s, "b", false, limit}, {}, everybody);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(book.find(first->id)->expires, Instant{} + 600_s) << "the first is as it was";
  EXPECT_EQ(book.take(user(7), {{0}, 60_s, "", false, clocks}, {}, everybody).error().code,
            ErrorCode::kConflict);
  EXPECT_EQ(book.take(user(8), {{0}, 60_s, "", false, {Control::kMemoryClocks}}, {}, everybody)
                .error()
                .code,
            ErrorCode::kConflict)
      << "another user gets nothing of it";
  EXPECT_EQ(
      book.take(user(7), {{0}, 60_s, "", false, Controls::none()}, {}, everybody).error().code,
      ErrorCode::kInvalidInput);
  book.remove(second->id);
  EXPECT_TRUE(book.usable(user(7), first->id, {}).ok());
}

TEST(LeaseBook, OneImpliedByAProcessLastsUntilThatEnds) {
  LeaseBook book(3, counter());
  const LeaseBook::Request of_gpu[] = {{{0}, 60_s, "implied", true}, {{1}, 60_s, "implied", true}};
  const auto local = book.take(user(7, 99), of_gpu[0], {}, everybody);
  // Over the network, or if the kernel does not report the process, its end is not seen.
  ASSERT_TRUE(book.take(user(7, 0), of_gpu[1], {}, everybody).ok());
  ASSERT_TRUE(book.take(user(7, 99), {{2}, 60_s, "train.py"}, {}, everybody).ok());
  const Instant later = Instant{} + 60_s;
  const auto expired = book.remove_expired(later);
  ASSERT_EQ(expired.size(), 2U);
  EXPECT_EQ(expired[0].gpus.front() + expired[1].gpus.front(), 3);
  const LeaseEntry* implied = book.implied(user(7, 99));
  ASSERT_NE(implied, nullptr);
  EXPECT_EQ(implied->id, local->id);
  EXPECT_TRUE(book.usable(user(7, 99), local->id, later).ok());
  EXPECT_EQ(*book.next_expiry(), later + 60_s);
  EXPECT_THAT(book.take(user(8), {{0}, 60_s, ""}, later, everybody).error().text(),
              ::testing::HasSubstr("while its process runs"));
}

TEST(LeaseBook, AnotherUserLearnsNothingFromAKnownLease) {
  LeaseBook book(1, counter());
  const auto lease = book.take(user(7), {{0}, 60_s, ""}, {}, everybody);
  ASSERT_TRUE(lease.ok());
  const auto stolen = book.usable(user(8), lease->id, {});
  const auto unknown = book.usable(user(8), "lease-77", {});
  EXPECT_EQ(stolen.error().text(), unknown.error().text());
  EXPECT_FALSE(book.renew(user(8), lease->id, 60_s, {}).ok());
  EXPECT_TRUE(book.usable(user(7, 1234), lease->id, {}).ok()) << "another process of the user may";
}

TEST(LeaseBook, PeersFromOutsideAreToldApartByTheirTokens) {
  net::Peer nameless, grafana, other;
  grafana.token_subject = "grafana";
  other.token_subject = "other";
  EXPECT_FALSE(same_user(nameless, nameless));
  EXPECT_TRUE(same_user(grafana, grafana));
  EXPECT_FALSE(same_user(grafana, other));
  net::Peer local = user(7);
  local.token_subject = "grafana";
  EXPECT_FALSE(same_user(grafana, local));
}

TEST(LeaseBook, BadRequestsGrantNothing) {
  LeaseBook book(2, counter());
  const auto code = [&](const LeaseBook::Request& request) {
    const auto lease = book.take(user(7), request, {}, everybody);
    EXPECT_FALSE(lease.ok());
    return lease.ok() ? ErrorCode::kInternal : lease.error().code;
  };
  EXPECT_EQ(code({{}, 60_s, ""}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code({{0, 0}, 60_s, ""}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code({{0, 2}, 60_s, ""}), ErrorCode::kNotFound);
  EXPECT_EQ(code({{-1}, 60_s, ""}), ErrorCode::kNotFound);
  EXPECT_EQ(code({{0}, 0_s, ""}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code({{0}, Seconds{-1}, ""}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code({{0}, Seconds{1e300}, ""}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code({{0}, Seconds{0.0 / 0.0}, ""}), ErrorCode::kInvalidInput);
  EXPECT_TRUE(book.leases().empty());
}

/// The expected content of the book: for each control, its holder, its lease and the end of it.
struct Model {
  struct Holding {
    std::int64_t uid = 0;
    std::string id;
    std::int64_t until = 0;
  };
  using Place = std::pair<int, int>;  ///< GPU, control
  std::map<Place, Holding> held;

  void expire(std::int64_t now) {
    std::erase_if(held, [&](const auto& item) { return item.second.until <= now; });
  }
  bool usable(std::int64_t uid, const std::string& id, std::int64_t now) const {
    return std::ranges::any_of(held, [&](const auto& item) {
      return item.second.id == id && item.second.uid == uid && item.second.until > now;
    });
  }
  /// Returns true if no other client holds the GPU, and no lease except `except` these controls.
  bool is_free(int gpu, const std::set<int>& controls, std::int64_t uid,
               const std::string& except) const {
    return std::ranges::all_of(held, [&](const auto& item) {
      const auto& [place, holding] = item;
      if (place.first != gpu || holding.id == except) return true;
      return holding.uid == uid && !controls.contains(place.second);
    });
  }
  std::set<int> controls_of(const std::string& id) const {
    std::set<int> controls;
    for (const auto& [place, holding] : held) {
      if (holding.id == id) controls.insert(place.second);
    }
    return controls;
  }
  std::set<std::pair<int, std::string>> leases_on_gpus() const {
    std::set<std::pair<int, std::string>> leases;
    for (const auto& [place, holding] : held) leases.emplace(place.first, holding.id);
    return leases;
  }
};

constexpr std::array kControls{Control::kClocks, Control::kMemoryClocks, Control::kPowerLimit,
                               Control::kPersistenceMode};

TEST(LeaseBook, DoesWhatAModelOfEachControlDoes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  for (int round = 0; round < 40; ++round) {
    constexpr int kGpus = 5;
    LeaseBook book(kGpus, counter());
    Model model;
    std::vector<std::string> ids = {"none"};
    std::int64_t now = 0;
    for (int step = 0; step < 250; ++step) {
      now += upto(3) * 1'000'000'000LL;
      const Instant at{now};
      const std::int64_t uid = upto(2);
      const std::string id = ids[static_cast<std::size_t>(upto(static_cast<int>(ids.size()) - 1))];
      const int action = upto(5);
      const int seconds = 1 + upto(9);
      const std::int64_t until = now + seconds * 1'000'000'000LL;
      const Seconds duration{static_cast<double>(seconds)};
      if (action <= 2) {  // take or extend
        book.remove_expired(at);
        model.expire(now);
        const bool extends = action == 2;
        std::set<int> requested;
        for (int i = 1 + upto(2); i > 0; --i) requested.insert(upto(kGpus - 1));
        // An extended lease has the same controls on each of its GPUs.
        std::set<int> controls = extends ? model.controls_of(id) : std::set<int>();
        if (controls.empty()) {
          for (int i = 1 + upto(3); i > 0; --i) controls.insert(upto(3));
        }
        LeaseBook::Request request{{requested.rbegin(), requested.rend()}, duration, "", false, {}};
        request.controls = Controls::none();
        for (const int control : controls) {
          request.controls.add({kControls[static_cast<std::size_t>(control)]});
        }
        const bool is_free = std::ranges::all_of(requested, [&](int gpu) {
          return model.is_free(gpu, controls, uid, extends ? id : "");
        });
        const bool expected = is_free && (!extends || model.usable(uid, id, now));
        const auto lease = extends ? book.extend(user(uid), id, request, at, everybody)
                                   : book.take(user(uid), request, at, everybody);
        ASSERT_EQ(lease.ok(), expected);
        if (!lease.ok()) continue;
        ids.push_back(lease->id);
        for (const int gpu : requested) {
          for (const int control : controls) model.held[{gpu, control}] = {uid, lease->id, until};
        }
        for (auto& [place, holding] : model.held) {
          if (holding.id == lease->id) holding.until = until;
        }
      } else if (action == 3) {
        const bool expected = model.usable(uid, id, now);
        ASSERT_EQ(book.renew(user(uid), id, duration, at).ok(), expected);
        for (auto& [place, holding] : model.held) {
          if (expected && holding.id == id) holding.until = until;
        }
      } else if (action == 4) {
        const bool expected =
            std::ranges::any_of(model.held, [&](const auto& item) { return item.second.id == id; });
        ASSERT_EQ(book.remove(id).has_value(), expected);
        std::erase_if(model.held, [&](const auto& item) { return item.second.id == id; });
      } else {
        std::size_t gpus = 0;
        for (const LeaseEntry& lease : book.remove_expired(at)) gpus += lease.gpus.size();
        const std::size_t before = model.leases_on_gpus().size();
        model.expire(now);
        ASSERT_EQ(gpus, before - model.leases_on_gpus().size());
      }
      std::size_t found = 0;
      for (int gpu = 0; gpu < kGpus; ++gpu) {
        for (const LeaseEntry* holder : book.holders(gpu)) {
          for (int control = 0; control < 4; ++control) {
            if (!holder->controls.has(kControls[static_cast<std::size_t>(control)])) continue;
            ++found;
            const Model::Holding& holding = model.held[{gpu, control}];
            ASSERT_EQ(holder->id, holding.id);
            ASSERT_EQ(holder->expires.ns, holding.until);
          }
          ASSERT_EQ(book.usable(user(uid), holder->id, at).ok(),
                    model.usable(uid, holder->id, now));
        }
      }
      ASSERT_EQ(found, model.held.size());
      const auto next = book.next_expiry();
      ASSERT_EQ(next.has_value(), !model.held.empty());
      for (const auto& [place, holding] : model.held) ASSERT_LE(next->ns, holding.until);
    }
  }
}

TEST(LeaseBookDeathTest, EndsTheProgramRatherThanGiveTwoLeasesOneName) {
  LeaseBook book(2, [] { return "the same"; });
  ASSERT_TRUE(book.take(user(7), {{0}, 60_s, ""}, {}, everybody).ok());
  EXPECT_DEATH((void)book.take(user(8), {{1}, 60_s, ""}, {}, everybody), "no two leases");
}

}  // namespace
}  // namespace harpe::node
