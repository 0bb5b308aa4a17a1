#pragma once
/// \file
/// The syntax that HTTP/1.x requests and responses share: lines, fields, and the end of a body (RFC
/// 9112 2.2, 5, 6 and 7). Strict: if the specification allows refusing or repairing, Harpe refuses,
/// so that no program before or behind it can see other messages than it does.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harpe::net {

/// An error in a message, as a status and a text for people.
struct HttpError {
  int status = 400;
  std::string why;
};

/// Appends `more` without allocating more than `most` bytes; a plain append may double the
/// capacity. The result must not be longer than `most`.
void append_within(std::string& text, std::string_view more, std::size_t most);

bool is_http_token(std::string_view text);
/// Returns true if two texts are equal except for the case of ASCII letters.
bool is_same_word(std::string_view a, std::string_view b);

/// One line of a header: "Name: value", without white space around the value.
struct FieldLine {
  std::string_view name, value;
};
/// Parses a line that has no control characters except tabs. Nullopt if it is malformed.
std::optional<FieldLine> parse_field_line(std::string_view line);

/// Assembler of lines from pieces. A line ends with CR LF and has no control characters but tabs.
class LineReader {
 public:
  enum class State : unsigned char { kNeedMore, kLine, kMalformed, kTooLong };

  /// Consumes bytes from the front of `bytes` until a line is complete.
  /// \param most  longest line in bytes, with its end
  State read(std::string_view& bytes, std::size_t most);
  /// Returns the complete line without its end. Valid until `next`.
  std::string_view line() const { return std::string_view(text_).substr(0, text_.size() - 2); }
  /// Returns the number of bytes of the line so far.
  std::size_t size() const { return text_.size(); }
  std::string_view begun() const { return text_; }
  void next() { text_.clear(); }
  std::size_t held() const { return text_.capacity(); }

 private:
  std::string text_;
};

/// The facts about body and connection that the fields of a header state.
class MessageFraming {
 public:
  /// Reads a field; ignores fields that do not concern body or connection.
  std::optional<HttpError> add(const FieldLine& field);
  /// Checks the header after its last field.
  /// \param version  10 or 11
  std::optional<HttpError> finish(int version) const;

  bool chunked() const { return chunked_; }
  /// Returns the Content-Length, at most the largest number; nullopt if there is none.
  std::optional<std::uint64_t> length() const { return length_; }
  bool stays_open(int version) const { return !close_ && (version > 10 || keep_alive_); }

 private:
  std::optional<std::uint64_t> length_;
  bool chunked_ = false, close_ = false, keep_alive_ = false;
};

/// Decoder of a body in chunks. Extensions and trailers are checked, counted and discarded.
class ChunkedBody {
 public:
  struct Limits {
    std::size_t body = 0;  ///< bytes of content
    /// Bytes of sizes, extensions and line ends. One line, and all trailers together, may have at
    /// most `lines` bytes.
    std::size_t framing = 0;
    std::size_t lines = 0;
  };
  enum class State : unsigned char { kNeedMore, kDone, kBad };

  explicit ChunkedBody(const Limits& limits) : limits_(limits) {}

  /// Consumes bytes from the front of `bytes`, and appends content to `body`.
  State read(std::string_view& bytes, std::string& body);
  const HttpError& error() const { return error_; }
  /// Returns the number of bytes known to belong to this body.
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
  std::size_t left_ = 0;     ///< bytes that the current chunk lacks
  std::size_t framing_ = 0;  ///< bytes that are not content
  std::size_t trailers_ = 0;
  HttpError error_;
};

}  // namespace harpe::net
