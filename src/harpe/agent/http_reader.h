#pragma once
/// \file
/// Bytes of one connection to HTTP/1.x requests, one after the other (RFC 9112).

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "harpe/agent/http_message.h"

namespace harpe {

/// Not thread-safe. An idle reader holds no memory.
class HttpReader {
 public:
  static constexpr std::size_t kHeaderLimit = 16 * 1024;
  static constexpr std::size_t kBodyLimit = 64 * 1024;

  enum class State : unsigned char {
    kNeedMore,  ///< give it more bytes
    kDone,      ///< `take` the request
    kBad,       ///< not HTTP: answer `bad` and close
  };

  HttpReader();
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Reads on. Bytes after the end of a request are kept for the next one.
  State put(std::string_view bytes);
  /// The request read, without its peer. The reader then is at the start of the next.
  HttpRequest take();
  /// Whether a request has begun.
  bool begun() const;
  /// True once for a request whose client waits for "100 Continue" before it sends the body.
  bool wants_continue();
  /// What to answer when the state is kBad.
  const HttpResponse& bad() const { return bad_; }

 private:
  struct Parser;
  State fail(int status, const std::string& why);

  std::unique_ptr<Parser> parser_;
  std::string pending_;
  HttpResponse bad_;
};

}  // namespace harpe
