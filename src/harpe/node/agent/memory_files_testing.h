#pragma once
/// \file
/// The agent's files in memory, for tests: they fail on request, and outlive an agent as files do.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/saved_state.h"

namespace harpe::node {

/// The content of a state file. Several storages may use it, one after the other.
struct MemoryState {
  std::optional<std::string> text;
  bool writable = true;
};

class MemoryStorage final : public StateStorage {
 public:
  explicit MemoryStorage(std::shared_ptr<MemoryState> state) : state_(std::move(state)) {}
  std::string name() const override { return "memory"; }
  Result<std::optional<std::string>> load() override { return state_->text; }
  Status replace(std::string_view text) override {
    if (!state_->writable) return Error::io("memory", "cannot write: No space left on device");
    state_->text = text;
    return ok_status();
  }
  Result<std::string> set_aside() override {
    state_->text.reset();
    return std::string("nowhere");
  }

 private:
  std::shared_ptr<MemoryState> state_;
};

/// The lines of an audit log.
struct MemoryLines {
  std::vector<std::string> lines;
  bool writable = true, has_room = true;
};

class MemorySink final : public AuditSink {
 public:
  explicit MemorySink(std::shared_ptr<MemoryLines> log) : log_(std::move(log)) {}
  Status append(std::string_view text) override {
    if (!log_->writable) {
      return Error::of(ErrorCode::kUnavailable, "memory: cannot write: No space left on device");
    }
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      log_->lines.emplace_back(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    return ok_status();
  }
  bool has_room() override { return log_->has_room && log_->writable; }
  Status reopen() override { return ok_status(); }

 private:
  std::shared_ptr<MemoryLines> log_;
};

}  // namespace harpe::node
