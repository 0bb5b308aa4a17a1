#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/instruction/knobs_json.h"
#include "harpe/plan/instruction/likely_instruction.h"

namespace harpe {
namespace {

using Type = JsonValue::Type;

constexpr std::int64_t kMostGpus = 1'000'000;
constexpr double kLongest = 1e9;      // s
constexpr double kMostEnergy = 1e18;  // J
constexpr double kMostPower = 1e9;    // W

std::string number(double value) {
  return std::isfinite(value) ? shortest(value) : "null";
}

template <class List, class Text>
std::string list_text(const List& list, Text text) {
  std::string all = "[";
  for (const auto& item : list) all += (all.size() > 1 ? ", " : "") + text(item);
  return all + "]";
}

template <class Unit>
std::string list_text(const std::vector<Unit>& list) {
  return list_text(list, [](const Unit& value) { return number(value.value); });
}

std::string instruction_text(const PlannedInstruction& i) {
  std::string text = "{\"name\": \"" + std::string(name(i.kind)) +
                     "\", \"microbatch\": " + std::to_string(i.micro_batch) +
                     ", \"chunk\": " + std::to_string(i.chunk);
  if (i.kind == InstructionKind::kForwardBackward) {
    text += ", \"backward_microbatch\": " + std::to_string(i.backward_micro_batch) +
            ", \"backward_chunk\": " + std::to_string(i.backward_chunk);
  }
  if (i.gradient) text += ", \"gradient\": true";
  if (i.fused_with_next) text += ", \"fused_with_next\": true";
  const std::string clock = i.clock == Megahertz{0} ? "null" : std::to_string(i.clock.value);
  const std::string knobs = i.knobs.empty() ? "" : ", " + plan::knobs_members(i.knobs);
  return text + ", \"frequency_mhz\": " + clock + knobs +
         ", \"start_s\": " + number(i.start.value) + ", \"time_s\": " + number(i.time.value) +
         ", \"energy_j\": " + number(i.energy.value) + "}";
}

/// Returns the text without spaces. Names and labels have none.
std::string dense_instruction_text(const PlannedInstruction& i) {
  std::string text = instruction_text(i);
  std::erase(text, ' ');
  return text;
}

bool is_large(const Plan& plan) {
  constexpr std::size_t kMostSpaced = 16'384;
  std::size_t count = 0;
  for (const auto& list : plan.instructions) count += list.size();
  return count > kMostSpaced;
}

std::string transfers_text(const Transfers& transfers) {
  const bool rendezvous = transfers.mode == Transfers::Mode::kRendezvous;
  return std::string("{\"mode\": \"") + (rendezvous ? "rendezvous" : "overlapped") +
         "\", \"forward_s\": " + list_text(transfers.forward) +
         ", \"backward_s\": " + list_text(transfers.backward) + "}";
}

/// A reader of plans from JSON documents, which collects all diagnostics.
class PlanReader {
 public:
  explicit PlanReader(const std::string& file) : diagnostics_(file) {}

  Result<Plan> read(const JsonValue& root) {
    read_document(root);
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(plan_);
  }

 private:
  void read_document(const JsonValue& root) {
    if (root.type != Type::kObject) return add(root, "expected a plan, an object");
    const JsonValue* format = root.find("format");
    if (format == nullptr || format->string != "harpe.plan/1") {
      return add(format == nullptr ? root : *format, "expected \"format\": \"harpe.plan/1\"");
    }
    check_keys(root,
               {"format", "job", "schedule", "stages", "microbatches", "chunks", "gpus_per_stage",
                "blocking_power_w", "transfers", "placement", "copies", "synthetic",
                "iteration_time_s", "iteration_energy_j", "lower_bound_j", "instructions"});
    plan_.job = string(root, "job");
    plan_.schedule = string(root, "schedule");
    plan_.synthetic = flag(root, "synthetic");
    plan_.stages = integer(root, "stages", 1, kMaxInstructions);
    plan_.micro_batches = integer(root, "microbatches", 1, kMaxInstructions);
    plan_.chunks = integer(root, "chunks", 1, kMaxInstructions, 1);
    plan_.copies = integer(root, "copies", 1, kMaxInstructions, 1);
    plan_.gpus_per_stage = integer(root, "gpus_per_stage", 1, kMostGpus, 1);
    plan_.iteration_time.value = real(root, "iteration_time_s", 0, kLongest);
    plan_.iteration_energy.value = real(root, "iteration_energy_j", -kMostEnergy, kMostEnergy);
    if (root.find("lower_bound_j") != nullptr) {
      plan_.lower_bound.value = real(root, "lower_bound_j", -kMostEnergy, kMostEnergy);
    }
    read_powers(root);
    const JsonValue* instructions = member(root, "instructions", Type::kArray, "a list");
    if (instructions == nullptr || !has_one_a_stage(*instructions, "list of instructions")) return;
    if (!read_placement(root, *instructions)) return;
    if (const JsonValue* transfers = root.find("transfers")) read_transfers(*transfers);
    for (std::size_t stage = 0; stage < instructions->items.size(); ++stage) {
      read_list(instructions->items[stage], chunks_of_[stage]);
    }
  }

  void read_powers(const JsonValue& root) {
    const JsonValue* powers = member(root, "blocking_power_w", Type::kArray, "a list");
    if (powers == nullptr || !has_one_a_stage(*powers, "power")) return;
    for (const JsonValue& power : powers->items) {
      plan_.blocking_power.push_back({real(power, 0, kMostPower)});
    }
  }

  /// Reads the placement of the parts and counts the parts of each stage. Returns false if the
  /// instructions cannot be read without them.
  bool read_placement(const JsonValue& root, const JsonValue& instructions) {
    const auto stages = static_cast<std::int64_t>(instructions.items.size());
    if (const JsonValue* placement = root.find("placement")) {
      if (!expect(*placement, Type::kArray, "a list")) return false;
      for (const JsonValue& stage : placement->items) {
        plan_.placement.push_back(integer(stage, 0, stages - 1));
      }
    } else {
      std::int64_t count = 0;
      for (const JsonValue& list : instructions.items) {
        count += static_cast<std::int64_t>(list.items.size());
      }
      if (plan_.chunks > count / stages) {
        add(root, "there are fewer instructions than chunks");
        return false;
      }
      for (std::int64_t part = 0; part < plan_.chunks * stages; ++part) {
        plan_.placement.push_back(static_cast<int>(part % stages));
      }
    }
    const auto parts = static_cast<std::int64_t>(plan_.placement.size());
    if (parts / stages != plan_.chunks) {
      add(root, "\"placement\" has " + std::to_string(parts) +
                    " parts, not \"chunks\" for each of " + std::to_string(stages) + " stages");
    }
    chunks_of_.assign(instructions.items.size(), 0);
    for (const int stage : plan_.placement) ++chunks_of_[stage];
    return true;
  }

  void read_transfers(const JsonValue& transfers) {
    if (!expect(transfers, Type::kObject, "an object")) return;
    check_keys(transfers, {"mode", "forward_s", "backward_s"});
    const JsonValue* mode = member(transfers, "mode", Type::kString, "a string");
    if (mode != nullptr) {
      if (mode->string == "rendezvous") {
        plan_.transfers.mode = Transfers::Mode::kRendezvous;
      } else if (mode->string != "overlapped") {
        add(*mode, "expected \"overlapped\" or \"rendezvous\"");
      }
    }
    read_times(transfers, "forward_s", plan_.transfers.forward);
    read_times(transfers, "backward_s", plan_.transfers.backward);
  }

  void read_times(const JsonValue& transfers, const char* key, std::vector<Seconds>& times) {
    const JsonValue* list = transfers.find(key);
    if (list == nullptr || !expect(*list, Type::kArray, "a list")) return;
    const std::size_t boundaries = plan_.placement.empty() ? 0 : plan_.placement.size() - 1;
    if (!list->items.empty() && list->items.size() != boundaries) {
      add(*list, "expected " + std::to_string(boundaries) +
                     " times, one between each two neighbouring model parts, found " +
                     std::to_string(list->items.size()));
    }
    for (const JsonValue& time : list->items) times.push_back({real(time, 0, 1e6)});
  }

  void read_list(const JsonValue& list, int chunks) {
    auto& instructions = plan_.instructions.emplace_back();
    if (!expect(list, Type::kArray, "the instructions of a stage")) return;
    if (list.items.empty()) add(list, "a stage needs at least one instruction");
    instructions.reserve(list.items.size());
    for (const JsonValue& item : list.items) instructions.push_back(read_instruction(item, chunks));
  }

  PlannedInstruction read_instruction(const JsonValue& item, int chunks) {
    PlannedInstruction i;
    if (!expect(item, Type::kObject, "an instruction")) return i;
    const JsonValue* what = member(item, "name", Type::kString, "a string");
    if (what == nullptr) return i;
    const auto kind = instruction_kind(what->string);
    if (!kind) {
      const auto likely = plan::likely_instruction(what->string);
      add(*what, "unknown instruction " + in_quotes(what->string) +
                     (likely ? "; did you mean '" + *likely + "'?" : ""));
      return i;
    }
    i.kind = *kind;
    const bool fixed_time = is_fixed_time(*kind);
    i.micro_batch = integer(item, "microbatch", fixed_time ? -1 : 0, plan_.micro_batches - 1);
    i.chunk = integer(item, "chunk", 0, chunks - 1, 0);
    i.start.value = real(item, "start_s", 0, kLongest);
    i.time.value = real(item, "time_s", 0, kLongest);
    i.energy.value = real(item, "energy_j", 0, kMostEnergy);
    if (const JsonValue* clock = item.find("frequency_mhz")) {
      if (clock->type != Type::kNull) i.clock.value = integer(*clock, 1, kHighestClock);
      if (fixed_time && i.clock.value != 0) {
        add(*clock, "an instruction of fixed time has no clock: expected null");
      }
    } else {
      add(item, "\"frequency_mhz\" is missing");
    }
    read_rest(item, chunks, i);
    return i;
  }

  /// Reads the members that only some kinds have.
  void read_rest(const JsonValue& item, int chunks, PlannedInstruction& i) {
    std::vector<std::string_view> keys = {"name",    "microbatch", "chunk",    "frequency_mhz",
                                          "start_s", "time_s",     "energy_j", "fused_with_next"};
    i.fused_with_next = flag(item, "fused_with_next");
    if (i.kind == InstructionKind::kForwardBackward) {
      keys.insert(keys.end(), {"backward_microbatch", "backward_chunk"});
      i.backward_micro_batch = integer(item, "backward_microbatch", 0, plan_.micro_batches - 1);
      i.backward_chunk = integer(item, "backward_chunk", 0, chunks - 1);
    }
    if (i.kind == InstructionKind::kSend || i.kind == InstructionKind::kRecv) {
      keys.emplace_back("gradient");
      i.gradient = flag(item, "gradient");
    }
    if (!is_fixed_time(i.kind)) {
      keys.insert(keys.end(), {"memory_frequency_mhz", "power_limit_w", "label"});
      Fields fields(item, "an instruction", diagnostics_);
      i.knobs = plan::read_knobs(fields);
      if (!i.knobs.empty() && i.clock.value == 0) {
        add(item,
            "an instruction without a clock cannot have a memory clock, power limit or label");
      }
    }
    check_keys(item, keys);
  }

  bool has_one_a_stage(const JsonValue& list, const std::string& what) {
    if (plan_.stages > 0 && static_cast<std::int64_t>(list.items.size()) == plan_.stages) {
      return true;
    }
    // If "stages" is missing, only that error is reported.
    if (plan_.stages > 0) {
      add(list, "expected one " + what + " for each of the " + std::to_string(plan_.stages) +
                    " stages, found " + std::to_string(list.items.size()));
    }
    return false;
  }

  bool expect(const JsonValue& value, Type type, const char* what) {
    if (value.type == type) return true;
    add(value, std::string("expected ") + what);
    return false;
  }

  const JsonValue* member(const JsonValue& object, const char* key, Type type, const char* what) {
    const JsonValue* value = object.find(key);
    if (value == nullptr) return add(object, "\"" + std::string(key) + "\" is missing"), nullptr;
    return expect(*value, type, what) ? value : nullptr;
  }

  bool flag(const JsonValue& object, const char* key) {
    const JsonValue* value = object.find(key);
    return value != nullptr && expect(*value, Type::kBool, "true or false") && value->boolean;
  }

  static std::string expected(const char* key) {
    return "expected \"" + std::string(key) + "\" to be";
  }

  std::string string(const JsonValue& object, const char* key) {
    const JsonValue* value = object.find(key);
    if (value == nullptr || !expect(*value, Type::kString, "a string")) return {};
    return value->string;
  }

  int integer(const JsonValue& value, std::int64_t least, std::int64_t most,
              const std::string& what = "expected") {
    if (value.is_integer && value.integer >= least && value.integer <= most) {
      return static_cast<int>(value.integer);
    }
    add(value, what + " an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return 0;
  }

  int integer(const JsonValue& object, const char* key, std::int64_t least, std::int64_t most,
              std::optional<int> otherwise = {}) {
    const JsonValue* value = object.find(key);
    if (value != nullptr) return integer(*value, least, most, expected(key));
    if (!otherwise) add(object, "\"" + std::string(key) + "\" is missing");
    return otherwise.value_or(0);
  }

  double real(const JsonValue& value, double least, double most,
              const std::string& what = "expected") {
    if (value.type == Type::kNumber && value.number >= least && value.number <= most) {
      return value.number + 0.0;  // turns -0 into 0, which reads back the same
    }
    add(value, what + " a number from " + shortest(least) + " to " + shortest(most));
    return 0;
  }

  double real(const JsonValue& object, const char* key, double least, double most) {
    const JsonValue* value = object.find(key);
    if (value != nullptr) return real(*value, least, most, expected(key));
    add(object, "\"" + std::string(key) + "\" is missing");
    return 0;
  }

  void check_keys(const JsonValue& object, const std::vector<std::string_view>& known) {
    for (const auto& [key, value] : object.members) {
      if (std::ranges::find(known, key) == known.end()) {
        add(value, "unknown key " + in_quotes(key));
      }
    }
  }

  void add(const JsonValue& value, std::string message) {
    diagnostics_.add(value.line, value.column, std::move(message));
  }

  Diagnostics diagnostics_;
  Plan plan_;
  std::vector<int> chunks_of_;  // per stage
};

}  // namespace

std::string plan_json(const Plan& plan) {
  std::string text = "{\"format\": \"harpe.plan/1\", \"job\": " + json_line(plan.job) +
                     ", \"schedule\": " + json_line(plan.schedule) +
                     ", \"stages\": " + std::to_string(plan.stages) +
                     ", \"microbatches\": " + std::to_string(plan.micro_batches) +
                     ", \"chunks\": " + std::to_string(plan.chunks) +
                     ",\n \"gpus_per_stage\": " + std::to_string(plan.gpus_per_stage) +
                     ", \"blocking_power_w\": " + list_text(plan.blocking_power) + ",\n";
  if (plan.transfers != Transfers{})
    text += " \"transfers\": " + transfers_text(plan.transfers) + ",\n";
  if (!is_looped(plan.placement, plan.stages, plan.chunks)) {
    text += " \"placement\": " +
            list_text(plan.placement, [](int stage) { return std::to_string(stage); }) + ",\n";
  }
  if (plan.synthetic) text += " \"synthetic\": true,\n";
  if (plan.copies != 1) text += " \"copies\": " + std::to_string(plan.copies) + ",\n";
  text += " \"iteration_time_s\": " + number(plan.iteration_time.value) +
          ", \"iteration_energy_j\": " + number(plan.iteration_energy.value);
  if (plan.lower_bound.value != 0) {
    text += ", \"lower_bound_j\": " + number(plan.lower_bound.value);
  }
  text += ",\n \"instructions\": [";
  const bool dense = is_large(plan);
  const char* before_list = "";
  for (const auto& list : plan.instructions) {
    text += std::exchange(before_list, ",");
    const char* before_instruction = "\n  [";
    for (const PlannedInstruction& i : list) {
      text += std::exchange(before_instruction, dense ? ",\n" : ",\n   ");
      text += dense ? dense_instruction_text(i) : instruction_text(i);
    }
    text += list.empty() ? "\n  []" : "]";
  }
  return text + "\n ]}\n";
}

Result<Plan> parse_plan_json(std::string_view text, const std::string& file) {
  const auto root = HARPE_TRY(parse_json(text, file));
  return PlanReader(file).read(root);
}

Result<Plan> read_plan(const std::filesystem::path& path) {
  const auto text = HARPE_TRY(read_file(path));
  return parse_plan_json(text, path.string());
}

}  // namespace harpe
