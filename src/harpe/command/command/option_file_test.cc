#include "harpe/command/command/option_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A command with an option of each kind.
struct Command {
  CLI::App app{"a command", "serve"};
  std::string config, socket, key, hidden;
  Seconds lease{1};
  bool insecure = false, dry_run = false, json = false;
  std::vector<std::string> carbon;

  Command() {
    add_config_option(app, config);
    add_text(app, "--socket", "PATH", "Socket", socket);
    add_text(app, "--signing-key,--signing-key-path", "FILE", "Keys", key);
    add_parsed(app, "--lease", "DURATION", "Lease", lease,
               [](const std::string& text) { return parse_seconds(text); });
    app.add_flag("--insecure", insecure, "Trust");
    app.add_flag_callback("--dry-run", [this] { dry_run = true; }, "Set nothing");
    app.add_option("--carbon", carbon, "Sources")->type_name("SOURCE");
    add_text(app, "--test-socket", "PATH", "", hidden)->group("");
    app.add_flag("--json", json, "JSON")->group("General");
  }
  Result<OptionPositions> read(std::vector<std::string> arguments, const std::string& text) {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return take_options(app, text, "serve.toml");
  }
  /// Returns the errors in `text`, one string per error.
  std::vector<std::string> errors(const std::string& text) {
    const auto read_text = read({}, text);
    std::vector<std::string> all;
    if (read_text.ok()) return all;
    EXPECT_EQ(read_text.error().code, ErrorCode::kInvalidInput);
    for (const Diagnostic& diagnostic : read_text.error().diagnostics) {
      all.push_back(diagnostic.text());
    }
    return all;
  }
};

TEST(OptionFile, GivesEveryOptionThatTheCommandLineCould) {
  Command command;
  const auto positions = command.read({}, R"(
# a comment
socket = "/run/a b.sock"
signing-key-path = "key"
lease = 2.5
insecure = true
dry-run = true
carbon = ["uk:13", "file:a.csv"]
test-socket = "x"
)");
  ASSERT_TRUE(positions.ok()) << positions.error().text();
  EXPECT_EQ(command.socket, "/run/a b.sock");
  EXPECT_EQ(command.key, "key");
  EXPECT_EQ(command.lease.value, 2.5);
  EXPECT_TRUE(command.insecure);
  EXPECT_TRUE(command.dry_run);
  EXPECT_THAT(command.carbon, ElementsAre("uk:13", "file:a.csv"));
  EXPECT_EQ(command.hidden, "x");
  EXPECT_EQ(positions->at("lease").line, 5);
  EXPECT_EQ(positions->at("lease").column, 9);
}

TEST(OptionFile, GivesWhatTheSameWordsOnTheCommandLineGive) {
  for (const char* time : {"250ms", "2min", "0.5"}) {
    Command by_file, by_words;
    ASSERT_TRUE(by_file.read({}, "lease = \"" + std::string(time) + '"').ok());
    by_words.app.parse(std::vector<std::string>{time, "--lease"});
    EXPECT_EQ(by_file.lease.value, by_words.lease.value) << time;
  }
}

TEST(OptionFile, TheCommandLineComesBeforeTheFile) {
  Command command;
  const auto positions =
      command.read({"--socket", "mine", "--carbon", "uk:1", "--insecure", "--signing-key", "key"},
                   "socket = \"its\"\ncarbon = [\"uk:13\"]\ninsecure = false\n"
                   "signing-key-path = \"its\"\nlease = 3\n");
  ASSERT_TRUE(positions.ok()) << positions.error().text();
  EXPECT_EQ(command.socket, "mine");
  EXPECT_THAT(command.carbon, ElementsAre("uk:1"));
  EXPECT_TRUE(command.insecure);
  EXPECT_EQ(command.key, "key");
  EXPECT_EQ(command.lease.value, 3);
  EXPECT_EQ(positions->size(), 1U);
}

TEST(OptionFile, NamesEverythingThatIsWrongWithItsPlace) {
  EXPECT_THAT(
      Command().errors("sockt = \"a\"\n"
                       "lease = \"3 parsecs\"\n"
                       "insecure = 1\n"
                       "socket = true\n"
                       "carbon = [true]\n"
                       "signing-key = \"a\"\nsigning-key-path = \"b\"\n"),
      ElementsAre(HasSubstr("serve.toml:1:1: unknown option 'sockt'; did you mean 'socket'?"),
                  HasSubstr("serve.toml:2:9: lease: expected"),
                  HasSubstr("serve.toml:3:12: insecure: expected true or false"),
                  HasSubstr("serve.toml:4:10: socket: expected text or a number"),
                  HasSubstr("serve.toml:5:10: carbon: expected text or a number, or a list"),
                  HasSubstr("serve.toml:7:1: signing-key-path: is given twice")));
}

TEST(OptionFile, HasNoOptionsOfOneRunNorSecretNames) {
  EXPECT_THAT(Command().errors("json = true\n"), ElementsAre(HasSubstr("unknown option 'json'")));
  EXPECT_THAT(Command().errors("help = true\n"), ElementsAre(HasSubstr("unknown option 'help'")));
  EXPECT_THAT(Command().errors("config = \"other.toml\"\n"),
              ElementsAre(HasSubstr("unknown option 'config'")));
  EXPECT_THAT(Command().errors("test-sockets = 1\n"),
              ElementsAre(::testing::Not(HasSubstr("test-socket'"))));
  EXPECT_THAT(Command().errors("[server]\nsocket = \"a\"\n"),
              ElementsAre(HasSubstr("unknown option 'server'")));
}

TEST(OptionFile, IsReadOnlyWhereOneIsNamed) {
  Command command;
  EXPECT_TRUE(take_option_file(command.app, "").ok());
  const auto missing = take_option_file(command.app, "/nowhere/serve.toml");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_THAT(missing.error().text(), HasSubstr("/nowhere/serve.toml"));
}

}  // namespace
}  // namespace harpe::command
