#include "harpe/command/cli/run_carbon.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"

namespace harpe {
namespace {

constexpr WholeSeconds kRunStep = whole_minutes(5);
constexpr std::chrono::milliseconds kAskAgain(50);

/// What the thread that asks and the one that waits have in common.
struct Asked {
  Mutex mutex;
  CondVar changed;
  std::optional<Result<AccountingIntensity>> answer HARPE_GUARDED_BY(mutex);
};

Result<AccountingIntensity> ask(const SourceArguments& arguments, UtcTime from, UtcTime to) {
  const auto source = HARPE_TRY(open_source(arguments));
  return accounting_intensity(*source, arguments.source, from, to);
}

FoundIntensity found(Result<AccountingIntensity> answer) {
  if (answer.ok()) return {.intensity = *std::move(answer)};
  FoundIntensity none{.why = answer.error().text()};
  for (std::size_t at = 0; (at = none.why.find('\n', at)) != std::string::npos;) {
    none.why.replace(at, 1, "; ");
  }
  return none;
}

}  // namespace

bool RunCarbon::is_number() const {
  return source.source.provider == SourceSpecification::Provider::kConstant;
}

Status check_source(const RunCarbon& carbon) {
  if (carbon.asked()) HARPE_TRY(open_source(carbon.source));
  return ok_status();
}

WholeSeconds ledger_step(const RunCarbon& carbon) {
  if (!carbon.asked() || carbon.is_number()) return kRunStep;
  const auto source = open_source(carbon.source);
  if (!source.ok()) return kRunStep;
  const WholeSeconds step = std::min(kRunStep, (*source)->identity().step);
  return EnergyLedger::is_step(step) ? step : kRunStep;
}

FoundIntensity find_intensity(const RunCarbon& carbon, UtcTime from, UtcTime to, Seconds longest,
                              const std::function<bool()>& give_up) {
  if (carbon.is_number()) return found(ask(carbon.source, from, to));
  const auto asked = std::make_shared<Asked>();
  std::thread thread([asked, arguments = carbon.source, from, to] {
    auto answer = ask(arguments, from, to);
    const MutexLock lock(asked->mutex);
    asked->answer = std::move(answer);
    asked->changed.notify_all();
  });
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(longest.value);
  MutexLock lock(asked->mutex);
  while (!asked->changed.wait_for(asked->mutex, kAskAgain, [&]() HARPE_REQUIRES(asked->mutex) {
    return asked->answer.has_value();
  })) {
    if (!give_up() && std::chrono::steady_clock::now() <= until) continue;
    lock.unlock();
    thread.detach();
    return {.why = "it did not answer in time", .hangs = true};
  }
  auto answer = *std::move(asked->answer);
  lock.unlock();
  thread.join();
  return found(std::move(answer));
}

}  // namespace harpe
