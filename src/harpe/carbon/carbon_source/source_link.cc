#include "harpe/carbon/carbon_source/source_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::carbon {
namespace {

constexpr std::uint64_t kJitter = 0x6a69747465720001;  // purpose of the random numbers

bool may_pass(const net::HttpFetched& fetched) {
  if (fetched.status == 0) return fetched.cause != net::HttpFailure::kBadResponse;
  return fetched.status == 429 || fetched.status >= 500;
}

/// Returns the URL without secrets, for messages and the cache.
std::string url_without(std::string url, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    const std::string encoded = net::percent_encoded(secret);
    for (const std::string& form : {secret, encoded}) {
      if (form.empty()) continue;
      for (std::size_t at = 0; (at = url.find(form, at)) != std::string::npos; at += 3) {
        url.replace(at, form.size(), "***");
      }
    }
  }
  return url;
}

}  // namespace

SourceLink::SourceLink(net::HttpFetcher& fetcher, Clock& clock, UtcNow now,
                       SourceLinkOptions options, ResponseStore* store)
    : fetcher_(fetcher),
      clock_(clock),
      now_(std::move(now)),
      options_(std::move(options)),
      store_(store) {}

Result<std::string> SourceLink::get(const std::string& url, const net::HttpHeaders& headers,
                                    const std::vector<std::string>& secrets) {
  const std::string key = url_without(url, secrets);
  const auto kept = store_ != nullptr ? store_->find(key) : std::nullopt;
  net::HttpFetch request{.url = url,
                         .headers = headers,
                         .secrets = secrets,
                         .timeout = options_.timeout,
                         .ca_file = options_.ca_file};
  for (const std::string& secret : secrets) request.secrets.push_back(net::percent_encoded(secret));
  if (kept && !kept->etag.empty()) request.headers.emplace_back("If-None-Match", kept->etag);
  if (kept && !kept->last_modified.empty()) {
    request.headers.emplace_back("If-Modified-Since", kept->last_modified);
  }
  if (clock_.now() < not_before_) {
    return Error::of(ErrorCode::kUnavailable,
                     options_.provider + " allows no call within the next " +
                         shortest(std::ceil((not_before_ - clock_.now()).value)) + " s");
  }
  for (int attempt = 1;; ++attempt) {
    wait_for_turn();
    const net::HttpFetched fetched = fetcher_.fetch(request);
    if (!may_pass(fetched)) return body_of(fetched, key, kept);
    const auto asked = net::parse_retry_after(fetched.header("retry-after"), sys_time(now_()));
    const bool too_long = asked && *asked > options_.patience;
    if (too_long) not_before_ = clock_.now() + std::min(*asked, Seconds{86'400});
    if (too_long || attempt >= options_.attempts) return refusal(fetched, key);
    ++drawn_;
    clock_.sleep_until(clock_.now() + wait_before(attempt, fetched));
  }
}

/// Sleeps while the last period has the maximum number of calls.
void SourceLink::wait_for_turn() {
  const auto drop_old = [&] {
    while (!calls_.empty() && clock_.now() - calls_.front() >= options_.period) calls_.pop_front();
  };
  drop_old();
  if (calls_.size() >= static_cast<std::size_t>(std::max(1, options_.calls))) {
    clock_.sleep_until(calls_.front() + options_.period);
    drop_old();
  }
  calls_.push_back(clock_.now());
}

Seconds SourceLink::wait_before(int attempt, const net::HttpFetched& failed) const {
  const double most =
      std::min(options_.longest_wait.value, options_.first_wait.value * std::exp2(attempt - 1));
  const Seconds drawn{most * uniform(mixed(options_.seed, kJitter, drawn_))};
  const auto asked = net::parse_retry_after(failed.header("retry-after"), sys_time(now_()));
  return asked ? std::max(*asked, drawn) : drawn;
}

Result<std::string> SourceLink::body_of(const net::HttpFetched& fetched, const std::string& key,
                                        const std::optional<ResponseStore::Kept>& kept) {
  if (fetched.status == 304 && kept) return kept->body;
  const bool other = options_.also_read != 0 && fetched.status == options_.also_read;
  if (fetched.status != 200 && !other) return refusal(fetched, key);
  const std::string type = lower(fetched.header("content-type"));
  // A proxy or a portal answers with its own page. Some servers declare other text as plain text.
  if (!type.empty() && type.find(options_.expected_type) == std::string::npos &&
      !type.starts_with("text/plain") && !type.starts_with("application/octet-stream")) {
    return Error::of(ErrorCode::kUnavailable, options_.provider + " answers with " +
                                                  in_quotes(type) + " instead of " +
                                                  options_.expected_type);
  }
  const ResponseStore::Kept now{.etag = fetched.header("etag"),
                                .last_modified = fetched.header("last-modified"),
                                .content_type = type,
                                .body = fetched.body};
  if (store_ != nullptr && !other && (!now.etag.empty() || !now.last_modified.empty())) {
    store_->keep(key, now);
  }
  return fetched.body;
}

/// Returns the error of a failed request, without its body, which may repeat the token.
Error SourceLink::refusal(const net::HttpFetched& fetched, const std::string& key) const {
  const std::string from = " (" + net::url_for_messages(key) + ")";
  switch (fetched.status) {
    case 0:
      return Error::of(ErrorCode::kUnavailable,
                       options_.provider + " does not answer" + from + ": " + fetched.failure);
    case 401:
    case 403:
      return Error::of(ErrorCode::kNoPermission, options_.provider + " refuses with status " +
                                                     std::to_string(fetched.status) + from + ". " +
                                                     options_.token_advice);
    case 404:
      return Error::of(
          ErrorCode::kNotFound,
          options_.provider + " does not have the requested data" + from + ": check the zone");
    case 429:
      return Error::of(ErrorCode::kUnavailable,
                       options_.provider + " reports too many calls" + from);
    default:
      return Error::of(ErrorCode::kUnavailable, options_.provider + " answers with status " +
                                                    std::to_string(fetched.status) + from);
  }
}

}  // namespace harpe::carbon
