#pragma once
/// \file
/// Bytes of one connection to the response of another server (RFC 9112). As strict as `HttpReader`.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

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
  HttpResponseReader(const Limits& limits, bool to_head);
  ~HttpResponseReader();
  HttpResponseReader(HttpResponseReader&&) noexcept;
  HttpResponseReader& operator=(HttpResponseReader&&) noexcept;

  /// Takes bytes from the front of `bytes`, at most to the end of the response.
  State read(std::string_view& bytes);
  /// The connection has ended: kDone where that ends the body, else kBad.
  State end();

  /// Status and header as far as they are handed on, and the body. Once.
  HttpResponse take();
  int status() const;
  /// Whether another request may follow on the connection.
  bool keep_alive() const;
  const std::string& why() const;
  /// Bytes of memory that grow with what is sent.
  std::size_t held() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace harpe::net
