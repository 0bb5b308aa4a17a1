#include "harpe/node/agent/policy.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/base/toml.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {
namespace fs = std::filesystem;

struct Policy::Rule {
  bool every_user = false;
  bool every_token = false;
  std::vector<std::int64_t> users, groups;
  std::vector<std::string> tokens;

  bool every_gpu = false;
  std::vector<std::int64_t> indices;
  std::vector<std::string> addresses;  ///< UUIDs and PCI addresses, lower case

  Allowance allowance;
  Proofs requires_proofs;

  static Rule read(const JsonValue& entry, Diagnostics& diagnostics);
  void read_who(Fields& fields, Diagnostics& diagnostics);
  void read_gpus(Fields& fields, Diagnostics& diagnostics);
  void read_requires(Fields& fields, Diagnostics& diagnostics);

  bool names_process(const net::Peer& peer) const {
    if (peer.uid < 0) return false;
    const auto is_member = [&](std::int64_t group) {
      return std::ranges::find(peer.groups, group) != peer.groups.end();
    };
    return every_user || std::ranges::find(users, peer.uid) != users.end() ||
           std::ranges::any_of(groups, is_member);
  }
  bool names_token(const net::Peer& peer) const {
    if (peer.token_subject.empty()) return false;
    return every_token || std::ranges::find(tokens, peer.token_subject) != tokens.end();
  }
  bool covers(const GpuIdentity& gpu) const {
    return every_gpu || std::ranges::find(indices, gpu.index) != indices.end() ||
           std::ranges::find(addresses, lower(gpu.uuid)) != addresses.end() ||
           std::ranges::find(addresses, gpu.pci) != addresses.end();
  }
};

namespace {

using Type = JsonValue::Type;
constexpr double kHighestLimit = 1e6;
constexpr double kLongestLease = 30 * 24 * 3600.0;
constexpr double kUsualLease = 3600;

/// Returns the number of the user or group with this name in the system's database.
template <class Entry, class Find>
std::optional<std::int64_t> account(const std::string& name, Find find,
                                    std::int64_t (*number)(const Entry&)) {
  std::vector<char> buffer(1 << 12);
  Entry entry{};
  Entry* found = nullptr;
  while (find(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == ERANGE &&
         buffer.size() < (1 << 22)) {
    buffer.resize(buffer.size() * 2);
  }
  return found == nullptr ? std::nullopt : std::optional(number(entry));
}

std::optional<std::int64_t> user_number(const std::string& name) {
  return account<passwd>(name, ::getpwnam_r,
                         [](const passwd& entry) { return std::int64_t{entry.pw_uid}; });
}

std::optional<std::int64_t> group_number(const std::string& name) {
  return account<group>(name, ::getgrnam_r,
                        [](const group& entry) { return std::int64_t{entry.gr_gid}; });
}

/// Returns the number of the account with this name. If no account has it and the text is a number,
/// returns that number: `users = ["1000"]` means the same as `users = [1000]`.
std::optional<std::int64_t> number_of_account(
    const std::string& text, std::optional<std::int64_t> (*find)(const std::string&)) {
  if (const auto number = find(text)) return number;
  const auto number = parse_integer(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// Calls `text` or `number` for each item of a list, or for a single value.
template <class OnText, class OnNumber>
void each(Fields& fields, std::string_view key, Diagnostics& diagnostics, OnText text,
          OnNumber number) {
  const JsonValue* value = fields.any(key);
  if (value == nullptr) return;
  const auto one = [&](const JsonValue& item) {
    std::string error;
    if (item.type == Type::kString) {
      error = text(item.string);
    } else if (item.type == Type::kNumber && item.is_integer && item.integer >= 0) {
      error = number(item.integer);
    } else {
      error = "expected a name or a number";
    }
    if (!error.empty()) diagnostics.add(item.line, item.column, std::string(key) + ": " + error);
  };
  if (value->type != Type::kArray) return one(*value);
  if (value->items.empty()) fields.error(key, "is an empty list");
  for (const JsonValue& item : value->items) one(item);
}

/// Returns a PCI address in the form "0000:65:00.0" from the forms that people and drivers use;
/// nullopt for any other text.
std::optional<std::string> pci_address(std::string text) {
  text = lower(text);
  if (std::ranges::count(text, ':') == 1) text = "0000:" + text;
  const std::size_t colon = text.find(':');
  if (colon == 8 && text.starts_with("0000")) text.erase(0, 4);
  if (text.size() != 12) return std::nullopt;
  constexpr std::string_view kPattern = "xxxx:xx:xx.x";
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool fits = kPattern[i] == 'x' ? std::isxdigit(static_cast<unsigned char>(text[i])) != 0
                                         : text[i] == kPattern[i];
    if (!fits) return std::nullopt;
  }
  return text;
}

std::vector<ClockRange> clock_range(Fields& fields, std::string_view key) {
  const auto range = fields.range(key, 1, kHighestClock);
  if (!range) return {};
  if (std::trunc(range->first) != range->first || std::trunc(range->second) != range->second) {
    fields.error(key, "clocks are whole megahertz");
    return {};
  }
  return {{{static_cast<int>(range->first)}, {static_cast<int>(range->second)}}};
}

Allowance read_allowance(Fields& fields) {
  Allowance allowance;
  allowance.read = fields.boolean("read").value_or(false);
  allowance.persistence_mode = fields.boolean("persistence_mode").value_or(false);
  allowance.clocks = clock_range(fields, "clocks_mhz");
  allowance.memory_clocks = clock_range(fields, "memory_clocks_mhz");
  if (const auto watts = fields.range("power_limit_w", 1, kHighestLimit)) {
    allowance.power_limits.push_back({{watts->first}, {watts->second}});
  }
  const auto longest = fields.number("max_lease_s", 1, kLongestLease);
  if (allowance.may_control()) allowance.max_lease = {longest.value_or(kUsualLease)};
  return allowance;
}

void add_allowed(const Allowance& from, bool read, bool control, Allowance& to) {
  to.read |= read && from.read;
  if (!control) return;
  to.persistence_mode |= from.persistence_mode;
  const auto append = [](const auto& source, auto& target) {
    target.insert(target.end(), source.begin(), source.end());
  };
  append(from.clocks, to.clocks);
  append(from.memory_clocks, to.memory_clocks);
  append(from.power_limits, to.power_limits);
  to.max_lease = std::max(to.max_lease, from.max_lease);
}

bool has_scope(const net::Peer& peer, std::string_view scope) {
  return std::ranges::find(peer.scopes, scope) != peer.scopes.end();
}

}  // namespace

void Policy::Rule::read_who(Fields& fields, Diagnostics& diagnostics) {
  const auto user = [&](const std::string& name) -> std::string {
    if (name == "*") return every_user = true, "";
    const auto number = number_of_account(name, user_number);
    if (!number) return "this system has no user " + in_quotes(name);
    return users.push_back(*number), "";
  };
  const auto group = [&](const std::string& name) -> std::string {
    const auto number = number_of_account(name, group_number);
    if (!number) return "this system has no group " + in_quotes(name);
    return groups.push_back(*number), "";
  };
  const auto token = [&](const std::string& name) -> std::string {
    if (name.empty()) return "a token's subject must not be empty";
    if (name == "*") return every_token = true, "";
    return tokens.push_back(name), "";
  };
  const auto append_to = [](std::vector<std::int64_t>& numbers) {
    return [&numbers](std::int64_t number) { return numbers.push_back(number), std::string(); };
  };
  each(fields, "users", diagnostics, user, append_to(users));
  each(fields, "groups", diagnostics, group, append_to(groups));
  each(fields, "tokens", diagnostics, token,
       [](std::int64_t) { return std::string("expected the subject of a token in quotes"); });
}

void Policy::Rule::read_gpus(Fields& fields, Diagnostics& diagnostics) {
  const auto name_of_gpu = [&](const std::string& name) -> std::string {
    if (name == "*") return every_gpu = true, "";
    if (const auto address = pci_address(name)) return addresses.push_back(*address), "";
    if (lower(name).starts_with("gpu-")) return addresses.push_back(lower(name)), "";
    const auto index = parse_integer(name);
    if (index && *index >= 0) return indices.push_back(*index), "";
    return in_quotes(name) + " is not an index, a UUID (GPU-...) or a PCI address (0000:65:00.0)";
  };
  each(fields, "gpus", diagnostics, name_of_gpu,
       [&](std::int64_t index) { return indices.push_back(index), std::string(); });
}

void Policy::Rule::read_requires(Fields& fields, Diagnostics& diagnostics) {
  const auto proof = [&](const std::string& name) -> std::string {
    if (name == "device") return requires_proofs.add({Proof::kDevice}), "";
    if (name == "computing") return requires_proofs.add({Proof::kComputing}), "";
    return in_quotes(name) + " is neither \"device\" nor \"computing\"";
  };
  each(fields, "requires", diagnostics, proof,
       [](std::int64_t) { return std::string("expected \"device\" or \"computing\""); });
  if (requires_proofs.empty()) return;
  if (allowance.read) {
    fields.error("read",
                 "put the right to read into a separate entry: requires is not "
                 "checked for each reading");
  }
  if (every_token || !tokens.empty()) {
    fields.error("tokens",
                 "nothing can be proven about the holder of a token; put tokens into an entry "
                 "without requires");
  }
}

Policy::Rule Policy::Rule::read(const JsonValue& entry, Diagnostics& diagnostics) {
  const std::size_t errors_before = diagnostics.count();
  Fields fields(entry, "an [[allow]] entry", diagnostics);
  Rule rule;
  rule.read_who(fields, diagnostics);
  rule.read_gpus(fields, diagnostics);
  rule.allowance = read_allowance(fields);
  rule.read_requires(fields, diagnostics);
  fields.finish();
  if (diagnostics.count() != errors_before) return rule;
  const auto has = [&](const char* key) { return entry.find(key) != nullptr; };
  if (!has("users") && !has("groups") && !has("tokens")) {
    diagnostics.add(entry.line, entry.column, "the entry names no users, groups or tokens");
  }
  if (!has("gpus")) {
    diagnostics.add(entry.line, entry.column, "the entry names no gpus (\"*\" is all of them)");
  }
  if (!rule.allowance.read && !rule.allowance.may_control()) {
    diagnostics.add(entry.line, entry.column, "the entry allows nothing");
  }
  return rule;
}

Result<Policy> Policy::parse(std::string_view text, const std::string& file) {
  auto root = HARPE_TRY(parse_toml(text, file));
  Diagnostics diagnostics(file);
  Fields fields(root, "the policy", diagnostics);
  auto rules = std::make_shared<std::vector<Rule>>();
  for (const JsonValue* entry : fields.objects("allow")) {
    rules->push_back(Rule::read(*entry, diagnostics));
  }
  Policy policy;
  if (const JsonValue* audit = fields.any("audit")) {
    Fields table(*audit, "[audit]", diagnostics);
    policy.goes_on_without_audit_ = table.word("when_full", {"deny", "allow"}).value_or(0) == 1;
    table.finish();
  }
  fields.finish();
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  policy.rules_ = std::move(rules);
  return policy;
}

Result<Policy> Policy::read(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) return Error::io(path.string(), "cannot read the policy: " + error.message());
  Diagnostics diagnostics;
  bool others = false;  // true if other users own a part of the path
  for (const std::string& reason : why_not_trusted(file)) {
    diagnostics.add(reason);
    others |= reason.find(" belongs to user ") != std::string::npos;
  }
  if (others) {
    diagnostics.add(
        "copy the policy to a directory where only root can write: sudo install -D -m 644 " +
        file.string() + " /etc/harpe/agent.toml");
  }
  if (!diagnostics.empty()) {
    return Error{ErrorCode::kNoPermission, diagnostics.take()};
  }
  constexpr std::size_t kLargest = 1 << 20;
  auto text = HARPE_TRY(read_trusted(file, kLargest));
  return parse(text, path.string());
}

Allowance Policy::allowance(const net::Peer& peer, const GpuIdentity& gpu, Proofs proven) const {
  Allowance allowed;
  if (rules_ == nullptr) return allowed;
  for (const Rule& rule : *rules_) {
    if (!rule.covers(gpu) || !proven.has_all(rule.requires_proofs)) continue;
    if (rule.names_process(peer)) add_allowed(rule.allowance, true, true, allowed);
    if (rule.names_token(peer)) {
      add_allowed(rule.allowance, has_scope(peer, "gpu-read"), has_scope(peer, "gpu-control"),
                  allowed);
    }
  }
  return allowed;
}

Proofs Policy::required(const net::Peer& peer, const GpuIdentity& gpu) const {
  Proofs required;
  if (rules_ == nullptr) return required;
  for (const Rule& rule : *rules_) {
    if (rule.covers(gpu) && rule.names_process(peer)) required.add(rule.requires_proofs);
  }
  return required;
}

Proofs Policy::required() const {
  Proofs required;
  if (rules_ == nullptr) return required;
  for (const Rule& rule : *rules_) required.add(rule.requires_proofs);
  return required;
}

bool Policy::goes_on_without_audit() const {
  return goes_on_without_audit_;
}

std::string text_of(Proofs proofs) {
  std::string text;
  const auto add = [&text](const char* what) {
    text += (text.empty() ? "" : ", and ") + std::string(what);
  };
  if (proofs.has(Proof::kDevice)) {
    add("its cgroup or the owner of the device file gives it that GPU and keeps others from it "
        "(requires = device)");
  }
  if (proofs.has(Proof::kComputing)) {
    add("a process of that user, and none of another, computes on it (requires = computing)");
  }
  return text;
}

std::vector<std::string> Policy::gpus_not_among(const std::vector<GpuIdentity>& gpus) const {
  std::vector<std::string> unknown;
  const auto note = [&](std::string name, const auto& is_it) {
    if (std::ranges::any_of(gpus, is_it)) return;
    if (std::ranges::find(unknown, name) == unknown.end()) unknown.push_back(std::move(name));
  };
  if (rules_ == nullptr) return unknown;
  for (const Rule& rule : *rules_) {
    for (const std::int64_t index : rule.indices) {
      note(std::to_string(index), [&](const GpuIdentity& gpu) { return gpu.index == index; });
    }
    for (const std::string& address : rule.addresses) {
      note(address, [&](const GpuIdentity& gpu) {
        return lower(gpu.uuid) == address || gpu.pci == address;
      });
    }
  }
  return unknown;
}

bool Policy::may_read_node(const net::Peer& peer) const {
  if (rules_ == nullptr) return false;
  return std::ranges::any_of(*rules_, [&](const Rule& rule) {
    return rule.every_gpu && rule.allowance.read &&
           (rule.names_process(peer) || (rule.names_token(peer) && has_scope(peer, "cpu-read")));
  });
}

}  // namespace harpe::node
