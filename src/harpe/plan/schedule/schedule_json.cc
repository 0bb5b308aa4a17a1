#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "harpe/base/json.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/instruction/likely_instruction.h"
#include "harpe/plan/schedule/check.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

using Type = JsonValue::Type;

class JsonReader {
 public:
  explicit JsonReader(const std::string& file) : diagnostics_(file) {}

  Result<Schedule> read(const JsonValue& root) {
    schedule_.name = "custom";
    if (root.type == Type::kArray) {
      read_ranks(root);
    } else {
      read_document(root);
    }
    if (diagnostics_.empty()) plan::infer_sizes(schedule_, locations_, diagnostics_);
    if (diagnostics_.empty()) plan::check_schedule(schedule_, &locations_, diagnostics_);
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(schedule_);
  }

 private:
  void read_document(const JsonValue& root) {
    if (root.type != Type::kObject) {
      return add(root, "expected an object with \"ranks\", or the list of ranks");
    }
    check_keys(root, {"name", "ranks", "placement", "copies"});
    if (const JsonValue* name = root.find("name")) {
      if (name->type != Type::kString) add(*name, "expected the name of the schedule as a string");
      schedule_.name = name->string;
    }
    if (const JsonValue* copies = root.find("copies")) {
      schedule_.copies = integer(*copies, "copies", 1);
    }
    if (const JsonValue* placement = root.find("placement")) {
      if (placement->type != Type::kArray || placement->items.empty()) {
        add(*placement, "expected the list of the stages of model part 0, 1, ...");
      }
      for (const JsonValue& stage : placement->items) {
        schedule_.placement.push_back(integer(stage, "stage", 0));
      }
    }
    const JsonValue* ranks = root.find("ranks");
    if (ranks == nullptr) return add(root, "\"ranks\" is missing");
    read_ranks(*ranks);
  }

  void read_ranks(const JsonValue& ranks) {
    if (ranks.type != Type::kArray || ranks.items.empty()) {
      return add(ranks, "expected a list of instructions for each stage");
    }
    for (const JsonValue& rank : ranks.items) {
      auto& list = schedule_.lists.emplace_back();
      auto& locations = locations_.emplace_back();
      if (rank.type != Type::kArray || rank.items.empty()) {
        add(rank, "expected the list of the instructions of this stage");
      }
      for (const JsonValue& item : rank.items) {
        list.push_back(read_instruction(item));
        locations.push_back({item.line, item.column});
      }
    }
  }

  Instruction read_instruction(const JsonValue& item) {
    Instruction instruction;
    if (item.type != Type::kObject) {
      add(item, "expected an instruction such as {\"op\": \"forward\", \"stage\": 0, \"mb\": 0}");
      return instruction;
    }
    const JsonValue* op = item.find("op");
    const auto kind =
        op == nullptr || op->type != Type::kString ? std::nullopt : instruction_kind(op->string);
    if (!kind) {
      add_unknown_op(item, op);
      return instruction;
    }
    instruction.kind = *kind;
    std::vector<std::string> keys = {"op", "stage", "mb"};
    const bool fixed_time = is_fixed_time(*kind);
    read_number(item, "stage", fixed_time, instruction.part);
    read_number(item, "mb", fixed_time, instruction.micro_batch);
    if (*kind == InstructionKind::kForwardBackward) {
      keys.insert(keys.end(), {"backward_stage", "backward_mb"});
      read_number(item, "backward_stage", false, instruction.backward_part);
      read_number(item, "backward_mb", false, instruction.backward_micro_batch);
    }
    if (*kind == InstructionKind::kSend || *kind == InstructionKind::kRecv) {
      keys.emplace_back("gradient");
      if (const JsonValue* gradient = item.find("gradient")) {
        if (gradient->type != Type::kBool) add(*gradient, "expected true or false");
        instruction.gradient = gradient->boolean;
      }
    }
    check_keys(item, keys);
    return instruction;
  }

  void add_unknown_op(const JsonValue& item, const JsonValue* op) {
    if (op == nullptr) return add(item, "\"op\" is missing");
    if (op->type != Type::kString) return add(*op, "expected the kind of the instruction");
    std::string known;
    for (int i = 0; i < kInstructionKinds; ++i) {
      known += known.empty() ? "" : ", ";
      known += name(static_cast<InstructionKind>(i));
    }
    const auto likely = plan::likely_instruction(op->string);
    add(*op, "unknown instruction " + in_quotes(op->string) +
                 (likely ? "; did you mean '" + *likely + "'?" : "; known are " + known));
  }

  void read_number(const JsonValue& item, const char* key, bool optional, int& number) {
    const JsonValue* value = item.find(key);
    if (value != nullptr) {
      number = integer(*value, key, 0);
    } else if (!optional) {
      add(item, "\"" + std::string(key) + "\" is missing");
    }
  }

  int integer(const JsonValue& value, const char* what, int least) {
    if (value.is_integer && value.integer >= least && value.integer < kMaxInstructions) {
      return static_cast<int>(value.integer);
    }
    add(value, "expected \"" + std::string(what) + "\" to be an integer from " +
                   std::to_string(least) + " to " + std::to_string(kMaxInstructions - 1));
    return least;
  }

  void check_keys(const JsonValue& object, const std::vector<std::string>& known) {
    for (const auto& [key, value] : object.members) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string list;
      for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
      add(value, "unknown key " + in_quotes(key) + "; known are " + list);
    }
  }

  void add(const JsonValue& value, std::string message) {
    diagnostics_.add(value.line, value.column, std::move(message));
  }

  Diagnostics diagnostics_;
  Schedule schedule_;
  plan::Locations locations_;
};

nlohmann::ordered_json instruction_json(const Instruction& instruction) {
  nlohmann::ordered_json json = {{"op", name(instruction.kind)}};
  if (instruction.part >= 0) json["stage"] = instruction.part;
  if (instruction.micro_batch >= 0) json["mb"] = instruction.micro_batch;
  if (instruction.kind == InstructionKind::kForwardBackward) {
    json["backward_stage"] = instruction.backward_part;
    json["backward_mb"] = instruction.backward_micro_batch;
  }
  if (instruction.gradient) json["gradient"] = true;
  return json;
}

}  // namespace

Result<Schedule> parse_schedule_json(std::string_view text, const std::string& file) {
  const auto root = HARPE_TRY(parse_json(text, file));
  return read_schedule_json(root, file);
}

Result<Schedule> read_schedule_json(const JsonValue& root, const std::string& file) {
  return JsonReader(file).read(root);
}

std::string schedule_json(const Schedule& schedule) {
  // One instruction per line, so that diagnostics point at it and it can be edited.
  std::string text = "{\"name\": " + json_line(schedule.name) +
                     ",\n \"placement\": " + json_line(schedule.placement) + ",\n";
  if (schedule.copies != 1) text += " \"copies\": " + std::to_string(schedule.copies) + ",\n";
  text += " \"ranks\": [";
  const char* before_list = "";
  for (const auto& list : schedule.lists) {
    text += std::exchange(before_list, ",");
    const char* before_instruction = "\n  [";
    for (const Instruction& instruction : list) {
      text +=
          std::exchange(before_instruction, ",\n   ") + json_line(instruction_json(instruction));
    }
    text += list.empty() ? "\n  []" : "]";
  }
  return text + "\n ]}\n";
}

}  // namespace harpe
