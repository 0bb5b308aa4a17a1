#include "harpe/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Type = JsonValue::Type;

JsonValue parse(std::string_view text) {
  auto value = parse_json(text, "f");
  if (!value.ok()) {
    ADD_FAILURE() << value.error().text();
    return {};
  }
  return *std::move(value);
}

std::string error(std::string_view text) {
  const auto value = parse_json(text, "f");
  return value.ok() ? "" : value.error().text();
}

void expect_at(const JsonValue& value, int line, int column) {
  EXPECT_EQ(value.line, line);
  EXPECT_EQ(value.column, column);
}

TEST(ParseJson, ReadsEveryType) {
  const JsonValue root = parse(R"({"a": [1, -2.5, true, false, null, "x\u0041\n"], "b": {}})");
  ASSERT_EQ(root.type, Type::kObject);
  const JsonValue* list = root.find("a");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 6);
  EXPECT_TRUE(list->items[0].is_integer);
  EXPECT_EQ(list->items[0].integer, 1);
  EXPECT_EQ(list->items[0].number, 1.0);
  EXPECT_FALSE(list->items[1].is_integer);
  EXPECT_EQ(list->items[1].number, -2.5);
  EXPECT_TRUE(list->items[2].boolean);
  EXPECT_EQ(list->items[3].type, Type::kBool);
  EXPECT_FALSE(list->items[3].boolean);
  EXPECT_EQ(list->items[4].type, Type::kNull);
  EXPECT_EQ(list->items[5].string, "xA\n");
  EXPECT_EQ(root.find("b")->type, Type::kObject);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(ParseJson, KnowsWhereEveryValueStarts) {
  const JsonValue root = parse("{\n  \"a\\\"\": [12, 3.5e1\n],\n \"b\" : \"q\\\\\", \"c\":true }");
  expect_at(root, 1, 1);
  const JsonValue& list = root.members[0].second;
  expect_at(list, 2, 10);
  expect_at(list.items[0], 2, 11);
  expect_at(list.items[1], 2, 15);
  expect_at(root.members[1].second, 4, 8);
  expect_at(root.members[2].second, 4, 19);
  expect_at(parse(" -7"), 1, 2);
  expect_at(parse("\n\n-7\n"), 3, 1);
  expect_at(parse("\xef\xbb\xbf[]"), 1, 1);
}

TEST(ParseJson, TellsIntegersFromOtherNumbers) {
  EXPECT_TRUE(parse("9223372036854775807").is_integer);
  EXPECT_EQ(parse("-9223372036854775808").integer, std::numeric_limits<std::int64_t>::min());
  const JsonValue large = parse("9223372036854775808");
  EXPECT_FALSE(large.is_integer);
  EXPECT_EQ(large.number, 9223372036854775808.0);
  EXPECT_FALSE(parse("1.0").is_integer);
}

TEST(ParseJson, RefusesWhatRfc8259DoesNotAllow) {
  for (const char* text :
       {"{", "[1,]", "{\"a\":1,}", "{a:1}", "'a'", "01", "+1", ".5", "1.", "NaN", "Infinity",
        "// c\n1", "1 2", "\"\t\"", "\"\\x\"", "\"\xff\"", "tru", "[1}", "\"open"}) {
    EXPECT_THAT(error(text), StartsWith("f:1:")) << text;
  }
}

TEST(ParseJson, PointsAtTheFault) {
  EXPECT_THAT(error("{\"a\": 1,\n \"b\": x}"),
              StartsWith("f:2:7: not valid JSON: expected a value, at '\"b\": x'"));
  EXPECT_THAT(error("[1,\n2"), StartsWith("f:2:1: "));
  EXPECT_THAT(error("[1e999]"), HasSubstr("number overflow"));
  EXPECT_EQ(error(""), "f:1:1: expected a JSON value, but the text is empty");
  EXPECT_EQ(error(" \n "), "f:1:1: expected a JSON value, but the text is empty");
}

TEST(ParseJson, RefusesAKeyTwiceInOneObject) {
  EXPECT_EQ(error("{\"a\": 1,\n  \"a\": 2}"), "f:2:3: key 'a' appears twice in one object");
  EXPECT_EQ(error("{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}"), "");
}

TEST(ParseJson, AcceptsOneByteOrderMarkOnly) {
  EXPECT_EQ(error("\xef\xbb\xbf[1]"), "");
  EXPECT_EQ(error("\xef\xbb\xbf\xef\xbb\xbf[1]"),
            "f:1:1: expected a JSON value, but there is a second byte order mark");
}

TEST(ParseJson, RefusesNulBytes) {
  EXPECT_EQ(error(std::string_view("[1]\n \0x", 7)), "f:2:2: NUL byte: this is not a JSON text");
}

TEST(ParseJson, NestsUpTo64Levels) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(error(nested(64)), "");
  EXPECT_EQ(error(nested(65)), "f:1:65: nested more than 64 levels deep");
  EXPECT_EQ(error(std::string(1000000, '[')), "f:1:65: nested more than 64 levels deep");
}

TEST(ParseJson, MessagesHoldPrintableCharactersOnly) {
  for (const char c : error("[\"\x01\xff\x80\"]")) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace harpe
