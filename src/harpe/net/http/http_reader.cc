#include "harpe/net/http/http_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/net/http/http_framing.h"
#include "harpe/net/http/http_responses.h"

namespace harpe::net {

namespace {

/// Methods that each route accepts, or refuses itself (405). CONNECT and invented methods have no
/// meaning at any route.
constexpr std::array<std::string_view, 9> kMethods{"GET",   "HEAD",    "POST",  "PUT",  "DELETE",
                                                   "PATCH", "OPTIONS", "QUERY", "TRACE"};

constexpr std::string_view kDigits = "0123456789";

bool has_only(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

/// Returns true for host [ ":" port ], RFC 3986 3.2.2 without user names (RFC 9110 4.2.4).
bool is_authority(std::string_view text) {
  constexpr std::string_view kHost =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%!$&'()*+,;=";
  std::size_t end = 0;
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos || end == 1) return false;
    const std::string address = std::string(kHost) + ":";
    if (!has_only(text.substr(1, end - 1), address)) return false;
    ++end;
  } else {
    end = std::min(text.find(':'), text.size());
    if (!has_only(text.substr(0, end), kHost)) return false;
  }
  return end == text.size() || (text[end] == ':' && has_only(text.substr(end + 1), kDigits));
}

/// Returns the path and query of a request target; nullopt if it is neither a path nor an HTTP URL.
std::optional<std::pair<std::string, std::string>> split_target(std::string_view target) {
  const bool is_printable =
      std::ranges::all_of(target, [](char c) { return c > ' ' && c < '\x7f' && c != '#'; });
  if (!is_printable) return std::nullopt;
  if (!target.starts_with('/')) {
    const std::size_t scheme = target.find("://");
    if (scheme == std::string_view::npos) return std::nullopt;
    const std::string_view name = target.substr(0, scheme);
    if (!is_same_word(name, "http") && !is_same_word(name, "https")) return std::nullopt;
    target.remove_prefix(scheme + 3);
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    const std::string_view authority = target.substr(0, end);
    if (authority.empty() || authority.starts_with(':') || !is_authority(authority)) {
      return std::nullopt;
    }
    target.remove_prefix(end);
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  std::string path(target.substr(0, question));
  if (path.empty()) path = "/";
  return std::pair(std::move(path),
                   std::string(target.substr(std::min(question + 1, target.size()))));
}

}  // namespace

/// One request, parsed as far as it has arrived.
struct HttpReader::Parser {
  enum class Stage : unsigned char { kRequestLine, kFields, kLength, kChunks, kWhole };

  explicit Parser(const HttpSizes& given) : sizes(given) {}

  State read(std::string_view& bytes) {
    while (!bytes.empty() && stage < Stage::kLength) {
      const State state = read_header(bytes);
      if (state != State::kNeedMore) return state;
    }
    if (stage == Stage::kLength) {
      const std::string_view piece = bytes.substr(0, length - head.body.size());
      append_within(head.body, piece, length);
      bytes.remove_prefix(piece.size());
      if (head.body.size() == length) stage = Stage::kWhole;
    } else if (stage == Stage::kChunks) {
      const ChunkedBody::State state = chunks->read(bytes, head.body);
      if (state == ChunkedBody::State::kBad) {
        return fail(chunks->error().status, chunks->error().why);
      }
      if (state == ChunkedBody::State::kDone) stage = Stage::kWhole;
    }
    return stage == Stage::kWhole ? State::kDone : State::kNeedMore;
  }

  State fail(int status, const std::string& why) {
    // The path is known once the request line was read, even if the rest is malformed.
    bad = is_native_path(head.path) ? native_error(status, "invalid_input", why)
                                    : text_response(status, why + "\n");
    return State::kBad;
  }

  State read_header(std::string_view& bytes) {
    switch (line.read(bytes, sizes.header - header)) {
      case LineReader::State::kNeedMore:
        return State::kNeedMore;
      case LineReader::State::kMalformed:
        return fail(400, "malformed HTTP: a line with control characters, or not ended by CR LF");
      case LineReader::State::kTooLong:
        return stage == Stage::kRequestLine
                   ? fail(414,
                          "the request line is over " + std::to_string(sizes.header) + " bytes")
                   : fail(431, "the header is over " + std::to_string(sizes.header) + " bytes");
      case LineReader::State::kLine:
        break;
    }
    header += line.size();
    if (stage == Stage::kFields && line.line().empty()) {
      line = LineReader();  // its memory is not needed any more
      return finish_header();
    }
    const State state =
        stage == Stage::kRequestLine ? take_request_line(line.line()) : take_field(line.line());
    line.next();
    return state;
  }

  /// Parses METHOD TARGET VERSION, with one space between them (RFC 9112 3).
  State take_request_line(std::string_view text) {
    if (text.empty()) return State::kNeedMore;  // RFC 9112 2.2
    const std::size_t first = text.find(' ');
    const std::size_t last = text.rfind(' ');
    if (first == std::string_view::npos || first == last) {
      return fail(400, "malformed HTTP: the first line is not a request");
    }
    const std::string_view method = text.substr(0, first);
    const std::string_view target = text.substr(first + 1, last - first - 1);
    const std::string_view version = text.substr(last + 1);
    const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                            version[6] == '.' && has_only(version.substr(5, 1), kDigits) &&
                            has_only(version.substr(7), kDigits);
    if (!is_version || !is_http_token(method)) {
      return fail(400, "malformed HTTP: the first line is not a request");
    }
    if (version[5] != '1') return fail(505, "only HTTP/1.0 and HTTP/1.1 are supported");
    if (std::ranges::find(kMethods, method) == kMethods.end()) {
      return fail(501, "this method is not supported: " + std::string(method.substr(0, 20)));
    }
    auto split = split_target(target);
    if (!split) return fail(400, "the request target must be a path");
    head.method = method;
    std::tie(head.path, head.query) = *std::move(split);
    // A later 1.x is read as 1.1, the newest known version (RFC 9110 2.5).
    head.version = version[7] == '0' ? 10 : 11;
    stage = Stage::kFields;
    return State::kNeedMore;
  }

  State take_field(std::string_view text) {
    const std::optional<FieldLine> field = parse_field_line(text);
    if (!field) return fail(400, "malformed HTTP: a line of the header is not a valid field");
    if (auto error = framing.add(*field)) return fail(error->status, error->why);
    if (is_same_word(field->name, "host")) {
      if (std::exchange(has_host, true)) return fail(400, "malformed HTTP: Host is given twice");
      if (!is_authority(field->value)) return fail(400, "malformed HTTP: Host is not an address");
    } else if (is_same_word(field->name, "authorization")) {
      if (std::exchange(has_authorization, true)) {
        return fail(400, "malformed HTTP: Authorization is given twice");
      }
      head.authorization = field->value;
    } else if (is_same_word(field->name, "expect")) {
      const bool is_usual = is_same_word(field->value, "100-continue");
      (is_usual ? expects_continue : expects_more) = true;
    } else if (is_same_word(field->name, "harpe-forwarded")) {
      head.forwarded = true;
      head.forward_token = field->value;
    }
    return State::kNeedMore;
  }

  State finish_header() {
    head.keep_alive = framing.stays_open(head.version);
    if (!has_host && head.version > 10) return fail(400, "malformed HTTP: Host is missing");
    if (auto error = framing.finish(head.version)) return fail(error->status, error->why);
    // Expectations of HTTP/1.0 clients are ignored (RFC 9110 10.1.1).
    if (expects_more && head.version > 10) {
      return fail(417, "the only supported expectation is 100-continue");
    }
    expects_continue = expects_continue && head.version > 10;
    body_limit =
        sizes.body_of ? sizes.body_of(head.method, head.path).value_or(sizes.body) : sizes.body;
    if (framing.chunked()) {
      stage = Stage::kChunks;
      chunks.emplace(ChunkedBody::Limits{
          .body = body_limit, .framing = sizes.framing(body_limit), .lines = sizes.header});
      return State::kNeedMore;
    }
    if (framing.length().value_or(0) > body_limit) {
      return fail(413, "the body is over " + std::to_string(body_limit) + " bytes");
    }
    length = static_cast<std::size_t>(framing.length().value_or(0));
    stage = length > 0 ? Stage::kLength : Stage::kWhole;
    return State::kNeedMore;
  }

  const HttpSizes& sizes;
  Stage stage = Stage::kRequestLine;
  LineReader line;
  std::size_t header = 0;  ///< bytes of complete lines
  HttpRequest head;
  MessageFraming framing;
  bool has_host = false, has_authorization = false;
  bool expects_continue = false, expects_more = false;
  bool head_taken = false;
  std::size_t length = 0, body_limit = 0;  ///< bytes
  std::optional<ChunkedBody> chunks;
  HttpResponse bad;
};

HttpReader::HttpReader(const HttpSizes& sizes) : sizes_(sizes) {}
HttpReader::~HttpReader() = default;

HttpReader::State HttpReader::read(std::string_view& bytes) {
  if (parser_ == nullptr) {
    if (bytes.empty()) return State::kNeedMore;
    parser_ = std::make_unique<Parser>(sizes_);
  }
  return parser_->read(bytes);
}

HttpRequest HttpReader::take() {
  HttpRequest request = std::move(parser_->head);
  parser_.reset();
  return request;
}

std::optional<HttpRequest> HttpReader::take_head() {
  if (!in_body() || parser_->head_taken) return std::nullopt;
  parser_->head_taken = true;
  HttpRequest head;
  std::string body = std::exchange(parser_->head.body, {});
  head = parser_->head;
  parser_->head.body = std::move(body);
  return head;
}

bool HttpReader::asked() const {
  return parser_ != nullptr && (parser_->stage != Parser::Stage::kRequestLine ||
                                !std::string_view("\r\n").starts_with(parser_->line.begun()));
}

bool HttpReader::in_body() const {
  return parser_ != nullptr &&
         (parser_->stage == Parser::Stage::kLength || parser_->stage == Parser::Stage::kChunks);
}

bool HttpReader::take_continue() {
  return in_body() && std::exchange(parser_->expects_continue, false);
}

std::size_t HttpReader::wanted() const {
  if (!in_body()) return 0;
  return parser_->chunks ? parser_->chunks->wanted() : parser_->length - parser_->head.body.size();
}

std::size_t HttpReader::held() const {
  if (parser_ == nullptr) return 0;
  const HttpRequest& head = parser_->head;
  return parser_->line.held() + head.path.capacity() + head.query.capacity() +
         head.authorization.capacity() + head.forward_token.capacity() + head.body.capacity() +
         (parser_->chunks ? parser_->chunks->held() : 0);
}

const HttpResponse& HttpReader::bad() const {
  return parser_->bad;
}

bool HttpReader::is_head() const {
  return parser_ != nullptr && parser_->head.method == "HEAD";
}

void HttpReader::reset() {
  parser_.reset();
}

}  // namespace harpe::net
