#include "harpe/command/lab_cli/pipeline_threads.h"

namespace harpe::command {

PipelineThreads::PipelineThreads(std::size_t count) {
  for (std::size_t worker = 1; worker < count; ++worker) {
    threads_.emplace_back([this, worker] {
      for (std::size_t round = 0;;) {
        round_.wait(round);
        ++round;
        if (ends_) return;
        run_share(worker);
        if (--running_ == 0) running_.notify_one();
      }
    });
  }
}

PipelineThreads::~PipelineThreads() {
  ends_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

lab::PipelineWorkers PipelineThreads::workers() {
  return {.count = threads_.size() + 1,
          .each = [this](std::size_t items, const lab::PipelineWorkers::Work& work) {
            each(items, work);
          }};
}

void PipelineThreads::each(std::size_t items, const lab::PipelineWorkers::Work& work) {
  items_ = items;
  work_ = &work;
  next_ = 0;
  running_ = threads_.size();
  ++round_;
  round_.notify_all();
  run_share(0);
  for (std::size_t left = running_; left > 0; left = running_) running_.wait(left);
}

void PipelineThreads::run_share(std::size_t worker) {
  for (std::size_t item = next_++; item < items_; item = next_++) (*work_)(worker, item);
}

}  // namespace harpe::command
