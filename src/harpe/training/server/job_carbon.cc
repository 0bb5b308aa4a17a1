#include "harpe/training/server/job_carbon.h"

#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/net/http/http_responses.h"

namespace harpe::training {
namespace {

using Mode = CarbonDecision::Mode;

constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;
/// By which a clock that was set back is told from one that goes on.
constexpr Seconds kSetBack{5};

std::string text_of(const std::optional<CarbonTerms>& terms) {
  return terms ? carbon_terms_json(*terms) : "null";
}

}  // namespace

void JobCarbon::follow(const std::string& of_specification, std::int64_t newest) {
  const IterationCount before = count_;
  count_.observe(newest);
  // A start of training is worth storing; iterations come with the next decision.
  if (count_.base() != before.base()) {
    changed_ = true;
    state_.pauses_ignored = false;  // other processes may follow
  }
  if (of_specification == adopted_) return;
  adopted_ = of_specification;
  changed_ = true;
  Result<CarbonTerms> terms = parse_carbon_terms(of_specification);
  set(terms.ok() ? std::optional(*std::move(terms)) : std::nullopt);
}

void JobCarbon::set(std::optional<CarbonTerms> terms) {
  if (terms == terms_) return;
  ++revision_;
  changed_ = true;
  ended_ = terms_.has_value() && !terms;
  const ProgressSpread spread = state_.spread;
  state_ = {};
  state_.spread = spread;
  decision_.reset();
  decide_soon();
  if (terms && terms->iterations_done) {
    count_ = IterationCount(*terms->iterations_done, count_.newest());
  }
  terms_ = std::move(terms);
}

bool JobCarbon::is_due(Seconds wall) const {
  if (!terms_ || deciding) return false;
  return wall >= due_ || wall < decided_at_ - kSetBack;
}

bool JobCarbon::decided(std::uint64_t revision, ControlState state, CarbonDecision decision,
                        Seconds wall, Seconds now) {
  deciding = false;
  if (revision != revision_ || !terms_) return false;
  state_ = std::move(state);
  due_ = decision.valid_until;
  decided_at_ = wall;
  changed_ = true;
  say(decision, now);
  decision_ = std::move(decision);
  return true;
}

/// Paces and pauses the job itself tells; what else people should know.
void JobCarbon::say(const CarbonDecision& decision, Seconds now) {
  if (decision_ && decision_->mode == decision.mode && decision_->in_time == decision.in_time) {
    return;
  }
  const bool is_bad = decision.mode == Mode::kFastest || decision.mode == Mode::kStatic;
  if (decision.mode == Mode::kPaused || (decision.mode == Mode::kPaced && decision_)) return;
  std::string text = "carbon control: " + std::string(name_of(decision.mode));
  if (!decision.why.empty()) text += ", " + decision.why;
  events_.push_back({.kind = is_bad ? "warning" : "info", .text = std::move(text), .at = now});
}

std::string JobCarbon::take_changed_text() {
  if (!std::exchange(changed_, false)) return {};
  return json_line(
      net::OrderedJson{{"terms", own_json(text_of(terms_))},
                       {"adopted", adopted_},
                       {"count", {{"done", count_.done()}, {"newest", count_.newest()}}},
                       {"state", own_json(control_state_json(state_))}});
}

Status JobCarbon::read(std::string_view text) {
  const std::string what = "carbon control";
  const JsonValue document = HARPE_TRY(parse_json(text, what));
  JobCarbon made;
  const auto terms_of = [&](Fields& fields, std::string_view key, Diagnostics& diagnostics) {
    std::optional<CarbonTerms> terms;
    const JsonValue* value = fields.any(key);
    if (value == nullptr || value->type == JsonValue::Type::kNull) return terms;
    Fields members(*value, std::string(key), diagnostics);
    terms = read_carbon_terms(members, diagnostics, Unknown::kIgnored);
    return terms;
  };
  HARPE_TRY(read_object(
      document, what, what, Unknown::kIgnored, [&](Fields& fields, Diagnostics& diagnostics) {
        made.terms_ = terms_of(fields, "terms", diagnostics);
        made.adopted_ = fields.text("adopted").value_or("");
        const JsonValue* count = fields.object("count");
        if (count == nullptr) return;
        Fields members(*count, "count", diagnostics);
        made.count_ = IterationCount(members.integer("done", 0, kMostCounted).value_or(0),
                                     members.integer("newest", -1, kMostCounted).value_or(-1));
      }));
  const net::OrderedJson parsed = json_or_discarded(text);
  if (parsed.is_object() && parsed.contains("state")) {
    made.state_ = HARPE_TRY(parse_control_state(json_line(parsed["state"])));
  }
  *this = std::move(made);
  return ok_status();
}

}  // namespace harpe::training
