#pragma once
/// \file
/// Events of another server, handed on as they come. Only for `.cc` files.

#include <functional>
#include <memory>
#include <string>

#include "harpe/net/http/byte_stream.h"
#include "harpe/net/http/http_message.h"

namespace harpe {

/// No more is read than what has been taken. The connection that listens owns this: when it goes,
/// so does the stream. On the thread of the stream's loop.
class ForwardedEvents final : public EventStream,
                              public std::enable_shared_from_this<ForwardedEvents> {
 public:
  /// \param begun  what has been read already
  ForwardedEvents(std::shared_ptr<ByteStream> stream, std::string begun);

  void start(std::function<void()> wake) override;
  std::string take() override;
  bool ended() const override { return ended_; }

 private:
  void wait(ByteStream::State state);

  std::shared_ptr<ByteStream> stream_;
  std::string unread_;
  std::function<void()> wake_;
  bool waits_ = false, ended_ = false;
};

}  // namespace harpe
