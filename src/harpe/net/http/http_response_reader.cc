#include "harpe/net/http/http_response_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "harpe/net/http/http_framing.h"

namespace harpe::net {
namespace {

/// Handed on beside the content's type.
constexpr std::array<std::string_view, 4> kHandedOn{"Retry-After", "Allow", "WWW-Authenticate",
                                                    "Cache-Control"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

struct HttpResponseReader::Parser {
  enum class Stage : unsigned char { kStatusLine, kFields, kLength, kChunks, kToTheEnd, kWhole };

  Parser(const Limits& given_limits, bool given_to_head)
      : limits(given_limits), to_head(given_to_head) {}

  State read(std::string_view& bytes) {
    while (!bytes.empty() && stage < Stage::kLength) {
      const State state = read_header(bytes);
      if (state != State::kNeedMore) return state;
    }
    if (stage == Stage::kLength || stage == Stage::kToTheEnd) {
      const std::string_view piece = bytes.substr(0, length - response.body.size());
      append_within(response.body, piece, length);
      bytes.remove_prefix(piece.size());
      if (stage == Stage::kToTheEnd && !bytes.empty()) return fail_body();
      if (stage == Stage::kLength && response.body.size() == length) stage = Stage::kWhole;
    } else if (stage == Stage::kChunks) {
      const ChunkedBody::State state = chunks->read(bytes, response.body);
      if (state == ChunkedBody::State::kBad) return fail(chunks->error().why);
      if (state == ChunkedBody::State::kDone) stage = Stage::kWhole;
    }
    return stage == Stage::kWhole ? State::kDone : State::kNeedMore;
  }

  State fail(std::string reason) {
    why = std::move(reason);
    return State::kBad;
  }

  State fail_body() {
    return fail("its response is over " + std::to_string(limits.body) + " bytes");
  }

  State read_header(std::string_view& bytes) {
    switch (line.read(bytes, limits.header - header)) {
      case LineReader::State::kNeedMore:
        return State::kNeedMore;
      case LineReader::State::kMalformed:
        return fail("its response is no HTTP");
      case LineReader::State::kTooLong:
        return fail("the header of its response is over " + std::to_string(limits.header) +
                    " bytes");
      case LineReader::State::kLine:
        break;
    }
    header += line.size();
    State state = State::kNeedMore;
    if (stage == Stage::kStatusLine) {
      state = take_status_line(line.line());
    } else if (line.line().empty()) {
      state = finish_header();
    } else {
      state = take_field(line.line());
    }
    line.next();
    return state;
  }

  /// "HTTP/1.1 200 OK" (RFC 9112 4)
  State take_status_line(std::string_view text) {
    const bool is_status = (text.starts_with("HTTP/1.1 ") || text.starts_with("HTTP/1.0 ")) &&
                           text.size() >= 12 && text[9] >= '1' && text[9] <= '9' &&
                           is_digit(text[10]) && is_digit(text[11]) &&
                           (text.size() == 12 || text[12] == ' ');
    if (!is_status) return fail("its response is no HTTP");
    version = text[7] == '0' ? 10 : 11;
    response.status = (text[9] - '0') * 100 + (text[10] - '0') * 10 + (text[11] - '0');
    stage = Stage::kFields;
    return State::kNeedMore;
  }

  State take_field(std::string_view text) {
    const std::optional<FieldLine> field = parse_field_line(text);
    if (!field) return fail("its response is no HTTP");
    if (auto error = framing.add(*field)) return fail(error->why);
    if (is_same_word(field->name, "content-type")) response.content_type = field->value;
    for (const std::string_view name : kHandedOn) {
      if (is_same_word(field->name, name)) response.headers.emplace_back(name, field->value);
    }
    return State::kNeedMore;
  }

  State finish_header() {
    if (response.status == 101) return fail("it responds with another protocol");
    if (response.status < 200) {
      // Interim: the response follows. What its header may have counts all of them.
      response = {};
      framing = {};
      stage = Stage::kStatusLine;
      return State::kNeedMore;
    }
    if (auto error = framing.finish(version)) return fail(error->why);
    if (to_head || response.status == 204 || response.status == 304) {
      stage = Stage::kWhole;
    } else if (framing.chunked()) {
      stage = Stage::kChunks;
      chunks.emplace(ChunkedBody::Limits{
          .body = limits.body, .framing = limits.header + limits.body, .lines = limits.header});
    } else if (framing.length()) {
      if (*framing.length() > limits.body) return fail_body();
      length = static_cast<std::size_t>(*framing.length());
      stage = Stage::kLength;
    } else {
      length = limits.body;
      stage = Stage::kToTheEnd;
    }
    return State::kHead;
  }

  Limits limits;
  bool to_head;
  Stage stage = Stage::kStatusLine;
  LineReader line;
  std::size_t header = 0;  ///< bytes of complete lines
  int version = 11;
  HttpResponse response;
  MessageFraming framing;
  std::size_t length = 0;  ///< bytes of the body, or the most where it ends with the connection
  std::optional<ChunkedBody> chunks;
  std::string why;
};

HttpResponseReader::HttpResponseReader(const Limits& limits, bool to_head)
    : parser_(std::make_unique<Parser>(limits, to_head)) {}
HttpResponseReader::~HttpResponseReader() = default;
HttpResponseReader::HttpResponseReader(HttpResponseReader&&) noexcept = default;
HttpResponseReader& HttpResponseReader::operator=(HttpResponseReader&&) noexcept = default;

HttpResponseReader::State HttpResponseReader::read(std::string_view& bytes) {
  return parser_->read(bytes);
}

HttpResponseReader::State HttpResponseReader::end() {
  if (parser_->stage != Parser::Stage::kToTheEnd) {
    return parser_->fail("it closed the connection before its response was complete");
  }
  parser_->stage = Parser::Stage::kWhole;
  return State::kDone;
}

HttpResponse HttpResponseReader::take() {
  return std::move(parser_->response);
}

int HttpResponseReader::status() const {
  return parser_->response.status;
}

bool HttpResponseReader::keep_alive() const {
  return parser_->framing.stays_open(parser_->version);
}

const std::string& HttpResponseReader::why() const {
  return parser_->why;
}

std::size_t HttpResponseReader::held() const {
  std::size_t bytes = parser_->line.held() + parser_->response.content_type.capacity() +
                      parser_->response.body.capacity();
  for (const auto& [name, value] : parser_->response.headers) bytes += value.capacity();
  return bytes + (parser_->chunks ? parser_->chunks->held() : 0);
}

}  // namespace harpe::net
