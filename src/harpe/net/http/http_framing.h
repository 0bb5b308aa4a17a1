#pragma once
/// \file
/// What requests and responses of HTTP/1.x have in common: lines, fields, and where a body ends
/// (RFC 9112 2.2, 5, 6 and 7). Strict: where the specification leaves a choice between refusing and
/// mending, it refuses, so that nothing before or behind Harpe can see other messages than Harpe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harpe::net {

/// What is wrong with a message, as a status and for people.
struct HttpError {
  int status = 400;
  std::string why;
};

/// Appends, with no more memory than `most` bytes: strings double what they take.
/// The result must not be longer than `most`.
void append_within(std::string& text, std::string_view more, std::size_t most);

bool is_http_token(std::string_view text);
/// Whether two texts are the same but for the case of ASCII letters.
bool is_same_word(std::string_view a, std::string_view b);

/// One line of a header: "Name: value", without white space around the value.
struct FieldLine {
  std::string_view name, value;
};
/// None: malformed. That has no control characters but tabs is known already.
std::optional<FieldLine> parse_field_line(std::string_view line);

/// Puts lines together that come in pieces. A line ends with CR LF; no other control character but
/// a tab may be in it.
class LineReader {
 public:
  enum class State : unsigned char { kNeedMore, kLine, kMalformed, kTooLong };

  /// Takes bytes from the front of `bytes`, until a line is complete. \param most  bytes, with its
  /// end
  State read(std::string_view& bytes, std::size_t most);
  /// The complete line without its end, until `next`.
  std::string_view line() const { return std::string_view(text_).substr(0, text_.size() - 2); }
  /// How much of it has come.
  std::size_t size() const { return text_.size(); }
  std::string_view begun() const { return text_; }
  void next() { text_.clear(); }
  std::size_t held() const { return text_.capacity(); }

 private:
  std::string text_;
};

/// What the fields of a header say of the body and of the connection.
class MessageFraming {
 public:
  /// Takes what it needs of a field, ignores others.
  std::optional<HttpError> add(const FieldLine& field);
  /// After the last. \param version  10 or 11
  std::optional<HttpError> finish(int version) const;

  bool chunked() const { return chunked_; }
  /// None: not said; larger than can be counted: the most that can.
  std::optional<std::uint64_t> length() const { return length_; }
  bool stays_open(int version) const { return !close_ && (version > 10 || keep_alive_); }

 private:
  std::optional<std::uint64_t> length_;
  bool chunked_ = false, close_ = false, keep_alive_ = false;
};

/// Takes a body apart that comes in chunks. Extensions and trailers are checked, counted and thrown
/// away.
class ChunkedBody {
 public:
  struct Limits {
    std::size_t body = 0;  ///< bytes of content
    /// Bytes of sizes, extensions and line ends. One line, and all trailers together, have no more
    /// than `lines`.
    std::size_t framing = 0;
    std::size_t lines = 0;
  };
  enum class State : unsigned char { kNeedMore, kDone, kBad };

  explicit ChunkedBody(const Limits& limits) : limits_(limits) {}

  /// Takes bytes from the front of `bytes`; content is appended to `body`.
  State read(std::string_view& bytes, std::string& body);
  const HttpError& error() const { return error_; }
  /// How many bytes are of this body for certain.
  std::size_t wanted() const { return left_; }
  std::size_t held() const { return lines_.held(); }

 private:
  enum class Stage : unsigned char { kSize, kContent, kContentEnd, kTrailers };
  State fail(int status, std::string why);
  State read_line(std::string_view& bytes, std::string& body, bool& is_complete);
  State take_line(std::string_view line, const std::string& body, bool& is_over);

  Limits limits_;
  Stage stage_ = Stage::kSize;
  LineReader lines_;
  std::size_t left_ = 0;     ///< bytes of the chunk under way that are still to come
  std::size_t framing_ = 0;  ///< bytes that were no content
  std::size_t trailers_ = 0;
  HttpError error_;
};

}  // namespace harpe::net
