#pragma once
/// \file
/// Bytes of one connection to the response of another server (RFC 9112). As strict as `HttpReader`.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harpe/net/http/http_framing.h"
#include "harpe/net/http/http_message.h"

namespace harpe::net {

/// Of one response. Not thread-safe.
class HttpResponseReader {
 public:
  struct Limits {
    /// Bytes of header, with those of interim responses (1xx); and of one line of a chunked body,
    /// and of its trailers.
    std::size_t header = 64 * 1024;
    std::size_t body = 0;  ///< bytes of content
  };
  enum class State : unsigned char {
    kNeedMore,  ///< give it more bytes
    kHead,      ///< once: the header is complete, and what is left is of the body
    kDone,      ///< `take` it
    kBad,       ///< no response that can be understood: see `why`
  };

  /// \param to_head  it responds to a HEAD: there is no body
  HttpResponseReader(const Limits& limits, bool to_head) : limits_(limits), to_head_(to_head) {}

  /// Takes bytes from the front of `bytes`, at most to the end of the response.
  State read(std::string_view& bytes);
  /// The connection has ended: kDone where that ends the body, else kBad.
  State end();

  /// Status and header as far as they are handed on, and the body. Once.
  HttpResponse take() { return std::move(response_); }
  int status() const { return response_.status; }
  /// Whether another request may follow on the connection.
  bool keep_alive() const { return framing_.stays_open(version_); }
  const std::string& why() const { return why_; }
  /// Bytes of memory that grow with what is sent.
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
  std::size_t length_ = 0;  ///< bytes of the body, or the most where it ends with the connection
  std::optional<ChunkedBody> chunks_;
  std::string why_;
};

}  // namespace harpe::net
