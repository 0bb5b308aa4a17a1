#pragma once
/// \file
/// Parser of another server's response from the bytes of one connection (RFC 9112). As strict as
/// `HttpReader`.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/net/http/http_framing.h"
#include "harpe/net/http/http_message.h"

namespace harpe::net {

/// Reader of one response. Not thread-safe.
class HttpResponseReader {
 public:
  struct Limits {
    /// Bytes of the header, including interim responses (1xx). The same limit applies to one line
    /// of a chunked body, and to its trailers.
    std::size_t header = 64 * 1024;
    std::size_t body = 0;  ///< bytes of content
  };
  enum class State : unsigned char {
    kNeedMore,  ///< call `read` with more bytes
    kHead,      ///< once: the header is complete; the remaining bytes belong to the body
    kDone,      ///< call `take`
    kBad,       ///< not a valid response: see `why`
  };

  /// \param to_head  true for the response to a HEAD, which has no body
  HttpResponseReader(const Limits& limits, bool to_head) : limits_(limits), to_head_(to_head) {}

  /// Consumes bytes from the front of `bytes`, at most to the end of the response.
  State read(std::string_view& bytes);
  /// Handles the end of the connection. Returns kDone if that ends the body, otherwise kBad.
  State end();

  /// Returns, once, the status, the forwarded part of the header, and the body.
  HttpResponse take() { return std::move(response_); }
  int status() const { return response_.status; }
  /// Returns true if another request may follow on the connection.
  bool keep_alive() const { return framing_.stays_open(version_); }
  const std::string& why() const { return why_; }
  /// Returns the bytes of memory that grow with the response.
  std::size_t held() const;

 private:
  enum class Stage : unsigned char { kStatusLine, kFields, kLength, kChunks, kToTheEnd, kWhole };

  State fail(std::string reason);
  State fail_body();
  State read_header(std::string_view& bytes);
  State take_status_line(std::string_view text);
  State take_field(std::string_view text);
  State finish_header();

  Limits limits_;
  bool to_head_;
  Stage stage_ = Stage::kStatusLine;
  LineReader line_;
  std::size_t header_ = 0;  ///< bytes of complete lines
  int version_ = 11;
  HttpResponse response_;
  MessageFraming framing_;
  std::size_t length_ = 0;  ///< bytes of the body; the limit if the connection's end ends it
  std::optional<ChunkedBody> chunks_;
  std::string why_;
};

}  // namespace harpe::net
