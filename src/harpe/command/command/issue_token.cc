#include "harpe/command/command/issue_token.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/net/service/token_keys.h"

namespace harpe::command {
namespace {

Result<std::vector<std::string>> parse_scopes(std::string_view text,
                                              const std::vector<std::string>& known) {
  std::vector<std::string> scopes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string scope(trim(text.substr(0, comma)));
    if (std::ranges::find(known, scope) == known.end()) {
      return Error::invalid("unknown scope " + in_quotes(scope) + "; there are " + joined(known));
    }
    scopes.push_back(scope);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (scopes.empty()) return Error::invalid("a token needs at least one scope");
  return scopes;
}

Result<std::optional<std::int64_t>> parse_expiry(std::string_view text) {
  if (text == "never" || text == "0") return std::optional<std::int64_t>();
  const Seconds duration = HARPE_TRY(parse_seconds(text));
  if (duration.value < 1 || duration.value > 1e10) {
    return Error::invalid("a token lasts from a second, or never ends: --expires never");
  }
  return std::optional(std::time(nullptr) + static_cast<std::int64_t>(duration.value));
}

}  // namespace

Result<Outcome> issue_token(const TokenRequest& arguments,
                            const std::vector<std::string>& known_scopes) {
  const std::shared_ptr<net::TokenKeys> keys =
      HARPE_TRY(net::TokenKeys::read({.keys = arguments.key}));
  if (keys == nullptr) return Error::invalid("a token needs a --signing-key");
  const auto scopes = HARPE_TRY(parse_scopes(arguments.scopes, known_scopes));
  const auto expires = HARPE_TRY(parse_expiry(arguments.expires));
  if (trim(arguments.user).empty()) return Error::invalid("a token needs a --user");
  const std::string id = HARPE_TRY(net::new_token_id());
  const std::int64_t now = std::time(nullptr);
  const std::string token =
      keys->sign({.subject = arguments.user,
                  .scopes = scopes,
                  .expires = expires,
                  .job = arguments.job.empty() ? std::nullopt : std::optional(arguments.job),
                  .id = id,
                  .issued = now});
  // A token that would be refused is not issued.
  if (const auto accepted = keys->verify(token, now); !accepted.ok()) {
    return Error::invalid("this token would be refused: " + accepted.error().text() +
                          " Give a shorter --user or fewer scopes");
  }
  Json document{{"token", token}, {"id", id}, {"user", arguments.user}, {"scopes", scopes}};
  document["expires"] = expires ? Json(*expires) : Json();
  if (!arguments.job.empty()) document["job"] = arguments.job;
  return Outcome{.text = token + "\n", .json = json_text(document)};
}

}  // namespace harpe::command
