#include "harpe/net/http/http_response_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace harpe::net {
namespace {

/// Headers that are forwarded in addition to the content's type.
constexpr std::array<std::string_view, 4> kHandedOn{"Retry-After", "Allow", "WWW-Authenticate",
                                                    "Cache-Control"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

HttpResponseReader::State HttpResponseReader::read(std::string_view& bytes) {
  while (!bytes.empty() && stage_ < Stage::kLength) {
    const State state = read_header(bytes);
    if (state != State::kNeedMore) return state;
  }
  if (stage_ == Stage::kLength || stage_ == Stage::kToTheEnd) {
    const std::string_view piece = bytes.substr(0, length_ - response_.body.size());
    append_within(response_.body, piece, length_);
    bytes.remove_prefix(piece.size());
    if (stage_ == Stage::kToTheEnd && !bytes.empty()) return fail_body();
    if (stage_ == Stage::kLength && response_.body.size() == length_) stage_ = Stage::kWhole;
  } else if (stage_ == Stage::kChunks) {
    const ChunkedBody::State state = chunks_->read(bytes, response_.body);
    if (state == ChunkedBody::State::kBad) return fail(chunks_->error().why);
    if (state == ChunkedBody::State::kDone) stage_ = Stage::kWhole;
  }
  return stage_ == Stage::kWhole ? State::kDone : State::kNeedMore;
}

HttpResponseReader::State HttpResponseReader::fail(std::string reason) {
  why_ = std::move(reason);
  return State::kBad;
}

HttpResponseReader::State HttpResponseReader::fail_body() {
  return fail("its response is over " + std::to_string(limits_.body) + " bytes");
}

HttpResponseReader::State HttpResponseReader::read_header(std::string_view& bytes) {
  switch (line_.read(bytes, limits_.header - header_)) {
    case LineReader::State::kNeedMore:
      return State::kNeedMore;
    case LineReader::State::kMalformed:
      return fail("its response is not valid HTTP");
    case LineReader::State::kTooLong:
      return fail("the header of its response is over " + std::to_string(limits_.header) +
                  " bytes");
    case LineReader::State::kLine:
      break;
  }
  header_ += line_.size();
  State state = State::kNeedMore;
  if (stage_ == Stage::kStatusLine) {
    state = take_status_line(line_.line());
  } else if (line_.line().empty()) {
    state = finish_header();
  } else {
    state = take_field(line_.line());
  }
  line_.next();
  return state;
}

/// Parses "HTTP/1.1 200 OK" (RFC 9112 4).
HttpResponseReader::State HttpResponseReader::take_status_line(std::string_view text) {
  const bool is_status = (text.starts_with("HTTP/1.1 ") || text.starts_with("HTTP/1.0 ")) &&
                         text.size() >= 12 && text[9] >= '1' && text[9] <= '9' &&
                         is_digit(text[10]) && is_digit(text[11]) &&
                         (text.size() == 12 || text[12] == ' ');
  if (!is_status) return fail("its response is not valid HTTP");
  version_ = text[7] == '0' ? 10 : 11;
  response_.status = (text[9] - '0') * 100 + (text[10] - '0') * 10 + (text[11] - '0');
  stage_ = Stage::kFields;
  return State::kNeedMore;
}

HttpResponseReader::State HttpResponseReader::take_field(std::string_view text) {
  const std::optional<FieldLine> field = parse_field_line(text);
  if (!field) return fail("its response is not valid HTTP");
  if (auto error = framing_.add(*field)) return fail(error->why);
  if (is_same_word(field->name, "content-type")) response_.content_type = field->value;
  for (const std::string_view name : kHandedOn) {
    if (is_same_word(field->name, name)) response_.headers.emplace_back(name, field->value);
  }
  return State::kNeedMore;
}

HttpResponseReader::State HttpResponseReader::finish_header() {
  if (response_.status == 101) return fail("it switched to another protocol");
  if (response_.status < 200) {
    // An interim response: the final one follows. The limit on header bytes covers all of them.
    response_ = {};
    framing_ = {};
    stage_ = Stage::kStatusLine;
    return State::kNeedMore;
  }
  if (auto error = framing_.finish(version_)) return fail(error->why);
  if (to_head_ || response_.status == 204 || response_.status == 304) {
    stage_ = Stage::kWhole;
  } else if (framing_.chunked()) {
    stage_ = Stage::kChunks;
    chunks_.emplace(ChunkedBody::Limits{
        .body = limits_.body, .framing = limits_.header + limits_.body, .lines = limits_.header});
  } else if (framing_.length()) {
    if (*framing_.length() > limits_.body) return fail_body();
    length_ = static_cast<std::size_t>(*framing_.length());
    stage_ = Stage::kLength;
  } else {
    length_ = limits_.body;
    stage_ = Stage::kToTheEnd;
  }
  return State::kHead;
}

HttpResponseReader::State HttpResponseReader::end() {
  if (stage_ != Stage::kToTheEnd) {
    return fail("it closed the connection before its response was complete");
  }
  stage_ = Stage::kWhole;
  return State::kDone;
}

std::size_t HttpResponseReader::held() const {
  std::size_t bytes = line_.held() + response_.content_type.capacity() + response_.body.capacity();
  for (const auto& [name, value] : response_.headers) bytes += value.capacity();
  return bytes + (chunks_ ? chunks_->held() : 0);
}

}  // namespace harpe::net
