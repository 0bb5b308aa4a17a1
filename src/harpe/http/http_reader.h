#pragma once
/// \file
/// Bytes of one connection to HTTP/1.x requests, one after the other (RFC 9112).

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/http/http_message.h"

namespace harpe {

/// How much a client may send in one request.
struct HttpSizes {
  std::size_t header = 16 * 1024;  ///< bytes
  std::size_t body = 64 * 1024;    ///< bytes, where `body_of` says nothing else
  /// More, or less, for some routes. \param method  "POST"; \param path  as it was sent
  std::function<std::optional<std::size_t>(std::string_view method, std::string_view path)>
      body_of = {};
};

/// Not thread-safe. An idle reader holds no memory.
class HttpReader {
 public:
  enum class State : unsigned char {
    kNeedMore,  ///< give it more bytes
    kDone,      ///< `take` the request
    kBad,       ///< not HTTP: answer `bad` and close
  };

  /// \param sizes  must outlive the reader
  explicit HttpReader(const HttpSizes& sizes);
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Reads on. Bytes after the end of a request are kept for the next one.
  State put(std::string_view bytes);
  /// The request read, without its peer. The reader then is at the start of the next.
  HttpRequest take();
  /// The request under way without its body, once, when that is still to come.
  std::optional<HttpRequest> take_head();
  /// Whether a request has begun.
  bool begun() const;
  /// True once for a request whose client waits for "100 Continue" before it sends the body.
  bool wants_continue();
  /// What to answer when the state is kBad.
  const HttpResponse& bad() const { return bad_; }

 private:
  struct Parser;
  State fail(int status, const std::string& why);
  /// The header was read: sets the limit of the body by its route. False: it is over already.
  bool begin_body();
  State fail_body();

  const HttpSizes& sizes_;
  std::unique_ptr<Parser> parser_;
  std::string pending_;
  HttpResponse bad_;
};

}  // namespace harpe
