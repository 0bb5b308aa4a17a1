#include "harpe/net/http/http_message.h"

#include <array>

namespace harpe::net {

void ClientPresence::when_left(std::function<void()> work) {
  if (has_left_) return work();
  work_.push_back(std::move(work));
}

void ClientPresence::leave() {
  if (std::exchange(has_left_, true)) return;
  for (const std::function<void()>& work : std::exchange(work_, {})) work();
}

const char* reason_phrase(int status) {
  static constexpr std::array<std::pair<int, const char*>, 22> kPhrases{
      {{200, "OK"},
       {201, "Created"},
       {204, "No Content"},
       {400, "Bad Request"},
       {401, "Unauthorized"},
       {403, "Forbidden"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {408, "Request Timeout"},
       {409, "Conflict"},
       {413, "Content Too Large"},
       {414, "URI Too Long"},
       {417, "Expectation Failed"},
       {421, "Misdirected Request"},
       {422, "Unprocessable Content"},
       {429, "Too Many Requests"},
       {431, "Request Header Fields Too Large"},
       {500, "Internal Server Error"},
       {501, "Not Implemented"},
       {503, "Service Unavailable"},
       {504, "Gateway Timeout"},
       {505, "HTTP Version Not Supported"}}};
  for (const auto& [known, phrase] : kPhrases) {
    if (known == status) return phrase;
  }
  return "Status";
}

std::string http_head(const HttpResponse& response, int version, bool keep_alive) {
  std::string text = version == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  text += std::to_string(response.status) + " " + reason_phrase(response.status) + "\r\n";
  if (!response.content_type.empty()) {
    text += "Content-Type: " + response.content_type + "\r\n";
  }
  for (const auto& [name, value] : response.headers) text.append(name + ": " + value + "\r\n");
  if (response.stream != nullptr) {
    if (version != 10) text += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204) {  // RFC 9110 8.6
    text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  }
  text += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return text;
}

std::string http_text(const HttpResponse& response, int version, bool keep_alive) {
  std::string text = http_head(response, version, keep_alive);
  if (response.stream == nullptr) text += response.body;
  return text;
}

}  // namespace harpe::net
