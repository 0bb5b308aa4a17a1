#include "harpe/net/http/server_loop.h"

#include <poll.h>

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>

namespace harpe::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

std::chrono::nanoseconds duration(Seconds seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds.value * 1e9));
}

void tick(const std::shared_ptr<asio::steady_timer>& timer, Seconds period,
          std::function<void()> work) {
  timer->expires_after(duration(period));
  timer->async_wait([timer, period, work = std::move(work)](error_code error) mutable {
    if (error) return;
    work();
    tick(timer, period, std::move(work));
  });
}

void hear(const std::shared_ptr<asio::signal_set>& signals, std::function<void(int)> work) {
  signals->async_wait([signals, work = std::move(work)](error_code error, int signal) mutable {
    if (error) return;
    work(signal);
    hear(signals, std::move(work));
  });
}

struct Watched {
  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
};

bool can_be_read(int descriptor) {
  pollfd ready{descriptor, POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

void wait(const std::shared_ptr<Watched>& watched) {
  constexpr auto kReadable = asio::posix::stream_descriptor::wait_read;
  watched->descriptor.async_wait(kReadable, [watched](error_code error) {
    // The watch can end after the kernel has reported the descriptor.
    if (error || !watched->descriptor.is_open()) return;
    // Asio can deliver the event of a descriptor whose watch has ended to the next watch.
    if (can_be_read(watched->descriptor.native_handle())) watched->on_readable();
    if (watched->descriptor.is_open()) wait(watched);
  });
}

}  // namespace

struct ServerLoop::State {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
};

ServerLoop::ServerLoop() : state_(std::make_unique<State>()) {}
ServerLoop::~ServerLoop() = default;

Status ServerLoop::ready() {
  try {
    // Asio creates its reactor on first use, and throws if that fails.
    const asio::posix::stream_descriptor first(state_->context);
    return ok_status();
  } catch (const boost::system::system_error&) {
    return Error::of(ErrorCode::kUnavailable, "the limit of open files is reached (ulimit -n)");
  }
}

boost::asio::io_context& ServerLoop::context() {
  return state_->context;
}

void ServerLoop::post(std::function<void()> work) {
  asio::post(state_->context, std::move(work));
}

void ServerLoop::after(Seconds delay, std::function<void()> work) {
  const auto timer = std::make_shared<asio::steady_timer>(state_->context);
  timer->expires_after(duration(delay));
  timer->async_wait([timer, work = std::move(work)](error_code error) {
    if (!error) work();
  });
}

void ServerLoop::every(Seconds period, std::function<void()> work) {
  tick(std::make_shared<asio::steady_timer>(state_->context), period, std::move(work));
}

void ServerLoop::on_signals(const std::vector<int>& signals, std::function<void(int)> work) {
  const auto set = std::make_shared<asio::signal_set>(state_->context);
  for (const int signal : signals) {
    error_code ignored;
    static_cast<void>(set->add(signal, ignored));
  }
  hear(set, std::move(work));
}

std::shared_ptr<void> ServerLoop::watch(int descriptor, std::function<void()> on_readable) {
  const auto watched = std::make_shared<Watched>(
      Watched{asio::posix::stream_descriptor(state_->context), std::move(on_readable)});
  error_code error;
  if (!watched->descriptor.assign(descriptor, error)) wait(watched);
  // Asio would close the descriptor.
  return {watched.get(), [watched](void*) {
            if (watched->descriptor.is_open()) watched->descriptor.release();
          }};
}

void ServerLoop::run() {
  state_->context.run();
}

void ServerLoop::stop() {
  state_->context.stop();
}

}  // namespace harpe::net
