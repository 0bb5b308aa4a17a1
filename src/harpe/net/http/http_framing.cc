#include "harpe/net/http/http_framing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kLineEnd = 2;  // bytes
constexpr const char* kChunkTooLong = "malformed HTTP: a chunk is longer than its declared size";

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// Removes the part before the next comma from a list and returns it.
std::string_view next_word(std::string_view& list) {
  const std::size_t comma = std::min(list.find(','), list.size());
  const std::string_view word = without_blanks(list.substr(0, comma));
  list.remove_prefix(std::min(comma + 1, list.size()));
  return word;
}

std::optional<HttpError> error(int status, std::string why) {
  return HttpError{status, "malformed HTTP: " + std::move(why)};
}

/// Returns nullopt if `digits` is not a number; the largest number for larger ones.
std::optional<std::uint64_t> parse_length(std::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value = 0;
  for (const char digit : digits) {
    const auto one = static_cast<std::uint64_t>(digit - '0');
    if (value > (kMost - one) / 10) return kMost;
    value = value * 10 + one;
  }
  return value;
}

std::size_t token_length(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const auto is_in_token = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  };
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_in_token) - text.begin());
}

/// Removes white space and `c` from the front. Returns false, and removes nothing, if
/// `c` is missing.
bool take_mark(std::string_view& text, char c) {
  const std::size_t at = text.find_first_not_of(kBlanks);
  if (at == std::string_view::npos || text[at] != c) return false;
  text.remove_prefix(at + 1);
  return true;
}

void take_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
}

bool take_token(std::string_view& text) {
  const std::size_t length = token_length(text);
  text.remove_prefix(length);
  return length > 0;
}

/// Removes a quoted string whose first quotation mark was already removed. Returns false if it
/// does not end.
bool take_quoted(std::string_view& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

/// *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ), RFC 9112 7.1.1
bool is_chunk_extension(std::string_view text) {
  while (!text.empty()) {
    if (!take_mark(text, ';')) return false;
    take_blanks(text);
    if (!take_token(text)) return false;
    if (!take_mark(text, '=')) continue;
    take_blanks(text);
    if (text.starts_with('"')) {
      text.remove_prefix(1);
      if (!take_quoted(text)) return false;
    } else if (!take_token(text)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void append_within(std::string& text, std::string_view more, std::size_t most) {
  const std::size_t needed = text.size() + more.size();
  if (needed > text.capacity()) {
    // Into a new string: a string that grows doubles its capacity, whatever was requested.
    std::string grown;
    grown.reserve(std::min(most, std::max(needed, 2 * text.capacity())));
    grown.append(text);
    text.swap(grown);
  }
  text.append(more);
}

bool is_http_token(std::string_view text) {
  return !text.empty() && token_length(text) == text.size();
}

bool is_same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lowered, lowered);
}

std::optional<FieldLine> parse_field_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  // This also rejects white space before the colon, and lines that continue with white space.
  if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon))) return std::nullopt;
  return FieldLine{line.substr(0, colon), without_blanks(line.substr(colon + 1))};
}

// --- Lines --------------------------------------------------------------------------------------

LineReader::State LineReader::read(std::string_view& bytes, std::size_t most) {
  if (bytes.empty()) return State::kNeedMore;
  const std::size_t end = bytes.find('\n');
  std::string_view piece = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
  const std::size_t room = most > text_.size() ? most - text_.size() : 0;
  const bool fits = piece.size() <= room;
  if (!fits) piece = piece.substr(0, room);
  char before = text_.empty() ? '\0' : text_.back();
  for (const char c : piece) {
    const bool is_wrong = before == '\r' ? c != '\n' : is_control(c) && c != '\t' && c != '\r';
    if (is_wrong) return State::kMalformed;
    before = c;
  }
  append_within(text_, piece, most);
  bytes.remove_prefix(piece.size());
  if (text_.ends_with('\n')) return State::kLine;
  return fits ? State::kNeedMore : State::kTooLong;
}

// --- Framing ------------------------------------------------------------------------------------

std::optional<HttpError> MessageFraming::add(const FieldLine& field) {
  if (is_same_word(field.name, "content-length")) {
    if (length_) return error(400, "Content-Length is given twice");
    length_ = parse_length(field.value);
    if (!length_) return error(400, "Content-Length is not a number");
  } else if (is_same_word(field.name, "transfer-encoding")) {
    if (chunked_) return error(400, "Transfer-Encoding is given twice");
    chunked_ = is_same_word(field.value, "chunked");
    if (chunked_) return std::nullopt;
    std::string_view codings = field.value, last;
    std::size_t chunkings = 0;
    while (!codings.empty()) {
      last = next_word(codings);
      chunkings += is_same_word(last, "chunked") ? 1 : 0;
    }
    const bool is_framed = is_same_word(last, "chunked") && chunkings == 1;
    if (!is_framed) return error(400, "Transfer-Encoding does not define the end of the body");
    return HttpError{501, "the only supported transfer coding is chunked"};
  } else if (is_same_word(field.name, "connection")) {
    std::string_view options = field.value;
    while (!options.empty()) {
      const std::string_view option = next_word(options);
      close_ = close_ || is_same_word(option, "close");
      keep_alive_ = keep_alive_ || is_same_word(option, "keep-alive");
    }
  }
  return std::nullopt;
}

std::optional<HttpError> MessageFraming::finish(int version) const {
  if (chunked_ && version < 11) return error(400, "Transfer-Encoding is not allowed in HTTP/1.0");
  if (chunked_ && length_) return error(400, "both Transfer-Encoding and Content-Length are given");
  return std::nullopt;
}

// --- Chunks -------------------------------------------------------------------------------------

ChunkedBody::State ChunkedBody::fail(int status, std::string why) {
  error_ = {status, std::move(why)};
  return State::kBad;
}

ChunkedBody::State ChunkedBody::read(std::string_view& bytes, std::string& body) {
  while (!bytes.empty()) {
    if (stage_ == Stage::kContent) {
      const std::string_view piece = bytes.substr(0, left_);
      append_within(body, piece, limits_.body);
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (left_ == 0) stage_ = Stage::kContentEnd;
      continue;
    }
    bool is_complete = false;
    const State state = read_line(bytes, body, is_complete);
    if (state != State::kNeedMore || !is_complete) return state;
  }
  return State::kNeedMore;
}

ChunkedBody::State ChunkedBody::read_line(std::string_view& bytes, std::string& body,
                                          bool& is_complete) {
  const bool in_trailers = stage_ == Stage::kTrailers;
  const std::size_t room = in_trailers ? limits_.lines - trailers_ : limits_.framing - framing_;
  const std::size_t longest = stage_ == Stage::kContentEnd ? kLineEnd : limits_.lines;
  switch (lines_.read(bytes, std::min(room, longest))) {
    case LineReader::State::kNeedMore:
      if (stage_ == Stage::kContentEnd && !std::string_view("\r\n").starts_with(lines_.begun())) {
        return fail(400, kChunkTooLong);
      }
      return State::kNeedMore;
    case LineReader::State::kMalformed:
      return fail(400, "malformed HTTP: a line of the chunked body is not valid");
    case LineReader::State::kTooLong:
      if (in_trailers) {
        return fail(431, "the trailers are over " + std::to_string(limits_.lines) + " bytes");
      }
      if (longest == kLineEnd && room >= kLineEnd) return fail(400, kChunkTooLong);
      return fail(413, "the chunked body has too many bytes besides its content");
    case LineReader::State::kLine:
      break;
  }
  (in_trailers ? trailers_ : framing_) += lines_.size();
  is_complete = true;
  bool is_over = false;
  const State state = take_line(lines_.line(), body, is_over);
  lines_.next();
  return is_over ? State::kDone : state;
}

ChunkedBody::State ChunkedBody::take_line(std::string_view line, const std::string& body,
                                          bool& is_over) {
  if (stage_ == Stage::kTrailers) {
    is_over = line.empty();
    if (is_over || parse_field_line(line)) return State::kNeedMore;
    return fail(400, "malformed HTTP: a trailer is not a valid field");
  }
  if (stage_ == Stage::kContentEnd) {
    if (!line.empty()) return fail(400, kChunkTooLong);
    stage_ = Stage::kSize;
    return State::kNeedMore;
  }
  const std::size_t digits =
      std::min(line.find_first_not_of("0123456789abcdefABCDEF"), line.size());
  if (digits == 0 || !is_chunk_extension(line.substr(digits))) {
    return fail(400, "malformed HTTP: a chunk has no size");
  }
  const std::size_t room = limits_.body - body.size();
  std::size_t size = 0;
  for (const char digit : line.substr(0, digits)) {
    const int value = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
    size = size * 16 + static_cast<std::size_t>(value);
    // Checked before the next digit, which could make the size overflow.
    if (size > room) {
      return fail(413, "the body is over " + std::to_string(limits_.body) + " bytes");
    }
  }
  left_ = size;
  stage_ = left_ > 0 ? Stage::kContent : Stage::kTrailers;
  return State::kNeedMore;
}

}  // namespace harpe::net
