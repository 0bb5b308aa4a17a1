#pragma once
/// \file
/// The way to one provider: time-outs, retries, its limits of calls, and what it says of both.
///
/// * No response, 429 and 5xx are tried again, after a wait drawn uniformly from 0 to
///   min(longest_wait, first_wait 2^k) ("full jitter"), and no sooner than Retry-After says. A
///   Retry-After beyond `patience` ends the attempts, and no call is made before it has passed.
/// * 401 and 403 are final: the error (kNoPermission) says how to get a token.
/// * At most `calls` calls in any `period`; beyond that it waits.
/// * Where a provider gave an ETag or Last-Modified, they are shown again, and a 304 gives what
/// came
///   then.
///
/// Source: M. Brooker, Exponential Backoff And Jitter, 2015; RFC 9110 sections 10.2.3 and 13.1.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/utc_arithmetic.h"
#include "harpe/net/http_client/http_fetch.h"

namespace harpe::carbon {

/// Keeps responses that can be asked for again with their validators.
class ResponseStore {
 public:
  struct Kept {
    std::string etag = {}, last_modified = {}, content_type = {}, body = {};
  };
  virtual ~ResponseStore() = default;
  /// \param url  without secrets
  virtual std::optional<Kept> find(const std::string& url) = 0;
  virtual void keep(const std::string& url, const Kept& response) = 0;
};

struct SourceLinkOptions {
  std::string provider = {};           ///< "Electricity Maps", for messages
  std::string token_advice = {};       ///< what to do where it refuses
  std::string expected_type = "json";  ///< part of the content type of every response
  int also_read = 0;                   ///< a status whose body is handed on as that of a 200 is
  int attempts = 4;
  Seconds timeout{10}, first_wait{1}, longest_wait{30}, patience{60};
  int calls = 60;
  Seconds period{60};
  std::uint64_t seed = 0;  ///< of the waits
  std::filesystem::path ca_file = {};
};

/// Used by one thread. The fetcher, clock and store must outlive it; a store may be null.
class SourceLink {
 public:
  SourceLink(net::HttpFetcher& fetcher, Clock& clock, UtcNow now, SourceLinkOptions options,
             ResponseStore* store = nullptr);

  /// The body of a 200. \param secrets  of URL and headers (see HttpFetch)
  Result<std::string> get(const std::string& url, const net::HttpHeaders& headers = {},
                          const std::vector<std::string>& secrets = {});

  const SourceLinkOptions& options() const { return options_; }

 private:
  void wait_for_turn();
  Seconds wait_before(int attempt, const net::HttpFetched& failed) const;
  Result<std::string> body_of(const net::HttpFetched& fetched, const std::string& key,
                              const std::optional<ResponseStore::Kept>& kept);
  Error refusal(const net::HttpFetched& fetched, const std::string& key) const;

  net::HttpFetcher& fetcher_;
  Clock& clock_;
  UtcNow now_;
  SourceLinkOptions options_;
  ResponseStore* store_;
  std::deque<Instant> calls_;  ///< of the last period
  Instant not_before_{};       ///< by Retry-After
  std::uint64_t drawn_ = 0;
};

}  // namespace harpe::carbon
