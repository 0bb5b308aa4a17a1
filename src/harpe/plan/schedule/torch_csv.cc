#include <set>
#include <string>
#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/plan/schedule/action_rows.h"
#include "harpe/plan/schedule/check.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

/// The numbers that an action needs: its part and micro-batch.
enum class Numbers {
  kBoth,
  kBothOrNeither,
  kOptional,
};

struct ActionType {
  std::string_view text;
  InstructionKind kind;
  Numbers numbers = Numbers::kOptional;
  bool gradient = false;
};

constexpr std::string_view kInputGradient = "I";
constexpr std::string_view kFullBackward = "B";  // the input gradient in the old dialect
constexpr std::string_view kOldFullBackward = "BW";
constexpr std::string_view kOverlap = "OVERLAP_F_B";

constexpr ActionType kActionTypes[] = {
    {"F", InstructionKind::kForward, Numbers::kBoth},
    {kInputGradient, InstructionKind::kBackward, Numbers::kBoth},
    {kFullBackward, InstructionKind::kBackward, Numbers::kBoth},
    {"W", InstructionKind::kWeight, Numbers::kBoth},
    {kOldFullBackward, InstructionKind::kBackward, Numbers::kBoth},
    {"R", InstructionKind::kRecompute, Numbers::kBoth},
    {"C", InstructionKind::kRecomputeBackward, Numbers::kBoth},
    {"SEND_F", InstructionKind::kSend, Numbers::kBothOrNeither, false},
    {"RECV_F", InstructionKind::kRecv, Numbers::kBothOrNeither, false},
    {"SEND_B", InstructionKind::kSend, Numbers::kBothOrNeither, true},
    {"RECV_B", InstructionKind::kRecv, Numbers::kBothOrNeither, true},
    {"UNSHARD", InstructionKind::kUnshard},
    {"RESHARD", InstructionKind::kReshard},
    {"REDUCE_GRAD", InstructionKind::kReduce},
    {"LOAD", InstructionKind::kLoad},
    {"OPTIMIZER", InstructionKind::kOptimizer},
    {"SWITCH", InstructionKind::kSwitch},
};

std::string known_actions() {
  std::string known;
  for (const ActionType& type : kActionTypes) known += std::string(type.text) + ", ";
  return known + std::string(kOverlap);
}

/// One action as written.
struct Action {
  const ActionType* type = nullptr;
  int part = -1;
  int micro_batch = -1;
  plan::Location location;
};

/// One cell: an action, or a block of two.
struct Cell {
  Action action;
  Action backward;  ///< second half of a block; without a type if there is none
};

class TorchReader {
 public:
  TorchReader(const std::string& file, TorchDialect dialect, int copies)
      : diagnostics_(file), dialect_(dialect) {
    schedule_.name = "custom";
    schedule_.copies = copies;
  }

  Result<Schedule> read_csv(std::string_view text) {
    std::vector<plan::ActionRow> rows;
    for (CsvRow& row : split_csv(text, diagnostics_, true)) {
      auto& [location, cells] = rows.emplace_back(plan::ActionRow{{row.line, 1}, {}});
      for (CsvCell& cell : row.cells) {
        cells.push_back({std::move(cell.text), {row.line, cell.column}});
      }
    }
    while (!rows.empty() && rows.back().cells.empty()) rows.pop_back();
    if (rows.empty() && diagnostics_.empty()) {
      diagnostics_.add(1, 1, "expected a line of actions for each stage, but the file is empty");
    }
    return read(rows);
  }

  Result<Schedule> read_printed(std::string_view text) {
    return read(plan::split_printed_lists(text, diagnostics_));
  }

 private:
  Result<Schedule> read(const std::vector<plan::ActionRow>& rows) {
    std::vector<std::vector<Cell>> stages;
    for (const auto& [location, cells] : rows) {
      auto& stage = stages.emplace_back();
      if (cells.empty()) add(location, "this stage has no action");
      for (const plan::ActionCell& cell : cells) {
        if (!cell.text.empty()) read_cell(cell.text, cell.location, stage);
      }
    }
    if (diagnostics_.empty()) translate(stages);
    if (diagnostics_.empty()) plan::infer_sizes(schedule_, locations_, diagnostics_);
    if (diagnostics_.empty()) plan::check_schedule(schedule_, &locations_, diagnostics_);
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return std::move(schedule_);
  }

  void read_cell(std::string_view text, plan::Location location, std::vector<Cell>& stage) {
    if (!text.starts_with('(')) {
      Cell cell;
      if (read_action(text, location, cell.action)) stage.push_back(cell);
      return;
    }
    const std::string shape = "(<part>F<micro-batch>;<part>B<micro-batch>)" + std::string(kOverlap);
    const std::size_t close = text.find(')');
    const std::size_t middle = text.find(';');
    if (close == std::string_view::npos || middle > close) {
      return add(location, "expected an overlapped block " + shape + ", got " + in_quotes(text));
    }
    const std::string_view suffix = text.substr(close + 1);
    if (suffix != kOverlap) {
      const bool longer = suffix.starts_with(kOverlap);
      const std::size_t at = close + 1 + (longer ? kOverlap.size() : 0);
      return add(moved(location, at),
                 longer ? "unexpected " + in_quotes(text.substr(at)) + " after the block"
                        : "expected " + std::string(kOverlap) + ", got " + in_quotes(suffix));
    }
    Cell cell;
    const std::string_view first = text.substr(1, middle - 1);
    const std::string_view second = text.substr(middle + 1, close - middle - 1);
    const bool first_read = read_action(first, moved(location, 1), cell.action);
    if (!read_action(second, moved(location, middle + 1), cell.backward) || !first_read) return;
    if (cell.action.type->kind != InstructionKind::kForward ||
        cell.backward.type->text != kFullBackward) {
      return add(location, "an overlapped block is " + shape + ", got " + in_quotes(text));
    }
    stage.push_back(cell);
  }

  /// Reads `<part><TYPE><micro-batch>`. Reports an error and returns false if it cannot.
  bool read_action(std::string_view text, plan::Location location, Action& action) {
    std::size_t at = 0;
    const auto take = [&](auto belongs) {
      const std::size_t begin = at;
      while (at < text.size() && belongs(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::string_view part = take(is_digit);
    const std::string_view type = take([](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
    const std::size_t number_at = at;
    const std::string_view micro_batch = take(is_digit);
    action.location = location;
    for (const ActionType& known : kActionTypes) {
      if (known.text == type) action.type = &known;
    }
    if (type.empty()) {
      return add(moved(location, part.size()),
                 "expected an action such as 0F0, got " + in_quotes(text)),
             false;
    }
    if (action.type == nullptr) {
      return add(moved(location, part.size()),
                 "unknown action " + in_quotes(type) + "; known are " + known_actions()),
             false;
    }
    if (at != text.size()) {
      return add(moved(location, at),
                 "unexpected " + in_quotes(text.substr(at)) + " after the action"),
             false;
    }
    const bool numbers_read = read_number(part, location, "part", action.part);
    return read_number(micro_batch, moved(location, number_at), "micro-batch",
                       action.micro_batch) &&
           numbers_read && has_its_numbers(text, action);
  }

  bool read_number(std::string_view digits, plan::Location location, const char* what,
                   int& number) {
    if (digits.empty()) return true;
    const auto value = parse_integer(digits);
    if (!value || *value >= kMaxInstructions) {
      return add(location, std::string(what) + " number " + in_quotes(digits) +
                               " is too large; the largest is " +
                               std::to_string(kMaxInstructions - 1)),
             false;
    }
    number = static_cast<int>(*value);
    return true;
  }

  bool has_its_numbers(std::string_view text, const Action& action) {
    const Numbers needed = action.type->numbers;
    const bool has_part = action.part >= 0;
    const bool has_micro_batch = action.micro_batch >= 0;
    if (needed == Numbers::kOptional || (has_part && has_micro_batch)) return true;
    if (needed == Numbers::kBothOrNeither && !has_part && !has_micro_batch) return true;
    if (!has_part) {
      return add(action.location, "expected the part number before " + in_quotes(text)), false;
    }
    return add(moved(action.location, text.size()),
               "expected the micro-batch number after " + in_quotes(text)),
           false;
  }

  /// (Part, micro-batch) of the backwards and weights in the file, to find out the meaning of B.
  using Keys = std::set<std::pair<int, int>>;
  static std::pair<int, int> key(const Action& action) { return {action.part, action.micro_batch}; }

  static TorchDialect detect(const std::vector<std::vector<Cell>>& stages, const Keys& weights) {
    bool old = false;
    for (const auto& stage : stages) {
      for (const Cell& cell : stage) {
        const Action& action = cell.action;
        if (action.type->text == kInputGradient) return TorchDialect::kNew;
        old |= action.type->text == kOldFullBackward;
        old |= action.type->text == kFullBackward && weights.contains(key(action));
      }
    }
    return old ? TorchDialect::kOld : TorchDialect::kNew;
  }

  void translate(const std::vector<std::vector<Cell>>& stages) {
    Keys weights;
    for (const auto& stage : stages) {
      for (const Cell& cell : stage) {
        if (cell.action.type->kind == InstructionKind::kWeight) weights.insert(key(cell.action));
      }
    }
    if (dialect_ == TorchDialect::kDetect) dialect_ = detect(stages, weights);
    for (const auto& stage : stages) {
      auto& list = schedule_.lists.emplace_back();
      auto& locations = locations_.emplace_back();
      for (const Cell& cell : stage) {
        if (cell.action.type->kind == InstructionKind::kBackward) {
          check_backward(cell.action, weights.contains(key(cell.action)));
        }
        list.push_back(instruction(cell));
        locations.push_back(cell.action.location);
      }
    }
  }

  /// Checks that a backward is an input gradient exactly if the file has its weight gradient.
  void check_backward(const Action& action, bool has_weight) {
    const std::string_view text = action.type->text;
    const bool old = dialect_ == TorchDialect::kOld;
    if (text == (old ? kInputGradient : kOldFullBackward)) {
      return add(action.location, std::string(text) + " does not belong to the " +
                                      (old ? "old dialect (B, W, BW)" : "new dialect (I, W, B)") +
                                      " that this file is in");
    }
    const bool is_input_gradient = text == (old ? kFullBackward : kInputGradient);
    if (is_input_gradient == has_weight) return;
    const std::string what =
        std::to_string(action.part) + std::string(text) + std::to_string(action.micro_batch);
    const std::string weight =
        std::to_string(action.part) + "W" + std::to_string(action.micro_batch);
    add(action.location,
        is_input_gradient
            ? what + " is an input gradient, but its weight gradient " + weight + " is missing"
            : what + " is a full backward, but " + weight + " computes its weight gradient again");
  }

  static Instruction instruction(const Cell& cell) {
    const Action& action = cell.action;
    if (cell.backward.type != nullptr) {
      return {.kind = InstructionKind::kForwardBackward,
              .part = action.part,
              .micro_batch = action.micro_batch,
              .backward_part = cell.backward.part,
              .backward_micro_batch = cell.backward.micro_batch};
    }
    return {.kind = action.type->kind,
            .part = action.part,
            .micro_batch = action.micro_batch,
            .gradient = action.type->gradient};
  }

  static plan::Location moved(plan::Location location, std::size_t characters) {
    return {location.line, location.column + static_cast<int>(characters)};
  }
  void add(plan::Location location, std::string message) {
    diagnostics_.add(location.line, location.column, std::move(message));
  }

  Diagnostics diagnostics_;
  TorchDialect dialect_;
  Schedule schedule_;
  plan::Locations locations_;
};

std::string numbered(int part, std::string_view type, int micro_batch) {
  std::string text = part < 0 ? "" : std::to_string(part);
  text += type;
  return micro_batch < 0 ? text : text + std::to_string(micro_batch);
}

std::string action_text(const Instruction& instruction, bool has_weight) {
  const auto [kind, part, micro_batch, backward_part, backward_micro_batch, gradient] = instruction;
  if (kind == InstructionKind::kForwardBackward) {
    std::string block = "(";
    block += numbered(part, "F", micro_batch);
    block += ';';
    block += numbered(backward_part, kFullBackward, backward_micro_batch);
    block += ')';
    return block += kOverlap;
  }
  if (kind == InstructionKind::kBackward) {
    return numbered(part, has_weight ? kInputGradient : kFullBackward, micro_batch);
  }
  for (const ActionType& type : kActionTypes) {
    if (type.kind == kind && type.gradient == gradient) {
      return numbered(part, type.text, micro_batch);
    }
  }
  return {};  // a valid schedule has no other
}

}  // namespace

Result<Schedule> parse_torch_csv(std::string_view text, const std::string& file,
                                 TorchDialect dialect, int copies) {
  return TorchReader(file, dialect, copies).read_csv(text);
}

Result<Schedule> parse_printed_lists(std::string_view text, const std::string& file,
                                     TorchDialect dialect, int copies) {
  return TorchReader(file, dialect, copies).read_printed(text);
}

std::string torch_action(const Instruction& instruction) {
  return action_text(instruction, false);
}

std::string torch_csv(const Schedule& schedule) {
  std::set<std::pair<int, int>> weights;
  for (const auto& list : schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind == InstructionKind::kWeight) {
        weights.emplace(instruction.part, instruction.micro_batch);
      }
    }
  }
  std::string text;
  for (const auto& list : schedule.lists) {
    bool first = true;
    for (const Instruction& instruction : list) {
      if (!std::exchange(first, false)) text += ',';
      text +=
          action_text(instruction, weights.contains({instruction.part, instruction.micro_batch}));
    }
    text += '\n';
  }
  return text;
}

Result<Schedule> parse_schedule(std::string_view text, const std::string& file,
                                TorchDialect dialect, int copies) {
  const std::string_view content = trim(without_byte_order_mark(text));
  if (plan::is_printed_lists(text)) return parse_printed_lists(text, file, dialect, copies);
  if (content.starts_with('{') || content.starts_with('[')) {
    return parse_schedule_json(text, file);
  }
  return parse_torch_csv(text, file, dialect, copies);
}

Result<Schedule> read_schedule(const std::filesystem::path& path, TorchDialect dialect,
                               int copies) {
  const auto text = HARPE_TRY(read_file(path));
  return parse_schedule(text, path.string(), dialect, copies);
}

}  // namespace harpe
