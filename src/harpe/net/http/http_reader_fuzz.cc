// Bytes of a connection, cut into pieces of any size: the reader finds the same requests as a
// strict reader of another kind, which sees all bytes before it begins. No body is over its limit,
// and the reader's memory stays within the limit.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

using namespace harpe;  // NOLINT(google-build-using-namespace)

/// Small, so that inputs reach the limits.
constexpr std::size_t kHeader = 512, kBody = 16, kLargerBody = 64;

std::size_t body_limit(std::string_view path) {
  return path == "/l" ? kLargerBody : kBody;
}

struct Read {
  std::vector<std::string> requests;
  bool is_bad = false;
};

std::string text_of(const net::HttpRequest& request) {
  return request.method + "\n" + request.path + "\n" + request.query + "\n" +
         request.authorization + "\n" + request.forward_token + "\n" + request.body + "\n" +
         std::to_string(request.version) + (request.keep_alive ? "k" : "c") +
         (request.forwarded ? "f" : "");
}

/// Returns the result of the reader, given `step` bytes at a time.
Read read_all(std::string_view bytes, std::size_t step) {
  const net::HttpSizes sizes{
      .header = kHeader, .body = kBody, .body_of = [](std::string_view, std::string_view path) {
        return std::optional(body_limit(path));
      }};
  net::HttpReader reader(sizes);
  Read read;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    std::string_view piece = bytes.substr(at, step);
    net::HttpReader::State state = reader.read(piece);
    for (; state == net::HttpReader::State::kDone; state = reader.read(piece)) {
      require(reader.held() <= sizes.held(kLargerBody));
      const net::HttpRequest request = reader.take();
      require(request.body.size() <= body_limit(request.path));
      read.requests.push_back(text_of(request));
      static_cast<void>(net::HttpQuery::parse(request.query, {"a", "rank"}));
      require(reader.held() == 0 && !reader.begun());
    }
    require(reader.held() <= sizes.held(kLargerBody));
    require(reader.wanted() <= kLargerBody);
    if (state == net::HttpReader::State::kBad) {
      require(reader.bad().status >= 400 && !reader.bad().body.empty());
      read.is_bad = true;
      break;
    }
    require(piece.empty());
  }
  return read;
}

// --- The strict reader --------------------------------------------------------------------------
// It sees all bytes at once, checks for allowed rather than for forbidden text, and keeps
// everything until it is complete. Other readers may refuse an incomplete request earlier.

enum class Verdict { kGood, kIncomplete, kBad };

const std::string kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const std::string kNumbers = "0123456789";
const std::string kToken = kLetters + kNumbers + "!#$%&'*+-.^_`|~";
const std::string kHost = kLetters + kNumbers + "-._~%!$&'()*+,;=";

bool consists_of(std::string_view text, const std::string& allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

std::string small(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lowered;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + 1;
  }
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c == '\t' || (c >= 32 && c != 127); });
}

/// Removes the first line. \param room  its largest size with its end; reduced by its size
Verdict take_line(std::string_view& bytes, std::size_t& room, std::string_view& line) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos) {
    const bool half_ended = bytes.ends_with('\r');
    if (!is_visible(bytes.substr(0, bytes.size() - (half_ended ? 1 : 0)))) return Verdict::kBad;
    return bytes.size() > room ? Verdict::kBad : Verdict::kIncomplete;
  }
  line = bytes.substr(0, end);
  if (!is_visible(line) || end + 2 > room) return Verdict::kBad;
  room -= end + 2;
  bytes.remove_prefix(end + 2);
  return Verdict::kGood;
}

using Fields = std::vector<std::pair<std::string, std::string_view>>;

bool add_field(std::string_view line, Fields& fields) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !consists_of(line.substr(0, colon), kToken)) return false;
  fields.emplace_back(small(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  return true;
}

std::vector<std::string_view> values(const Fields& fields, std::string_view name) {
  std::vector<std::string_view> found;
  for (const auto& [known, value] : fields) {
    if (known == name) found.push_back(value);
  }
  return found;
}

bool is_address(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || !consists_of(text.substr(1, end - 1), kHost + ":")) {
      return false;
    }
    text.remove_prefix(end + 1);
    return text.empty() || text == ":" || (text[0] == ':' && consists_of(text.substr(1), kNumbers));
  }
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() > 2 || (!parts[0].empty() && !consists_of(parts[0], kHost))) return false;
  return parts.size() == 1 || parts[1].empty() || consists_of(parts[1], kNumbers);
}

bool set_target(std::string_view target, net::HttpRequest& request) {
  for (const unsigned char c : target) {
    if (c < 33 || c > 126 || c == '#') return false;
  }
  for (const std::string scheme : {"http://", "https://"}) {
    if (target.starts_with('/') || small(target.substr(0, scheme.size())) != scheme) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view address = rest.substr(0, rest.find_first_of("/?"));
    if (address.empty() || address[0] == ':' || !is_address(address)) return false;
    const std::string_view path = rest.substr(address.size());
    request.path = path.starts_with('/') ? "" : "/";
    target = path;
    if (!target.starts_with('/')) {
      request.query = target.empty() ? "" : target.substr(1);
      return true;
    }
    break;
  }
  if (!target.starts_with('/')) return false;
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  return true;
}

bool set_first_line(std::string_view line, net::HttpRequest& request) {
  const std::vector<std::string_view> parts = split(line, ' ');
  if (parts.size() != 3) return false;
  const std::vector<std::string> methods{"GET",   "HEAD",    "POST",  "PUT",  "DELETE",
                                         "PATCH", "OPTIONS", "QUERY", "TRACE"};
  if (std::find(methods.begin(), methods.end(), parts[0]) == methods.end()) return false;
  if (parts[2].size() != 8 || !parts[2].starts_with("HTTP/1.")) return false;
  if (!consists_of(parts[2].substr(7), kNumbers)) return false;
  request.method = parts[0];
  request.version = parts[2].back() == '0' ? 10 : 11;
  return set_target(parts[1], request);
}

bool set_fields(const Fields& fields, net::HttpRequest& request) {
  const auto hosts = values(fields, "host"), tokens = values(fields, "authorization");
  if (hosts.size() > 1 || (hosts.empty() && request.version == 11)) return false;
  if (!hosts.empty() && !is_address(hosts[0])) return false;
  if (tokens.size() > 1) return false;
  if (!tokens.empty()) request.authorization = tokens[0];
  for (const std::string_view value : values(fields, "harpe-forwarded")) {
    request.forwarded = true;
    request.forward_token = value;
  }
  for (const std::string_view value : values(fields, "expect")) {
    if (request.version == 11 && small(value) != "100-continue") return false;
  }
  bool close = false, keep = request.version == 11;
  for (const std::string_view value : values(fields, "connection")) {
    for (const std::string_view option : split(value, ',')) {
      close = close || small(trimmed(option)) == "close";
      keep = keep || small(trimmed(option)) == "keep-alive";
    }
  }
  request.keep_alive = keep && !close;
  return true;
}

/// Checks the text after the size of a chunk: nothing, or ;name, ;name=word, ;name="text".
bool is_extension(std::string_view text) {
  if (text.empty()) return true;
  std::size_t at = 0;
  const auto blanks = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  };
  const auto word = [&] {
    const std::size_t begin = at;
    while (at < text.size() && kToken.find(text[at]) != std::string::npos) ++at;
    return at > begin;
  };
  while (at < text.size()) {
    blanks();
    if (at == text.size() || text[at++] != ';') return false;
    blanks();
    if (!word()) return false;
    const std::size_t after = at;
    blanks();
    if (at == text.size() || text[at] != '=') {
      at = after;
      continue;
    }
    ++at;
    blanks();
    if (at < text.size() && text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      if (at >= text.size()) return false;
      ++at;
    } else if (!word()) {
      return false;
    }
  }
  return true;
}

Verdict take_chunks(std::string_view& bytes, std::size_t limit, std::string& body) {
  std::size_t framing = kHeader + limit;
  for (;;) {
    std::string_view line;
    std::size_t room = std::min(framing, kHeader);
    const std::size_t before = room;
    if (const Verdict is = take_line(bytes, room, line); is != Verdict::kGood) return is;
    framing -= before - room;
    const std::string_view digits =
        line.substr(0, line.find_first_not_of("0123456789abcdefABCDEF"));
    if (digits.empty() || !is_extension(line.substr(digits.size()))) return Verdict::kBad;
    const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size());
    if (digits.size() - first > 8) return Verdict::kBad;
    const std::size_t size =
        first == digits.size() ? 0 : std::stoul(std::string(digits.substr(first)), nullptr, 16);
    if (size > limit - body.size()) return Verdict::kBad;
    if (size == 0) break;
    if (bytes.size() < size) return Verdict::kIncomplete;
    body += bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (bytes.empty()) return Verdict::kIncomplete;
    if (bytes.size() > framing && framing < 2) return Verdict::kBad;
    if (bytes[0] != '\r' || (bytes.size() > 1 && bytes[1] != '\n')) return Verdict::kBad;
    if (bytes.size() < 2) return Verdict::kIncomplete;
    bytes.remove_prefix(2);
    framing -= 2;
  }
  std::size_t room = kHeader;
  for (Fields trailers;;) {
    std::string_view line;
    if (const Verdict is = take_line(bytes, room, line); is != Verdict::kGood) return is;
    if (line.empty()) return Verdict::kGood;
    if (!add_field(line, trailers)) return Verdict::kBad;
  }
}

Verdict take_body(std::string_view& bytes, const Fields& fields, net::HttpRequest& request) {
  const auto codings = values(fields, "transfer-encoding"),
             lengths = values(fields, "content-length");
  const std::size_t limit = body_limit(request.path);
  if (!codings.empty()) {
    const bool is_chunked = codings.size() == 1 && small(codings[0]) == "chunked";
    if (!is_chunked || !lengths.empty() || request.version == 10) return Verdict::kBad;
    return take_chunks(bytes, limit, request.body);
  }
  if (lengths.empty()) return Verdict::kGood;
  if (lengths.size() > 1 || !consists_of(lengths[0], kNumbers)) return Verdict::kBad;
  const std::size_t first = std::min(lengths[0].find_first_not_of('0'), lengths[0].size());
  const std::string digits(lengths[0].substr(first));
  if (digits.size() > 8) return Verdict::kBad;
  const std::size_t length = digits.empty() ? 0 : std::stoul(digits);
  if (length > limit) return Verdict::kBad;
  if (bytes.size() < length) return Verdict::kIncomplete;
  request.body = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return Verdict::kGood;
}

Verdict take_request(std::string_view& bytes, net::HttpRequest& request) {
  std::size_t room = kHeader;
  std::string_view line;
  do {
    if (const Verdict is = take_line(bytes, room, line); is != Verdict::kGood) return is;
  } while (line.empty());
  if (!set_first_line(line, request)) return Verdict::kBad;
  for (Fields fields;;) {
    if (const Verdict is = take_line(bytes, room, line); is != Verdict::kGood) return is;
    if (line.empty()) {
      return set_fields(fields, request) ? take_body(bytes, fields, request) : Verdict::kBad;
    }
    if (!add_field(line, fields)) return Verdict::kBad;
  }
}

Read read_strictly(std::string_view bytes) {
  Read read;
  while (!bytes.empty()) {
    net::HttpRequest request;
    const Verdict is = take_request(bytes, request);
    read.is_bad = is == Verdict::kBad;
    if (is != Verdict::kGood) break;
    read.requests.push_back(text_of(request));
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read whole = read_all(bytes, bytes.size() + 1);
  const Read pieces = read_all(bytes, 1 + data[0]);
  const Read strictly = read_strictly(bytes);
  require(pieces.requests == whole.requests && pieces.is_bad == whole.is_bad);
  require(whole.requests == strictly.requests);
  require(whole.is_bad || !strictly.is_bad);
  return 0;
}
