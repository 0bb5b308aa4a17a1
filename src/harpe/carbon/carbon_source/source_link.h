#pragma once
/// \file
/// The connection to one provider: time-outs, retries, limits on the request rate, and validators.
///
/// * No response, 429 and 5xx are tried again, after a wait drawn uniformly from 0 to
///   min(longest_wait, first_wait 2^k) ("full jitter"), but not before Retry-After. A Retry-After
///   beyond `patience` ends the attempts, and no request is sent before it has passed.
/// * 401 and 403 are final: the error (kNoPermission) explains how to get a token.
/// * At most `calls` requests are sent in any `period`; further requests wait.
/// * The ETag or Last-Modified of a response is sent with the next request; a 304 returns the
///   stored response.
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

/// A store of responses that have validators.
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
  std::string provider = {};  ///< for messages: "Electricity Maps"
  /// For the error if the provider refuses access.
  std::string token_advice = {};
  std::string expected_type = "json";  ///< part of the content type of every response
  /// Status whose body is returned like that of a 200; 0 for none.
  int also_read = 0;
  int attempts = 4;
  Seconds timeout{10}, first_wait{1}, longest_wait{30}, patience{60};
  int calls = 60;
  Seconds period{60};
  std::uint64_t seed = 0;  ///< of the random waits
  std::filesystem::path ca_file = {};
};

/// The connection to one provider. Used by one thread. The fetcher, clock and store must outlive
/// it; the store may be null.
class SourceLink {
 public:
  SourceLink(net::HttpFetcher& fetcher, Clock& clock, UtcNow now, SourceLinkOptions options,
             ResponseStore* store = nullptr);

  /// Returns the body of a 200. \param secrets  in URL and headers (see HttpFetch)
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
  std::deque<Instant> calls_;  ///< times of the requests in the last period
  Instant not_before_{};       ///< from Retry-After
  std::uint64_t drawn_ = 0;
};

}  // namespace harpe::carbon
