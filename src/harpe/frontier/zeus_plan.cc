#include "harpe/frontier/zeus_plan.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/frontier/plan.h"
#include "harpe/profile/profile.h"

namespace harpe {
namespace {

/// A Python literal of the few types that plan files have.
struct Literal {
  enum class Type : unsigned char { kInteger, kString, kSequence };
  Type type = Type::kSequence;
  int line = 0;
  int column = 0;
  std::int64_t integer = 0;
  std::string string;
  std::vector<Literal> items;
};

/// Parses one literal; stops at the first fault.
class Parser {
 public:
  Parser(std::string_view text, Faults& faults) : text_(text), faults_(faults) {}

  Literal parse() {
    Literal root = value(0);
    skip_space();
    if (faults_.empty() && at_ < text_.size()) {
      fault("expected the end of the file, found " + in_quotes(text_.substr(at_, 1)));
    }
    return root;
  }

 private:
  static constexpr int kDeepest = 8;

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n') {
        line_start_ = ++at_;
        ++line_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  Literal value(int depth) {
    skip_space();
    Literal literal;
    literal.line = line_;
    literal.column = column();
    if (at_ == text_.size()) return fault("expected a list, found the end of the file"), literal;
    const char c = text_[at_];
    if (c == '[' || c == '(') {
      if (depth == kDeepest) return fault("lists are nested too deep"), literal;
      sequence(literal, c == '[' ? ']' : ')', depth);
    } else if (c == '\'' || c == '"') {
      string(literal);
    } else {
      integer(literal);
    }
    return literal;
  }

  void sequence(Literal& literal, char close, int depth) {
    ++at_;
    bool comma = true;
    for (;;) {
      skip_space();
      if (at_ == text_.size()) {
        return fault(std::string("expected '") + close + "', found the end of the file");
      }
      if (text_[at_] == close) break;
      if (!comma) {
        return fault(std::string("expected ',' or '") + close + "', found " +
                     in_quotes(text_.substr(at_, 1)));
      }
      literal.items.push_back(value(depth + 1));
      if (!faults_.empty()) return;
      skip_space();
      comma = at_ < text_.size() && text_[at_] == ',';
      if (comma) ++at_;
    }
    ++at_;
    // Python takes one value in parentheses without a comma for the value itself.
    if (close == ')' && literal.items.size() == 1 && !comma) {
      Literal inner = std::move(literal.items.front());
      literal = std::move(inner);
    }
  }

  void string(Literal& literal) {
    literal.type = Literal::Type::kString;
    const char quote = text_[at_];
    const std::size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') {
      return fault("the string has no closing quote on its line");
    }
    if (text_[end] == '\\') return fault("escapes are not accepted in names");
    literal.string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  }

  void integer(Literal& literal) {
    literal.type = Literal::Type::kInteger;
    std::size_t end = at_;
    while (end < text_.size() &&
           std::string_view(" \t\r\n,()[]#'\"").find(text_[end]) == std::string_view::npos) {
      ++end;
    }
    const auto number = parse_integer(text_.substr(at_, end - at_));
    if (end == at_ || !number) {
      return fault("expected a list, a name in quotes or a whole number of MHz, found " +
                   in_quotes(text_.substr(at_, std::max<std::size_t>(end - at_, 1))));
    }
    literal.integer = *number;
    at_ = end;
  }

  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  void fault(std::string message) { faults_.add(line_, column(), std::move(message)); }

  std::string_view text_;
  Faults& faults_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

/// Takes stages and instructions out of the literal.
class Reader {
 public:
  explicit Reader(Faults& faults) : faults_(faults) {}

  std::vector<std::vector<ZeusInstruction>> read(const Literal& root) {
    std::vector<std::vector<ZeusInstruction>> stages;
    if (root.type != Literal::Type::kSequence || root.items.empty()) {
      add(root, "expected a list of stages");
    }
    for (const Literal& stage : root.items) {
      auto& list = stages.emplace_back();
      if (stage.type != Literal::Type::kSequence || stage.items.empty()) {
        add(stage, "expected the list of the instructions of a stage");
        continue;
      }
      for (const Literal& item : stage.items) list.push_back(instruction(item));
    }
    return stages;
  }

 private:
  ZeusInstruction instruction(const Literal& item) {
    const bool named = item.type == Literal::Type::kSequence;
    const bool well_formed = named ? item.items.size() == 2 &&
                                         item.items[0].type == Literal::Type::kString &&
                                         item.items[1].type == Literal::Type::kInteger
                                   : item.type == Literal::Type::kInteger;
    if (!well_formed) {
      add(item, "expected an instruction such as ('forward', 1740), or a clock in MHz");
      return {};
    }
    if (named && item.items[0].string.empty()) add(item.items[0], "the name is empty");
    if (any_ && named != named_) {
      add(item, named_ ? "a clock without a name, where others have one"
                       : "an instruction with a name, where others have none");
    }
    any_ = true;
    named_ = named;
    const Literal& clock = named ? item.items[1] : item;
    if (clock.integer < 0 || clock.integer > kHighestClock) {
      add(clock, "expected a clock from 0 to " + std::to_string(kHighestClock) + " MHz, found " +
                     std::to_string(clock.integer));
      return {};
    }
    return {named ? item.items[0].string : "", {static_cast<int>(clock.integer)}};
  }

  void add(const Literal& literal, std::string message) {
    faults_.add(literal.line, literal.column, std::move(message));
  }

  Faults& faults_;
  bool any_ = false;
  bool named_ = false;
};

}  // namespace

Result<std::vector<std::vector<ZeusInstruction>>> parse_zeus_plan(std::string_view text,
                                                                  const std::string& file) {
  Faults faults(file);
  const Literal root = Parser(without_byte_order_mark(text), faults).parse();
  std::vector<std::vector<ZeusInstruction>> stages;
  if (faults.empty()) stages = Reader(faults).read(root);
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return stages;
}

std::string zeus_plan(const Plan& plan) {
  std::string text = "[\n";
  Joules effective{0};
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    text += '[';
    const char* separator = "";
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      effective += i.energy - plan.blocking_power[stage] * i.time;
      if (is_fixed_time(i.kind)) continue;
      text += std::exchange(separator, ", ");
      text += "('" + std::string(name(i.kind)) + "', " + std::to_string(i.clock.value) + ")";
    }
    text += "],\n";
  }
  const auto joules = [&](Joules energy) { return shortest(energy.value); };
  return text + "]\n# Iteration 0 cost change: 0.0\n# Iteration 0 total cost: " +
         joules(effective * plan.gpus_per_stage) +
         "\n# Iteration 0 total cost with P2P: " + joules(plan.iteration_energy) +
         "\n# Iteration time: " + shortest(plan.iteration_time.value) + " s\n" +
         (plan.synthetic ? "# " + std::string(kSyntheticRemark) + "\n" : "");
}

}  // namespace harpe
