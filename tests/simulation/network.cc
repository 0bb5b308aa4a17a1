#include "simulation/network.h"

#include <algorithm>

namespace harpe::simulation {

void Network::serve(const std::string& address, Process* process, Handler handler) {
  Served& served = served_[address];
  // Connections end with the process that owned them.
  for (const auto& [number, exchange] : std::exchange(served.open, {})) {
    exchange->closed_ = true;
    exchange->stream_.reset();
    to_client(exchange, [this, one = exchange] { fail(one, "the connection was reset"); });
  }
  served.process = process;
  served.handler = std::move(handler);
}

void Network::cut(const std::string& a, const std::string& b) {
  cut_.insert(way(a, b));
}

bool Network::is_cut(const std::string& a, const std::string& b) const {
  return cut_.contains(way(a, b));
}

void Network::heal(const std::string& a, const std::string& b) {
  cut_.erase(way(a, b));
  const auto held = held_.find(way(a, b));
  if (held == held_.end()) return;
  for (std::function<void()>& arrives : std::exchange(held->second, {})) arrives();
}

void Network::heal_all() {
  for (const auto& [a, b] : std::set<Way>(cut_)) heal(a, b);
}

/// \param last  arrival of the previous message on this connection
void Network::carry(const std::string& from, const std::string& to, Instant& last,
                    std::function<void()> arrives) {
  last = std::max(last, scheduler_.now() + random_.around(quality.soonest, quality.latest));
  scheduler_.at(last, [this, from, to, arrives = std::move(arrives)]() mutable {
    if (is_cut(from, to)) return held_[way(from, to)].push_back(std::move(arrives));
    arrives();
  });
}

Network::ExchangePtr Network::ask(Process& client, const std::string& address,
                                  net::HttpRequest request, Seconds timeout, Client hears) {
  request.client = client.name();
  const auto exchange = std::make_shared<Exchange>(*this, ++last_number_, client, address,
                                                   std::move(request), std::move(hears));
  client.loop().after(timeout, [this, exchange] {
    if (exchange->answered_ || exchange->over_) return;
    fail(exchange, "no response in time");
  });
  if (random_.chance(quality.breaks)) {
    to_client(exchange, [this, exchange] { fail(exchange, "the connection broke"); });
    return exchange;
  }
  carry(client.name(), address, exchange->last_to_server_, [this, exchange] { arrive(exchange); });
  return exchange;
}

void Network::arrive(const ExchangePtr& exchange) {
  if (exchange->over_ || exchange->client_.dead()) return;
  Served& served = served_[exchange->address_];
  if (served.process == nullptr || served.process->dead() || !served.handler) {
    return to_client(exchange, [this, exchange] { fail(exchange, "connection refused"); });
  }
  served.open.emplace(exchange->number_, exchange);
  exchange->arrived_ = true;
  exchange->presence_ = std::make_shared<net::ClientPresence>();
  // Handled when the server's loop is free.
  served.process->loop().post([this, exchange, handler = served.handler] {
    if (exchange->closed_) return;
    net::HttpRequest request = exchange->request_;
    request.presence = exchange->presence_;
    handler(std::move(request), [this, exchange](net::HttpResponse response) {
      respond(exchange, std::move(response));
    });
  });
}

/// Runs on the server's loop.
void Network::respond(const ExchangePtr& exchange, net::HttpResponse response) {
  if (exchange->closed_) return;
  if (response.before_sending) std::exchange(response.before_sending, nullptr)(response);
  exchange->handed_on_ = std::ranges::any_of(
      response.headers, [](const auto& header) { return header.first == kHandedOn; });
  if (watch) {
    watch(exchange->address_, exchange->request_, response.status, response.body,
          exchange->handed_on_);
  }
  exchange->stream_ = std::exchange(response.stream, nullptr);
  const bool breaks = exchange->stream_ == nullptr && random_.chance(quality.breaks);
  const bool streams = exchange->stream_ != nullptr;
  to_client(exchange, [this, exchange, breaks, streams, response = std::move(response)]() mutable {
    if (breaks) return fail(exchange, "the connection broke");
    if (exchange->over_ || exchange->answered_) return;
    exchange->answered_ = true;
    if (!streams) exchange->over_ = true;
    exchange->hears_.answered(std::move(response));
  });
  if (exchange->stream_ == nullptr) return close(exchange);
  Process* const server = served_[exchange->address_].process;
  exchange->stream_->start([this, server, weak = std::weak_ptr(exchange)] {
    const ExchangePtr one = weak.lock();
    if (one == nullptr || one->closed_ || std::exchange(one->draining_, true)) return;
    server->loop().post([this, one] {
      one->draining_ = false;
      drain(one);
    });
  });
}

void Network::drain(const ExchangePtr& exchange) {
  if (exchange->closed_) return;
  const std::shared_ptr<net::EventStream> stream = exchange->stream_;
  const bool ended = stream->ended();
  std::string bytes = stream->take();
  if (!bytes.empty()) {
    if (watch) {
      watch(exchange->address_, exchange->request_, 200, bytes, exchange->handed_on_);
    }
    to_client(exchange, [exchange, bytes = std::move(bytes)] {
      if (!exchange->over_) exchange->hears_.bytes(bytes);
    });
  }
  if (!ended) return;
  close(exchange);
  to_client(exchange, [exchange] {
    if (std::exchange(exchange->over_, true)) return;
    exchange->hears_.ended("the server ended it");
  });
}

void Network::to_client(const ExchangePtr& exchange, std::function<void()> work) {
  Process& client = exchange->client_;
  carry(exchange->address_, client.name(), exchange->last_to_client_,
        [&client, work = std::move(work)]() mutable { client.loop().post(std::move(work)); });
}

/// Runs on the client's loop.
void Network::fail(const ExchangePtr& exchange, const std::string& why) {
  if (std::exchange(exchange->over_, true)) return;
  leave(exchange);
  if (exchange->answered_) return exchange->hears_.ended(why);
  exchange->answered_ = true;
  exchange->hears_.answered(Error::of(ErrorCode::kUnavailable, why));
}

void Network::leave(const ExchangePtr& exchange) {
  exchange->over_ = true;
  carry(exchange->client_.name(), exchange->address_, exchange->last_to_server_, [this, exchange] {
    Process* const server = served_[exchange->address_].process;
    if (server == nullptr || !exchange->arrived_ || exchange->closed_) return;
    server->loop().post([this, exchange] {
      if (exchange->closed_) return;
      close(exchange);
      exchange->presence_->leave();
    });
  });
}

void Network::close(const ExchangePtr& exchange) {
  exchange->closed_ = true;
  exchange->stream_.reset();
  served_[exchange->address_].open.erase(exchange->number_);
}

}  // namespace harpe::simulation
