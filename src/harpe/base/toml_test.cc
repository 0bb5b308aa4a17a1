#include "harpe/base/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>

#include "harpe/base/fields.h"

namespace harpe {
namespace {

JsonValue parsed(std::string_view text) {
  Result<JsonValue> value = parse_toml(text, "a.toml");
  EXPECT_TRUE(value.ok()) << (value.ok() ? "" : value.error().text());
  return value.ok() ? *std::move(value) : JsonValue();
}

TEST(Toml, KeepsValuesInFileOrderWithTheirPositions) {
  const JsonValue root = parsed("z = 1\na = 'x'  # last\n[t]\nb = true\n[[l]]\nf = 2.5\n[[l]]\n");
  ASSERT_EQ(root.members.size(), 4);
  EXPECT_EQ(root.members[0].first, "z");
  EXPECT_TRUE(root.members[0].second.is_integer);
  EXPECT_EQ(root.members[1].second.string, "x");
  EXPECT_EQ(root.members[1].second.line, 2);
  EXPECT_EQ(root.members[1].second.column, 5);
  EXPECT_TRUE(root.find("t")->find("b")->boolean);
  EXPECT_EQ(root.find("l")->items.size(), 2);
  EXPECT_EQ(root.find("l")->items[0].find("f")->number, 2.5);
}

TEST(Toml, AllErrorsComeAtOnceWithLineAndColumn) {
  const auto broken = parse_toml("a = = 1\nb = 2026-01-01\nc = [1, 2\n\nd = 1\n", "a.toml");
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().text(), testing::HasSubstr("a.toml:1:5: "));
  EXPECT_THAT(broken.error().text(), testing::HasSubstr("a.toml:2:5: "));
  EXPECT_THAT(broken.error().text(), testing::HasSubstr("a.toml:5:1: expected ',' or ']'"));
}

TEST(Toml, SaysOnceThatAFileIsNone) {
  for (const char* text : {"# a table\nstage,time\n0,1\n1,2\n", "{\"a\": 1,\n\"b\": 2}\n"}) {
    const auto broken = parse_toml(text, "a.csv");
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().diagnostics.size(), 1U) << broken.error().text();
    EXPECT_THAT(broken.error().text(), testing::HasSubstr("this is not TOML"));
  }
  EXPECT_TRUE(parsed("\n# nothing\n").members.empty());
}

TEST(Toml, RefusesWhatTomlDoes) {
  for (const char* text : {"a = nan",
                           "a = [inf]",
                           "a = 1\na = 2",
                           "a = 1 2",
                           "a",
                           "= 1",
                           "a = \"x",
                           "[a",
                           "[[a]",
                           "[a]\n[a]",
                           "[a]\n[[a]]",
                           "[[a]]\n[a]",
                           "a = 1\n[a]",
                           "a = [1]\n[[a]]",
                           "a = {b = 1}\n[a]",
                           "a = {b = 1}\n[a.c]",
                           "a.b = 1\na = 2",
                           "a = 1\na.b = 2",
                           "a = {b = 1",
                           "[a] b = 1",
                           "a = 1__0",
                           "a = \"\\x\"",
                           "a = \"\\ud800\"",
                           "a = \"\x01\"",
                           "[]",
                           "[a.]",
                           "a = {,}",
                           "[ = 1",
                           "[[[a]]]",
                           "\u3001 = 1",
                           "a = [\u3000]",
                           "a\u00a0= 1",
                           "a = 1\"\u3001\"",
                           "a = \"\"\"\\\n\u3001\"\"\"",
                           "a = [}",
                           "a = [1, }]",
                           "a = {]",
                           "a = 0x10"}) {
    EXPECT_FALSE(parse_toml(text, "a.toml").ok()) << text;
  }
}

TEST(Toml, ReadsTablesInAllTheirForms) {
  const JsonValue root = parsed(
      "a.b.c = 1\n[t.u]\nx = {y = 'z', \"quoted key\" = [1, [2, 3,],]}\n[t]\nv = -1_000.5e1\n"
      "[[l.m]]\nn = 1\n[[l.m]]\n[l.m.o]\np = \"\\u00e9\\n\"\n");
  EXPECT_EQ(root.find("a")->find("b")->find("c")->integer, 1);
  const JsonValue* x = root.find("t")->find("u")->find("x");
  EXPECT_EQ(x->find("y")->string, "z");
  EXPECT_EQ(x->find("quoted key")->items[1].items[1].integer, 3);
  EXPECT_EQ(root.find("t")->find("v")->number, -10005);
  EXPECT_EQ(root.find("t")->find("v")->string, "-1000.5e1");
  const JsonValue* m = root.find("l")->find("m");
  ASSERT_EQ(m->items.size(), 2);
  EXPECT_EQ(m->items[1].find("o")->find("p")->string, "\u00e9\n");
}

TEST(Toml, NestsNoDeeperThanItSays) {
  EXPECT_TRUE(parse_toml("a = " + std::string(60, '[') + std::string(60, ']'), "f").ok());
  EXPECT_FALSE(parse_toml("a = " + std::string(100'000, '['), "f").ok());
  std::string tables = "a = ";
  for (int i = 0; i < 100'000; ++i) tables += "{a = ";
  EXPECT_FALSE(parse_toml(tables, "f").ok());
}

TEST(Toml, DotsOfKeysNestNoDeeperThanItSays) {
  const auto repeated = [](int count, std::string_view text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_TRUE(parse_toml(repeated(60, "a.") + "b = 1.5", "f").ok());
  EXPECT_TRUE(parse_toml("[" + repeated(60, "a.") + "b]", "f").ok());
  EXPECT_TRUE(parse_toml("a = [" + repeated(1000, "1.5, {b.c = '....'},") + "]", "f").ok());
  for (const char* before : {"", "[", "[[", "z = {", "z = [{", "z = [1,\n{y.x = '', "}) {
    for (const char* segment : {"a.", "\"=.\".", "'[' . "}) {
      for (const char* after : {"b = 1", "b]", "b]]", "b = 1}", "b = 1}]"}) {
        const auto deep = parse_toml(before + repeated(100'000, segment) + after, "f");
        EXPECT_FALSE(deep.ok()) << before << segment << after;
      }
    }
  }
}

/// Returns the processor time of the calling thread, the least of five runs.
double seconds_of(const std::function<void()>& work) {
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    timespec begin{}, end{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work();
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    least = std::min(least, static_cast<double>(end.tv_sec - begin.tv_sec) +
                                1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  return least;
}

double seconds_to_read(const std::string& begin, int keys, const std::string& before,
                       const std::string& after) {
  std::string text = begin;
  for (int i = 0; i < keys; ++i) text += before + std::to_string(i) + after;
  return seconds_of([&] { EXPECT_TRUE(parse_toml(text, "f").ok()); });
}

TEST(Toml, TakesLittleMoreTimeAKeyWhereATableHasManyKeys) {
  for (const auto& [before, after] : {std::pair("k", " = 1\n"), std::pair("[k", "]\n"),
                                      std::pair("a.k", " = {x = 1}\n"), std::pair("[[k", "]]\n")}) {
    // Comparing each key with all earlier keys would take 16 times as long for four times the keys.
    // Expected is four times, or more if other programs use the caches.
    const double few = seconds_to_read("", 5'000, before, after);
    EXPECT_LT(seconds_to_read("", 20'000, before, after), 12 * few) << before << after;
  }
}

TEST(Toml, TakesNoMoreTimeAKeyWhereTheNameOfTheTableIsLong) {
  const double plain = seconds_to_read("[a]\n", 5'000, "k", " = {}\n");
  const double named =
      seconds_to_read("[" + std::string(50'000, 'a') + "]\n", 5'000, "k", " = {}\n");
  EXPECT_LT(named, 4 * plain);
}

TEST(Fields, ReadWhatIsThereAndLeaveOutWhatIsNot) {
  const JsonValue root = parsed(
      "n = 2.5\ni = 3\nb = false\nt = 'x'\nw = 'two'\nr = [1, 2]\nl = ['a', 'b']\n[o]\n[[os]]\n");
  Diagnostics diagnostics("a.toml");
  Fields fields(root, "the file", diagnostics);
  EXPECT_EQ(fields.number("n", 0, 10), 2.5);
  EXPECT_EQ(fields.integer("i", 0, 10), 3);
  EXPECT_EQ(fields.boolean("b"), false);
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_EQ(fields.word("w", {"one", "two"}), 1);
  EXPECT_EQ(fields.range("r", 0, 10), std::pair(1.0, 2.0));
  EXPECT_EQ(fields.texts("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.texts("t"), std::vector<std::string>{"x"});
  EXPECT_NE(fields.object("o"), nullptr);
  EXPECT_EQ(fields.objects("os").size(), 1);
  EXPECT_EQ(fields.number("absent", 0, 1), std::nullopt);
  fields.finish();
  EXPECT_TRUE(diagnostics.empty());
}

TEST(Fields, ReportAllErrorsTogether) {
  const JsonValue root = parsed(
      "n = 11\ni = 1.5\nb = 1\nt = 2\nw = 'tow'\nr = [2, 1]\nl = [1]\no = 1\nos = [1]\nnumbr = "
      "1\n");
  Diagnostics diagnostics("a.toml");
  Fields fields(root, "the file", diagnostics);
  fields.number("n", 0, 10);
  fields.integer("i", 0, 10);
  fields.boolean("b");
  fields.text("t");
  fields.word("w", {"one", "two"});
  fields.range("r", 0, 10);
  fields.texts("l");
  fields.object("o");
  fields.objects("os");
  fields.number("number", 0, 1);
  fields.finish();
  const std::string text = Error::invalid(std::move(diagnostics)).text();
  for (const char* expected :
       {"a.toml:1:5: n: expected 0 to 10", "a.toml:2:5: i: expected an integer from 0 to 10",
        "a.toml:3:5: b: expected true or false", "a.toml:4:5: t: expected text",
        "a.toml:5:5: w: expected one of one, two, not 'tow'",
        "a.toml:6:5: r: the first number is above the second", "a.toml:7:5: l: expected text",
        "a.toml:8:5: o: expected a table", "a.toml:9:7: os: expected a table",
        "a.toml:10:1: the file has no key 'numbr'; did you mean 'number'?"}) {
    EXPECT_THAT(text, testing::HasSubstr(expected));
  }
}

}  // namespace
}  // namespace harpe
