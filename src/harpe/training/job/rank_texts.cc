#include "harpe/training/job/rank_texts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;
using Type = JsonValue::Type;

/// Lists of clocks; one that a stage before has, too, is that stage's number.
Json clock_lists_json(const JobShape& shape, const RankBook& ranks) {
  Json lists = Json::array();
  std::map<std::vector<Megahertz>, int> known;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto [same, is_new] = known.emplace(ranks.clocks(stage), stage);
    lists.push_back(is_new ? clocks_json(ranks.clocks(stage)) : Json(same->second));
  }
  return lists;
}

std::vector<std::vector<Megahertz>> read_clock_lists(Fields& fields, std::string_view key,
                                                     std::size_t size) {
  std::vector<std::vector<Megahertz>> lists(size);
  const JsonValue* value = fields.any(key);
  if (value == nullptr || value->type != Type::kArray || value->items.size() != size) {
    fields.error(key, "expected " + std::to_string(size) + " lists of clocks");
    return lists;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const JsonValue& list = value->items[i];
    if (list.is_integer && list.integer >= 0 && list.integer < static_cast<std::int64_t>(i)) {
      lists[i] = lists[static_cast<std::size_t>(list.integer)];
      continue;
    }
    for (const JsonValue& item : list.items) {
      if (!item.is_integer || item.integer < 1 || item.integer > kHighestClock) {
        fields.error(key, "a clock is a whole number of MHz from 1 to 100000");
        return lists;
      }
      lists[i].push_back({static_cast<int>(item.integer)});
    }
  }
  return lists;
}

/// Reads a holder from an item that is not null.
bool read_holder(const JsonValue& item, const std::vector<std::string>& gpus,
                 RankBook::Holder& holder) {
  if (item.type != Type::kArray || item.items.size() < 2 || item.items[0].type != Type::kString ||
      !item.items[1].is_integer) {
    return false;
  }
  const auto gpu = static_cast<std::uint64_t>(item.items[1].integer);
  if (gpu >= gpus.size()) return false;
  holder.session = item.items[0].string;
  holder.gpu = gpus[gpu];
  holder.ended = item.items.size() > 2 && item.items[2].number == 1;
  if (item.items.size() > 3) holder.power_limit.value = std::max(0.0, item.items[3].number);
  holder.asks_ahead = item.items.size() > 4 && item.items[4].number == 1;
  return true;
}

}  // namespace

std::string holders_part(std::size_t part) {
  return "ranks " + std::to_string(part);
}

Json ranks_json(const JobShape& shape, const RankBook& ranks) {
  Json json = {{"run", ranks.run()}, {"clocks_mhz", clock_lists_json(shape, ranks)}};
  if (ranks.has_simulated()) json["simulated"] = true;
  return json;
}

std::string holders_text(const RankBook& ranks, std::size_t part) {
  const std::size_t first = part * RankHolders::kOfPart;
  const std::size_t last = first + ranks.holders().size_of_part(part);
  Json list = Json::array(), gpus = Json::array();
  std::map<std::string, std::size_t> names;
  for (std::size_t i = first; i < last; ++i) {
    const RankBook::Holder& holder = ranks.holders()[i];
    if (!holder.registered()) {
      list.push_back(nullptr);
      continue;
    }
    const auto [name, is_new] = names.emplace(holder.gpu, names.size());
    if (is_new) gpus.push_back(holder.gpu);
    list.push_back({holder.session, name->second});
    const bool has_limit = holder.power_limit > Watts{0};
    const bool asks = holder.asks_ahead;
    if (holder.ended || has_limit || asks) list.back().push_back(holder.ended ? 1 : 0);
    if (has_limit || asks) list.back().push_back(holder.power_limit.value);
    if (asks) list.back().push_back(1);
  }
  return json_line({{"gpus", std::move(gpus)}, {"ranks", std::move(list)}});
}

Status read_holders(const std::string& text, std::size_t part, RankHolders& holders) {
  const JsonValue document = HARPE_TRY(parse_json(text, "ranks"));
  return read_object(
      document, "ranks", "ranks", Unknown::kIgnored, [&](Fields& fields, Diagnostics&) {
        const auto gpus = fields.texts("gpus").value_or(std::vector<std::string>());
        const JsonValue* list = fields.any("ranks");
        const std::size_t first = part * RankHolders::kOfPart;
        const std::size_t size = holders.size_of_part(part);
        bool good = list != nullptr && list->type == Type::kArray && list->items.size() == size;
        for (std::size_t i = 0; good && i < size; ++i) {
          const JsonValue& item = list->items[i];
          good = item.type == Type::kNull || read_holder(item, gpus, holders.place(first + i));
        }
        if (!good) fields.error("ranks", "expected one for each rank");
      });
}

void read_ranks(const JsonValue& object, Diagnostics& diagnostics, const JobShape& shape,
                RankHolders holders, Seconds heard, RankBook& ranks) {
  Fields fields(object, "ranks", diagnostics);
  std::string run = fields.text("run").value_or("");
  auto clocks = read_clock_lists(fields, "clocks_mhz", static_cast<std::size_t>(shape.stages));
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const std::size_t stage = i / shape.tensor % shape.stages;
    if (!holders[i].registered()) continue;
    if (clocks[stage].empty()) {
      return fields.error("clocks_mhz", "a stage with ranks has no clocks");
    }
    // Who had been silent by then is not kept: see `RankBook::count_silence_from`.
    holders.place(i).heard = heard;
  }
  ranks.restore(std::move(run), std::move(holders), std::move(clocks),
                fields.boolean("simulated").value_or(false));
}

}  // namespace harpe
