#include "harpe/agent/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/hw/system_clock.h"

namespace harpe {

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  const auto drain = [](int descriptor) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = ::read(descriptor, &count, sizeof count);
  };
  add(waker_.get(), [this, drain] { drain(waker_.get()); });
  add(timer_.get(), [this, drain] {
    drain(timer_.get());
    run_due();
  });
}

Status EventLoop::ready() const {
  if (epoll_ && waker_ && timer_) return ok_status();
  return Error::of(ErrorCode::kUnavailable, "no more files can be opened (ulimit -n)");
}

void EventLoop::add(int descriptor, std::function<void()> on_readable) {
  callbacks_[descriptor] = std::move(on_readable);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void EventLoop::remove(int descriptor) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  callbacks_.erase(descriptor);
}

void EventLoop::set_timer(std::optional<Instant> time, std::function<void()> when_due) {
  due_ = time;
  when_due_ = time ? std::move(when_due) : nullptr;
  arm();
}

void EventLoop::after(Seconds delay, std::function<void()> work) {
  delayed_.emplace(system_clock().now() + delay, std::move(work));
  arm();
}

void EventLoop::arm() {
  std::optional<Instant> next = due_;
  if (!delayed_.empty()) {
    const Instant first = delayed_.begin()->first;
    next = std::min(next.value_or(first), first);
  }
  itimerspec spec{};
  if (next) {
    // Zero would take the timer off.
    const std::int64_t ns = std::max<std::int64_t>(next->ns, 1);
    spec.it_value = {static_cast<time_t>(ns / 1'000'000'000),
                     static_cast<long>(ns % 1'000'000'000)};
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void EventLoop::run_due() {
  const Instant now = system_clock().now();
  if (due_ && *due_ <= now) {
    due_.reset();
    std::exchange(when_due_, nullptr)();
  }
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const auto work = std::move(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    work();
  }
  arm();
}

void EventLoop::stop() {
  stopping_ = true;
  post([] {});
}

void EventLoop::post(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(waker_.get(), &one, sizeof one);
}

void EventLoop::run_posted() {
  std::vector<std::function<void()>> work;
  {
    const MutexLock lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& one : work) one();
}

void EventLoop::run() {
  std::array<epoll_event, 64> events{};
  while (!stopping_) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      // A callback may have removed another.
      const auto found = callbacks_.find(events[static_cast<std::size_t>(i)].data.fd);
      if (found == callbacks_.end()) continue;
      const auto callback = found->second;
      callback();
    }
    run_posted();
  }
  run_posted();
}

}  // namespace harpe
