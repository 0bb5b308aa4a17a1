#include "harpe/command/command/on_all_processors.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace harpe::command {

void on_all_processors(std::size_t count, const std::function<void(std::size_t)>& work,
                       const std::function<void(double)>& progress) {
  constexpr std::chrono::milliseconds kLook(20);
  std::atomic<std::size_t> next{0}, ended{0};
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      work(i);
      ++ended;
    }
  };
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(count, processors); ++i) threads.emplace_back(loop);
  while (progress && ended < count) {
    progress(static_cast<double>(ended) / static_cast<double>(count));
    std::this_thread::sleep_for(kLook);
  }
  threads.clear();  // waits for them
}

}  // namespace harpe::command
