#include "harpe/http/server_loop.h"

#include <utility>
// Boost 1.74 needs <utility> before any of its network headers.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

namespace harpe {

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

}  // namespace

struct ServerLoop::State {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
};

ServerLoop::ServerLoop() : state_(std::make_unique<State>()) {}
ServerLoop::~ServerLoop() = default;

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

void ServerLoop::run() {
  state_->context.run();
}

void ServerLoop::stop() {
  state_->context.stop();
}

}  // namespace harpe
