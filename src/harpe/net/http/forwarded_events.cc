#include "harpe/net/http/forwarded_events.h"

#include <array>
#include <utility>

namespace harpe {
namespace {

constexpr std::size_t kPiece = 16 * 1024;

}  // namespace

ForwardedEvents::ForwardedEvents(std::shared_ptr<ByteStream> stream, std::string begun)
    : stream_(std::move(stream)), unread_(std::move(begun)) {}

void ForwardedEvents::start(std::function<void()> wake) {
  wake_ = std::move(wake);
  wake_();
}

std::string ForwardedEvents::take() {
  if (!unread_.empty()) return std::exchange(unread_, {});
  if (ended_ || waits_) return {};
  std::array<char, kPiece> buffer{};
  const ByteStream::Moved moved = stream_->read(buffer.data(), buffer.size());
  ended_ = moved.state == ByteStream::State::kEnd || moved.state == ByteStream::State::kFailed;
  const bool waits = !ended_ && moved.state != ByteStream::State::kDone;
  if (waits) wait(moved.state);
  return {buffer.data(), moved.bytes};
}

void ForwardedEvents::wait(ByteStream::State state) {
  waits_ = true;
  stream_->when(state, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->waits_ = false;
    self->wake_();
  });
}

}  // namespace harpe
