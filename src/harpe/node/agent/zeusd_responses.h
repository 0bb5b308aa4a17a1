#pragma once
/// \file
/// What zeusd's routes for GPUs and CPUs share: parameters that name devices, and answers in
/// zeusd's form.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/net/http/http_query.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/http_gather.h"
#include "harpe/node/agent/http_json.h"

namespace harpe {

int zeusd_status(ErrorCode code);

/// Errors of several devices: all their texts, and the largest status.
class DeviceErrors {
 public:
  void add(int device, const Error& error);
  bool empty() const { return texts_.empty(); }
  HttpResponse response() const;

 private:
  std::map<int, std::string> texts_;
  int status_ = 0;
};

HttpResponse bad_query(const Error& error);

/// The indices in an optional parameter; nullopt: all.
Result<std::optional<std::vector<int>>> optional_indices(const HttpQuery& query,
                                                         const std::string& name,
                                                         const std::string& noun);

std::optional<int> first_unknown(const std::vector<int>& indices, std::size_t count);
/// The response of a stream that is asked for devices beyond `count`.
HttpResponse unknown_indices(const std::string& noun, const std::vector<int>& asked,
                             std::size_t count);

HttpResponse event_stream(std::shared_ptr<EventStream> stream);

/// Asks for one thing of each device and answers when all have answered.
/// \param ask  (gpu, done); \param answer  (results without an error) to a document
template <class T, class Ask, class Respond>
void read_all(const std::vector<int>& devices, const Reply& reply, const Ask& ask,
              Respond respond) {
  if (devices.empty()) return reply(json_response(200, respond({})));
  const auto gather =
      Gather<T>::of(devices.size(), [reply, respond](typename Gather<T>::Results results) {
        DeviceErrors errors;
        std::map<int, T> values;
        for (auto& [device, result] : results) {
          if (result.ok()) {
            values.emplace(device, *std::move(result));
          } else {
            errors.add(device, result.error());
          }
        }
        reply(errors.empty() ? json_response(200, respond(std::move(values))) : errors.response());
      });
  for (const int device : devices) ask(device, gather->slot(device));
}

}  // namespace harpe
