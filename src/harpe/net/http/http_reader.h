#pragma once
/// \file
/// Parser of HTTP/1.x requests from the bytes of one connection (RFC 9112). Strict: a request that
/// breaks a rule is refused and the connection ends, so that no proxy can interpret the same bytes
/// as other requests.
///
/// Refused although the specification would allow them: lines that end without CR, lists of equal
/// lengths, any Transfer-Encoding except the single word "chunked", user names in URLs, and
/// repeated fields that must occur once (Host, Authorization).

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"

namespace harpe::net {

/// Limits of the size of one request; every byte of it counts.
struct HttpSizes {
  /// Bytes from the first to the end of the header, including empty lines before the request line.
  /// The same limit applies to one line of a chunked body, and to all trailers together.
  std::size_t header = 16 * 1024;
  std::size_t body = 64 * 1024;  ///< bytes of content, unless `body_of` returns another limit
  /// Returns the limit of some routes.
  /// \param method  "POST"
  /// \param path    as received
  std::function<std::optional<std::size_t>(std::string_view method, std::string_view path)>
      body_of = {};

  /// Limit of the sizes, extensions and line ends of chunks. With the smallest chunks they are
  /// several times the content, with usual ones a thousandth.
  std::size_t framing(std::size_t content) const { return header + content; }
  /// Most bytes that a reader holds for a request with this much content: a line, the kept part of
  /// earlier lines, and the content.
  std::size_t held(std::size_t content) const { return 2 * header + content + 256; }
};

/// Not thread-safe. An idle reader holds no memory.
class HttpReader {
 public:
  enum class State : unsigned char {
    kNeedMore,  ///< call `read` with more bytes
    kDone,      ///< call `take` for the request
    kBad,       ///< respond with `bad` and close the connection
  };

  /// \param sizes  must outlive the reader
  explicit HttpReader(const HttpSizes& sizes);
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Consumes bytes from the front of `bytes`, at most to the end of a request: the remaining bytes
  /// belong to the next one.
  State read(std::string_view& bytes);
  /// Returns the request, without its peer. The reader is then at the start of the next request.
  HttpRequest take();
  /// Returns, once, the current request without its body, if the body is not complete yet.
  std::optional<HttpRequest> take_head();
  /// Returns true if bytes of a request have arrived.
  bool begun() const { return parser_ != nullptr; }
  /// Returns true if bytes other than empty lines have arrived.
  bool asked() const;
  /// Returns true if the header is complete.
  bool in_body() const;
  /// True once for a request whose client waits for "100 Continue" before it sends the body.
  bool take_continue();
  /// Returns the number of bytes that the body is known to lack.
  std::size_t wanted() const;
  /// Returns the bytes of memory that grow with the request; at most `HttpSizes::held`.
  std::size_t held() const;
  /// Returns the response in state kBad.
  const HttpResponse& bad() const;
  /// Returns true if the response to the current request must have no body (HEAD).
  bool is_head() const;
  /// Discards the current request.
  void reset();

 private:
  struct Parser;
  const HttpSizes& sizes_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace harpe::net
