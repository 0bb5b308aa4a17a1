#pragma once
/// \file
/// Bytes of one connection to HTTP/1.x requests, one after the other (RFC 9112). Strict: what
/// breaks a rule is refused and the connection ends, so that no other program on the way can take
/// the same bytes for other requests.
///
/// Refused although the specification would let it pass: lines that end without CR, lists of equal
/// lengths, any Transfer-Encoding but the one word "chunked", user names in URLs, and fields that
/// must be there once (Host, Authorization) and are there twice.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/http/http_message.h"

namespace harpe::net {

/// How much a client may send in one request: every byte of it counts.
struct HttpSizes {
  /// Bytes from the first to the end of the header, empty lines before the request line included.
  /// As many again in one line of a chunked body, and in all trailers together.
  std::size_t header = 16 * 1024;
  std::size_t body = 64 * 1024;  ///< bytes of content, where `body_of` says nothing else
  /// More, or less, for some routes. \param method  "POST"; \param path  as it was sent
  std::function<std::optional<std::size_t>(std::string_view method, std::string_view path)>
      body_of = {};

  /// Sizes, extensions and line ends of chunks: with the smallest chunks, as many bytes as content
  /// several times over, with usual ones a thousandth.
  std::size_t framing(std::size_t content) const { return header + content; }
  /// The most that a reader holds of a request with so much content: a line, what was kept of
  /// those before, and content.
  std::size_t held(std::size_t content) const { return 2 * header + content + 256; }
};

/// Not thread-safe. An idle reader holds no memory.
class HttpReader {
 public:
  enum class State : unsigned char {
    kNeedMore,  ///< give it more bytes
    kDone,      ///< `take` the request
    kBad,       ///< respond with `bad` and close
  };

  /// \param sizes  must outlive the reader
  explicit HttpReader(const HttpSizes& sizes);
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Takes bytes from the front of `bytes`, at most to the end of a request: what is left is of the
  /// next one.
  State read(std::string_view& bytes);
  /// The request read, without its peer. The reader then is at the start of the next.
  HttpRequest take();
  /// The request under way without its body, once, when that is still to come.
  std::optional<HttpRequest> take_head();
  /// Whether anything of a request has come.
  bool begun() const { return parser_ != nullptr; }
  /// Whether anything but empty lines has come.
  bool asked() const;
  /// Whether the header is complete.
  bool in_body() const;
  /// True once for a request whose client waits for "100 Continue" before it sends the body.
  bool take_continue();
  /// How many bytes of the body are to come for certain.
  std::size_t wanted() const;
  /// Bytes of memory that grow with what is sent; never more than `HttpSizes::held`.
  std::size_t held() const;
  /// What to respond when the state is kBad.
  const HttpResponse& bad() const;
  /// Whether the request under way wants no body for a response (HEAD).
  bool is_head() const;
  /// Forgets the request under way.
  void reset();

 private:
  struct Parser;
  const HttpSizes& sizes_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace harpe::net
