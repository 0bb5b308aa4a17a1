#pragma once
/// \file
/// What power streams say: of each device the newest event, written once for all who listen. What
/// was put is published in rounds, so that a listener is sent to once a round, whatever number of
/// devices changed.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/net/http/http_message.h"

namespace harpe {

/// Thread-safe.
class PowerBoard {
 public:
  /// Keeps `event` for the next round, in place of what was put before, unless `value`, which is
  /// what it says beside the time, was said last. Whether it was kept.
  bool put(int device, const std::string& value, std::string event);
  /// Publishes what was kept.
  void publish();
  /// What a listener has been sent: of each of its devices, which publication.
  using Seen = std::vector<std::uint64_t>;
  /// The newest events of those devices that were published since; then they are seen.
  std::string newer(const std::vector<int>& devices, Seen& seen) const;
  bool has_newer(const std::vector<int>& devices, const Seen& seen) const;
  /// Takes everything off: it is not the present any more.
  void clear();

 private:
  struct Entry {
    std::string value, kept, event;
    std::uint64_t published = 0;  ///< how often; 0: never, or taken off since
  };

  mutable Mutex mutex_;
  std::map<int, Entry> entries_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t publications_ HARPE_GUARDED_BY(mutex_) = 0;
};

/// One listener's stream of a board.
class PowerListener final : public EventStream {
 public:
  /// \param client  by what listeners are counted
  PowerListener(std::shared_ptr<const PowerBoard> board, std::vector<int> devices,
                std::string client);

  void start(std::function<void()> wake) override;
  std::string take() override;

  /// After a round: wakes the connection if there is something for it.
  void after_round();
  /// Called once a period: a period without any event is ended with a sign of life.
  void heartbeat();
  const std::string& client() const { return client_; }

 private:
  void wake();

  const std::shared_ptr<const PowerBoard> board_;
  const std::vector<int> devices_;
  const std::string client_;
  Mutex mutex_;
  std::function<void()> wake_ HARPE_GUARDED_BY(mutex_);
  PowerBoard::Seen seen_ HARPE_GUARDED_BY(mutex_);
  bool quiet_ HARPE_GUARDED_BY(mutex_) = false, heartbeat_due_ HARPE_GUARDED_BY(mutex_) = false;
};

}  // namespace harpe
