#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/certificate.h"

namespace harpe {
namespace {

using Type = JsonValue::Type;

/// The lists of a certificate by their names in the file.
struct ListField {
  const char* key;
  std::vector<std::int64_t> Certificate::* list;
};
constexpr ListField kLists[] = {
    {"node_flow", &Certificate::node_flow},
    {"dependency_flow", &Certificate::dependency_flow},
    {"source_flow", &Certificate::source_flow},
    {"sink_flow", &Certificate::sink_flow},
    {"start", &Certificate::start},
    {"end", &Certificate::end},
};

/// Keys that are optional.
constexpr const char* kLongestList = "longest";
constexpr const char* kLoops = "loops";
constexpr const char* kTransfers = "transfers";
constexpr const char* kLossUnit = "loss_unit_j";
constexpr const char* kLatency = "latency";
constexpr double kLongestLatency = 1e6;  // s

class CertificateReader {
 public:
  explicit CertificateReader(const std::string& file) : diagnostics_(file) {}

  Result<Certificate> read(const JsonValue& root) {
    read_document(root);
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(certificate_);
  }

 private:
  void read_document(const JsonValue& root) {
    if (root.type != Type::kObject) return add(root, "expected a certificate, an object");
    const JsonValue* format = root.find("format");
    if (format == nullptr || format->string != "harpe.certificate/1") {
      return add(format == nullptr ? root : *format,
                 "expected \"format\": \"harpe.certificate/1\"");
    }
    check_keys(root);
    certificate_.deadline.value = positive(root, "deadline_s");
    certificate_.flow_unit.value = positive(root, "flow_unit_w");
    certificate_.time_unit.value = positive(root, "time_unit_s");
    for (const ListField& field : kLists) read_list(root, field.key, certificate_.*field.list);
    if (root.find(kLongestList) != nullptr) read_list(root, kLongestList, certificate_.longest);
    if (const JsonValue* loops = root.find(kLoops)) read_loops(*loops);
    if (const JsonValue* transfers = root.find(kTransfers)) {
      certificate_.loss_unit.value = positive(root, kLossUnit);
      read_transfers(*transfers);
    }
    if (const JsonValue* latency = root.find(kLatency)) read_latency(*latency);
  }

  void read_latency(const JsonValue& list) {
    const std::size_t before = diagnostics_.count();
    std::vector<LatencyByClock::Entry> entries;
    const auto is_pair = [](const JsonValue& item) {
      return item.type == Type::kArray && item.items.size() == 2 && item.items[0].is_integer &&
             item.items[1].type == Type::kNumber;
    };
    if (list.type != Type::kArray || list.items.empty())
      return add(list, "expected a list of [MHz, seconds]");
    for (const JsonValue& item : list.items) {
      if (!is_pair(item)) {
        add(item, "expected [MHz, seconds]");
        continue;
      }
      const std::int64_t clock = item.items[0].integer;
      const double latency = item.items[1].number;
      if (clock < 0 || clock > kHighestClock) add(item, "expected a clock from 0 MHz");
      if (!(latency >= 0 && latency <= kLongestLatency)) add(item, "expected seconds from 0");
      const Megahertz of{static_cast<int>(std::clamp<std::int64_t>(clock, 0, kHighestClock))};
      if (std::ranges::find(entries, of, &LatencyByClock::Entry::clock) != entries.end())
        add(item, "this clock appears twice");
      entries.push_back({of, Seconds{latency}});
    }
    if (diagnostics_.count() == before) certificate_.latency = LatencyByClock(std::move(entries));
  }

  void check_keys(const JsonValue& root) {
    for (const auto& [key, value] : root.members) {
      const bool known = key == "format" || key == "deadline_s" || key == "flow_unit_w" ||
                         key == "time_unit_s" || key == kLongestList || key == kLoops ||
                         key == kTransfers || key == kLossUnit || key == kLatency ||
                         std::ranges::any_of(kLists, [&](const auto& f) { return key == f.key; });
      if (!known) add(value, "unknown key " + in_quotes(key));
    }
  }

  const JsonValue* member(const JsonValue& root, const char* key) {
    const JsonValue* value = root.find(key);
    if (value == nullptr) add(root, "\"" + std::string(key) + "\" is missing");
    return value;
  }

  double positive(const JsonValue& root, const char* key) {
    const JsonValue* value = member(root, key);
    if (value == nullptr) return 0;
    if (value->type == Type::kNumber && value->number > 0) return value->number;
    return add(*value, "expected a number above 0"), 0;
  }

  void read_list(const JsonValue& root, const char* key, std::vector<std::int64_t>& list) {
    const JsonValue* value = member(root, key);
    if (value == nullptr) return;
    if (value->type != Type::kArray) return add(*value, "expected a list of integers");
    list.reserve(value->items.size());
    for (const JsonValue& item : value->items) {
      if (!item.is_integer || item.integer < 0) add(item, "expected an integer from 0");
      list.push_back(item.integer);
    }
  }

  void read_loops(const JsonValue& loops) {
    if (loops.type != Type::kArray) return add(loops, "expected a list of loops");
    certificate_.loops.reserve(loops.items.size());
    for (const JsonValue& item : loops.items) {
      if (item.type != Type::kArray || item.items.size() != 2)
        return add(item, "expected two paths");
      CertificateLoop& loop = certificate_.loops.emplace_back();
      for (std::size_t side = 0; side < 2; ++side) {
        if (!read_numbers(item.items[side], loop.paths[side])) return;
      }
    }
  }

  void read_transfers(const JsonValue& transfers) {
    if (transfers.type != Type::kArray) return add(transfers, "expected a list of transfers");
    certificate_.transfers.reserve(transfers.items.size());
    for (const JsonValue& item : transfers.items) {
      if (item.type != Type::kArray || item.items.size() != 3)
        return add(item, "expected [arc, giver, taker], times and losses");
      std::vector<int> ends;
      if (!read_numbers(item.items[0], ends)) return;
      if (ends.size() != 3) return add(item.items[0], "expected an arc and two loops");
      LossTransfer& transfer = certificate_.transfers.emplace_back();
      transfer.arc = ends[0];
      transfer.giver = ends[1];
      transfer.taker = ends[2];
      if (!read_integers(item.items[1], transfer.from)) return;
      if (!read_integers(item.items[2], transfer.moved)) return;
      if (transfer.from.size() != transfer.moved.size())
        return add(item.items[2], "expected as many losses as times");
    }
  }

  bool read_integers(const JsonValue& value, std::vector<std::int64_t>& integers) {
    if (value.type != Type::kArray || !std::ranges::all_of(value.items, &JsonValue::is_integer)) {
      add(value, "expected a list of integers");
      return false;
    }
    for (const JsonValue& item : value.items) integers.push_back(item.integer);
    return true;
  }

  bool read_numbers(const JsonValue& value, std::vector<int>& numbers) {
    const auto is_number = [](const JsonValue& item) {
      return item.is_integer && item.integer >= 0 &&
             item.integer <= std::numeric_limits<int>::max();
    };
    if (value.type != Type::kArray || !std::ranges::all_of(value.items, is_number)) {
      add(value, "expected a list of numbers of arcs or loops");
      return false;
    }
    for (const JsonValue& item : value.items) numbers.push_back(static_cast<int>(item.integer));
    return true;
  }

  void add(const JsonValue& value, std::string message) {
    diagnostics_.add(value.line, value.column, std::move(message));
  }

  Diagnostics diagnostics_;
  Certificate certificate_;
};

/// \param a_line  items per line; 0: all on one line
template <class Items, class Text>
std::string list_json(const Items& items, Text text, std::size_t a_line = 0) {
  std::string list = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) list += a_line > 0 && i % a_line == 0 ? ",\n  " : ", ";
    list += text(items[i]);
  }
  return list + ']';
}

template <class Numbers>
std::string numbers_json(const Numbers& numbers, std::size_t a_line = 0) {
  return list_json(numbers, [](auto number) { return std::to_string(number); }, a_line);
}

std::string loop_json(const CertificateLoop& loop) {
  return '[' + numbers_json(loop.paths[0]) + ", " + numbers_json(loop.paths[1]) + ']';
}

std::string latency_json(const LatencyByClock::Entry& entry) {
  return '[' + std::to_string(entry.clock.value) + ", " + shortest(entry.latency.value) + ']';
}

std::string transfers_json(const Certificate& certificate) {
  std::string text = ",\n \"" + std::string(kLossUnit) +
                     "\": " + shortest(certificate.loss_unit.value) + ", \"" + kTransfers + "\": [";
  const char* separator = "\n  ";
  for (const LossTransfer& t : certificate.transfers) {
    text += std::exchange(separator, ",\n  ");
    text += '[' + numbers_json(std::array{t.arc, t.giver, t.taker}) + ", " + numbers_json(t.from) +
            ", " + numbers_json(t.moved) + ']';
  }
  return text + ']';
}

}  // namespace

std::string certificate_json(const Certificate& certificate) {
  constexpr std::size_t kNumbersALine = 12, kLoopsALine = 5;
  std::string text = "{\"format\": \"harpe.certificate/1\",\n \"deadline_s\": " +
                     shortest(certificate.deadline.value) +
                     ", \"flow_unit_w\": " + shortest(certificate.flow_unit.value) +
                     ", \"time_unit_s\": " + shortest(certificate.time_unit.value);

  const auto add = [&](const std::string& key, const std::string& list) {
    text += ",\n \"" + key + "\": " + list;
  };
  for (const ListField& field : kLists)
    add(field.key, numbers_json(certificate.*field.list, kNumbersALine));
  if (!certificate.longest.empty())
    add(kLongestList, numbers_json(certificate.longest, kNumbersALine));
  if (!certificate.loops.empty()) add(kLoops, list_json(certificate.loops, loop_json, kLoopsALine));
  if (!certificate.transfers.empty()) text += transfers_json(certificate);
  if (certificate.latency) add(kLatency, list_json(certificate.latency->entries(), latency_json));
  return text + "}\n";
}

Result<Certificate> parse_certificate_json(std::string_view text, const std::string& file) {
  const auto root = HARPE_TRY(parse_json(text, file));
  return CertificateReader(file).read(root);
}

}  // namespace harpe
