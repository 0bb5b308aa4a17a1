#include "simulation/rank.h"

#include <algorithm>
#include <utility>

#include "harpe/training/client/pause_board.h"

namespace harpe::simulation {
namespace {

// The values of the client.
constexpr Seconds kResponseTimeout{10}, kSilence{60};
constexpr Seconds kShortestPause{1e-3};

}  // namespace

Rank::Rank(Process& process, Network& network, std::string address,
           training::ServerSessionOptions options, std::size_t instructions)
    : process_(process),
      link_(*this, network, std::move(address)),
      book_(instructions),
      session_(std::move(options), link_, process.clock(), listener()) {
  process_.loop().post([this] { move_on(); });
}

training::ServerSession::Listener Rank::listener() {
  return {.assignments =
              [this](const std::vector<training::StageAssignment>& assignments) {
                for (const training::StageAssignment& one : assignments) {
                  (void)book_.add(one);
                  pauses_.take(one);
                }
              },
          .forget =
              [this] {
                book_.clear();
                pauses_.clear();
                forgotten_ = process_.clock().now();
              },
          .log = [](const std::string&) {},
          .governed =
              [this](bool governed) {
                governed_ = governed;
                alone_since_ = process_.clock().now();
              },
          .reached = [this] { return reached_; }};
}

void Rank::pause(const training::PauseRequest& pause, std::int64_t iteration) {
  pauses_.follow(pause);
  paused_ = pause;
  paused_before_ = iteration;
  process_.loop().post([this] {
    session_.pausing(paused_ ? paused_->number : 0);
    move_on();
  });
}

/// Uses the rule of the client (pause_board.h).
bool Rank::is_pausing() {
  if (!paused_) return false;
  const bool is_alone =
      !governed_ && process_.clock().now() - alone_since_ >= training::PauseBoard::kAlone;
  if (!is_alone && pauses_.lasts(*paused_, paused_before_)) return true;
  paused_.reset();
  reached_ = paused_before_;
  process_.loop().post([this] { session_.pausing(0); });
  return false;
}

std::optional<training::StageAssignment> Rank::in_force(std::int64_t iteration) const {
  const training::StageAssignment* assignments = governed_ ? book_.in_force(iteration) : nullptr;
  return assignments != nullptr ? std::optional(*assignments) : std::nullopt;
}

Seconds Rank::unconfirmed() const {
  return process_.clock().now() - std::max(heard_, went_on_);
}

void Rank::report(training::IterationReport report, Instant began) {
  if (began < forgotten_) report.version = 0;
  const std::int64_t iteration = report.iteration;
  session_.report(std::move(report));
  book_.forget_before(iteration);
  move_on();
}

void Rank::end() {
  session_.end();
  move_on();
}

void Rank::move_on() {
  session_.tick();
  const Instant now = process_.clock().now();
  const Seconds pause = std::max(session_.next() - now, kShortestPause);
  process_.loop().after(pause, [this, turn = ++turn_] {
    if (turn == turn_) move_on();
  });
}

// --- The connection to the server ---------------------------------------------------------------

struct Rank::Link::Stream {
  std::weak_ptr<Network::Exchange> exchange;  ///< the owner of this
  std::function<void(std::string_view)> bytes;
  std::function<void(net::HttpResult)> ended;
  Instant heard;
  bool over = false;
};

net::HttpRequest Rank::Link::request(const std::string& method, const std::string& target,
                                     std::string body) const {
  net::HttpRequest request;
  request.method = method;
  const std::size_t query = target.find('?');
  request.path = target.substr(0, query);
  if (query != std::string::npos) request.query = target.substr(query + 1);
  request.body = std::move(body);
  return request;
}

void Rank::Link::send(const std::string& method, const std::string& path, std::string body,
                      std::function<void(net::HttpResult)> done) {
  network_.ask(
      rank_.process_, address_, request(method, path, std::move(body)), kResponseTimeout,
      {.answered = [this, done = std::move(done)](const Result<net::HttpResponse>& response) {
        if (response.ok()) {
          if (response->status < 300) rank_.heard_ = rank_.process_.clock().now();
          done({.status = response->status, .body = response->body, .failure = {}});
        } else {
          done({.status = 0, .body = {}, .failure = response.error().text()});
        }
        rank_.move_on();
      }});
}

void Rank::Link::listen(const std::string& path, std::function<void(std::string_view)> bytes,
                        std::function<void(net::HttpResult)> ended) {
  stop_listening();
  const auto stream = std::make_shared<Stream>();
  stream->bytes = std::move(bytes);
  stream->ended = std::move(ended);
  stream->heard = rank_.process_.clock().now();
  stream_ = stream;
  const auto end = [this, stream](net::HttpResult response) {
    if (std::exchange(stream->over, true)) return;
    stream->ended(std::move(response));
    rank_.move_on();
  };
  stream->exchange = network_.ask(
      rank_.process_, address_, request("GET", path, {}), kSilence,
      {.answered =
           [end](const Result<net::HttpResponse>& response) {
             if (!response.ok())
               return end({.status = 0, .body = {}, .failure = response.error().text()});
             if (response->content_type != "text/event-stream") {
               end({.status = response->status, .body = response->body, .failure = {}});
             }
           },
       .bytes =
           [this, stream](const std::string& text) {
             if (stream->over) return;
             stream->heard = rank_.heard_ = rank_.process_.clock().now();
             stream->bytes(text);
             rank_.move_on();
           },
       .ended =
           [end](const std::string& why) { end({.status = 200, .body = {}, .failure = why}); }});
  watch_silence(stream);
}

void Rank::Link::watch_silence(const std::shared_ptr<Stream>& stream) {
  const Instant until = stream->heard + kSilence;
  rank_.process_.loop().after(until - rank_.process_.clock().now(), [this, stream, until] {
    if (stream->over) return;
    if (stream->heard + kSilence > until) return watch_silence(stream);
    if (const auto exchange = stream->exchange.lock()) exchange->leave();
    stream->over = true;
    stream->ended({.status = 0, .body = {}, .failure = "the stream is silent"});
    rank_.move_on();
  });
}

void Rank::Link::stop_listening() {
  if (stream_ == nullptr || std::exchange(stream_->over, true)) return;
  if (const auto exchange = stream_->exchange.lock()) exchange->leave();
}

}  // namespace harpe::simulation
