#include "harpe/http/http_reader.h"

#include <limits>
// Boost 1.74 needs <utility> before any of its network headers.
#include <utility>
// clang-format off
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
// clang-format on

#include "harpe/http/http_answers.h"

namespace harpe {

namespace http = boost::beast::http;

struct HttpReader::Parser {
  http::request_parser<http::string_body> parser;
  bool in_body = false;
  bool head_taken = false;
  bool continue_told = false;
  std::size_t body_limit = 0;  ///< bytes
};

namespace {

/// Bytes of what ends a body in chunks. Beast asserts that it sees no fewer where it has seen the
/// first three before.
constexpr std::size_t kLastChunk = 5;

/// The path and query of a request target; empty path when it is neither a path nor a URL.
std::pair<std::string, std::string> split_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::size_t path = target.find('/', scheme.size());
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
    break;
  }
  if (!target.starts_with('/')) return {};
  target = target.substr(0, target.find('#'));
  const std::size_t question = target.find('?');
  if (question == std::string_view::npos) return {std::string(target), {}};
  return {std::string(target.substr(0, question)), std::string(target.substr(question + 1))};
}

HttpRequest head_of(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const auto target = message.target();
  std::tie(request.path, request.query) = split_target({target.data(), target.size()});
  request.authorization = std::string(message[http::field::authorization]);
  request.forwarded = message.find("Harpe-Forwarded") != message.end();
  request.version = static_cast<int>(message.version());
  request.keep_alive = message.keep_alive();
  return request;
}

}  // namespace

HttpReader::HttpReader(const HttpSizes& sizes) : sizes_(sizes) {}
HttpReader::~HttpReader() = default;

HttpReader::State HttpReader::fail(int status, const std::string& why) {
  // Known once the request line was read, whatever became of the rest.
  const auto target = parser_->parser.get().target();
  const std::string path = split_target({target.data(), target.size()}).first;
  bad_ = is_native_path(path) ? native_error(status, "invalid_input", why)
                              : HttpResponse{.status = status,
                                             .content_type = "text/plain; charset=utf-8",
                                             .body = why + "\n"};
  return State::kBad;
}

HttpReader::State HttpReader::put(std::string_view bytes) {
  pending_.append(bytes);
  if (parser_ == nullptr) {
    if (pending_.empty()) return State::kNeedMore;
    parser_ = std::make_unique<Parser>();
    parser_->parser.header_limit(static_cast<std::uint32_t>(sizes_.header));
    // Set by the route, once that is known.
    parser_->parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  }
  boost::beast::error_code error;
  while (!parser_->parser.is_done() && !pending_.empty()) {
    const bool may_be_last_chunk = parser_->in_body && parser_->parser.chunked() &&
                                   pending_.front() == '0' && pending_.size() < kLastChunk;
    if (may_be_last_chunk) return State::kNeedMore;
    const std::size_t used = parser_->parser.put(boost::asio::buffer(pending_), error);
    pending_.erase(0, used);
    if (error == http::error::need_more) return State::kNeedMore;
    if (error == http::error::header_limit) {
      return fail(431, "the header is over " + std::to_string(sizes_.header) + " bytes");
    }
    if (error == http::error::body_limit) return fail_body();
    if (error == http::error::bad_version)
      return fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken");
    if (error) return fail(400, "malformed HTTP: " + error.message());
    if (parser_->parser.is_header_done() && !parser_->in_body) {
      if (!begin_body()) return fail_body();
      continue;
    }
    if (used == 0) break;
  }
  if (!parser_->parser.is_done()) return State::kNeedMore;
  if (split_target({parser_->parser.get().target().data(), parser_->parser.get().target().size()})
          .first.empty()) {
    return fail(400, "the request target must be a path");
  }
  return State::kDone;
}

bool HttpReader::begin_body() {
  const auto& message = parser_->parser.get();
  const auto method = message.method_string();
  const auto target = message.target();
  parser_->in_body = true;
  parser_->body_limit = sizes_.body;
  if (sizes_.body_of) {
    const std::string path = split_target({target.data(), target.size()}).first;
    parser_->body_limit =
        sizes_.body_of({method.data(), method.size()}, path).value_or(sizes_.body);
  }
  parser_->parser.body_limit(parser_->body_limit);
  parser_->parser.eager(true);
  const auto length = parser_->parser.content_length();
  return !length || *length <= parser_->body_limit;
}

HttpReader::State HttpReader::fail_body() {
  return fail(413, "the body is over " + std::to_string(parser_->body_limit) + " bytes");
}

HttpRequest HttpReader::take() {
  http::request<http::string_body> message = parser_->parser.release();
  parser_.reset();
  HttpRequest request = head_of(message);
  request.body = std::move(message.body());
  return request;
}

std::optional<HttpRequest> HttpReader::take_head() {
  if (parser_ == nullptr || parser_->head_taken || !parser_->in_body || parser_->parser.is_done()) {
    return std::nullopt;
  }
  parser_->head_taken = true;
  return head_of(parser_->parser.get());
}

bool HttpReader::begun() const {
  return parser_ != nullptr || !pending_.empty();
}

bool HttpReader::wants_continue() {
  if (parser_ == nullptr || parser_->continue_told || !parser_->parser.is_header_done() ||
      parser_->parser.is_done()) {
    return false;
  }
  const auto expect = parser_->parser.get()[http::field::expect];
  if (!boost::beast::iequals(expect, "100-continue")) return false;
  parser_->continue_told = true;
  return true;
}

}  // namespace harpe
