#include "harpe/training/client/harpe_client.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "harpe/device/hw/system_clock.h"
#include "harpe/training/client/client.h"

struct harpe_client {  // NOLINT(readability-identifier-naming): its name in C
  std::unique_ptr<harpe::RankClient> client;
};

namespace {

using harpe::InstructionKind;

static_assert(static_cast<int>(InstructionKind::kForward) == HARPE_FORWARD);
static_assert(static_cast<int>(InstructionKind::kBackward) == HARPE_BACKWARD);
static_assert(static_cast<int>(InstructionKind::kWeight) == HARPE_WEIGHT);
static_assert(static_cast<int>(InstructionKind::kRecompute) == HARPE_RECOMPUTE);
static_assert(static_cast<int>(InstructionKind::kRecomputeBackward) == HARPE_RECOMPUTE_BACKWARD);
static_assert(static_cast<int>(InstructionKind::kForwardBackward) == HARPE_FORWARD_BACKWARD);
static_assert(sizeof(harpe_span) == sizeof(harpe::TimeSpan) &&
              offsetof(harpe_span, end_ns) == offsetof(harpe::TimeSpan, end));

void say(const std::string& text, char* error, std::size_t size) {
  if (error == nullptr || size == 0) return;
  const std::size_t count = std::min(text.size(), size - 1);
  std::memcpy(error, text.data(), count);
  error[count] = 0;
}

harpe::Result<std::unique_ptr<harpe::RankClient>> start(const char* text, harpe_client_log log,
                                                        void* context) {
  harpe::RankClientOptions options;
  if (text != nullptr) {
    options = HARPE_TRY(harpe::parse_rank_client_options(text));
  }
  if (log != nullptr) {
    options.log = [log, context](const std::string& said) { log(said.c_str(), context); };
  }
  return harpe::RankClient::start(std::move(options));
}

}  // namespace

extern "C" {

int harpe_client_abi(void) {
  return HARPE_CLIENT_ABI;
}

harpe_client* harpe_client_start(const char* options, harpe_client_log log, void* context,
                                 char* error, size_t error_size) {
  try {
    say("", error, error_size);
    auto client = start(options, log, context);
    if (client.ok()) return new harpe_client{*std::move(client)};
    say(client.error().text(), error, error_size);
  } catch (const std::exception& failure) {
    say(failure.what(), error, error_size);
  }
  return nullptr;
}

void harpe_client_stop(harpe_client* client) {
  delete client;
}

void harpe_client_instruction_begin(harpe_client* client, int kind, int chunk, int micro_batch) {
  if (client == nullptr) return;
  client->client->on_instruction_begin(static_cast<InstructionKind>(std::clamp(kind, 0, 255)),
                                       chunk, micro_batch);
}

void harpe_client_instruction_end(harpe_client* client) {
  if (client != nullptr) client->client->on_instruction_end();
}

const char* harpe_client_label(harpe_client* client) {
  return client == nullptr ? "" : client->client->label();
}

int harpe_client_follow_stream(harpe_client* client, void* stream, char* error, size_t error_size) {
  say("", error, error_size);
  if (client == nullptr) return 0;
  const harpe::Status followed = client->client->follow_stream(stream);
  if (followed.ok()) return 0;
  say(followed.error().text(), error, error_size);
  return -1;
}

void harpe_client_iteration_begin(harpe_client* client, int64_t iteration) {
  if (client != nullptr) client->client->on_iteration_begin(iteration);
}

void harpe_client_iteration_end(harpe_client* client, const harpe_span* device_times,
                                size_t count) {
  if (client == nullptr) return;
  const auto* spans = reinterpret_cast<const harpe::TimeSpan*>(device_times);
  client->client->on_iteration_end({spans, device_times == nullptr ? 0 : count});
}

void harpe_client_await_device_times(harpe_client* client, double most) {
  if (client == nullptr || !(most >= 0)) return;
  client->client->await_device_times(harpe::Seconds{std::min(most, 3600.0)});
}

void harpe_client_device_times(harpe_client* client, int64_t iteration, const harpe_span* times,
                               size_t count) {
  if (client == nullptr || times == nullptr) return;
  client->client->on_device_times(iteration,
                                  {reinterpret_cast<const harpe::TimeSpan*>(times), count});
}

int harpe_client_pause_requested(harpe_client* client, int64_t iteration, harpe_pause* pause,
                                 size_t size) {
  harpe_pause asked{};
  if (client == nullptr) return 0;
  const auto requested = client->client->pause_requested(iteration);
  if (!requested) return 0;
  asked.until = requested->until.value_or(harpe::Seconds{0}).value;
  say(requested->why, asked.why, sizeof asked.why);
  if (pause != nullptr) std::memcpy(pause, &asked, std::min(size, sizeof asked));
  return 1;
}

int harpe_client_wait_for_resume(harpe_client* client, double most) {
  if (client == nullptr) return 1;
  const bool has_limit = most >= 0;
  return (has_limit ? client->client->wait_for_resume(harpe::Seconds{most})
                    : client->client->wait_for_resume())
             ? 1
             : 0;
}

int64_t harpe_client_now(void) {
  return harpe::system_clock().now().ns;
}

int harpe_client_registered(const harpe_client* client) {
  return client != nullptr && client->client->registered() ? 1 : 0;
}

void harpe_client_get_counts(const harpe_client* client, harpe_client_counts* counts, size_t size) {
  harpe_client_counts all{};
  if (client != nullptr) {
    const harpe::RankClient::Counts from = client->client->counts();
    all = {from.iterations,  from.instructions, from.clock_changes, from.asked_ahead,
           from.unexpected,  from.unknown,      from.reports_sent,  from.reports_dropped,
           from.events_lost, from.version};
  }
  if (counts != nullptr) std::memcpy(counts, &all, std::min(size, sizeof all));
}

}  // extern "C"
