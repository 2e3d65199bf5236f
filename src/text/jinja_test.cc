#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/jinja_int.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const char* const kError = nullptr;

std::tm fixed_clock() {
  std::tm time{};
  time.tm_year = 124, time.tm_mon = 6, time.tm_mday = 26;
  time.tm_hour = 13, time.tm_min = 4, time.tm_sec = 5;
  time.tm_wday = 5, time.tm_yday = 207;
  return time;
}

std::string render(const std::string& source,
                   const ordered_json& context = ordered_json::object(),
                   const TemplateLimits& limits = {}) {
  return ChatTemplate(source, "test", limits, fixed_clock).render(context);
}

std::string error_of(const std::string& source, const TemplateLimits& limits = {}) {
  try {
    const std::string text = render(source, ordered_json::object(), limits);
    return "no error but: " + text.substr(0, 100);
  } catch (const Error& error) {
    return error.what();
  }
}

// tokenizers.md 23.3: outputs of jinja2 in the Hugging Face environment.
TEST(Jinja, GivesTheSpecificationsVectors) {
  const ordered_json context =
      ordered_json::parse(R"({"messages": [{"role": "user", "content": "hi"}]})");
  const std::pair<const char*, const char*> cases[] = {
      {"{{ -5|abs }}", "5"},
      {"{{ 1 + 2 is odd }}", "1"},
      {"{{ not 1 is defined }}", "False"},
      {"{{ 1 + 2 ~ 3 }}", kError},
      {"{{ 'a' ~ 1 * 2 }}", "a2"},
      {"{{ -2 ** 2 }}", "4"},
      {"{{ 7 // 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 / 2 }}", "3-423.5"},
      {"{{ 'x' if false }}", ""},
      {"{{ 1 < 2 < 3 }}", "True"},
      {"{{ none ~ 1 }}", "None1"},
      {"{{ 3.0 }}{{ 1e100 }}", "3.01e+100"},
      {"{{ 'a' 'b' }}", "ab"},
      {"{{ 'a\\d' }}", "a\\d"},
      {"{{ {'a':[1,{'b':none}]} }}", "{'a': [1, {'b': None}]}"},
      {"{{ [\"it's\", 'q\"'] }}", "[\"it's\", 'q\"']"},
      {"{{ {'b':1,'a':[]}|tojson }}", "{\"b\": 1, \"a\": []}"},
      {"{{ {'a':[1,{'b':none}]}|tojson(indent=4) }}",
       "{\n    \"a\": [\n        1,\n        {\n            \"b\": null\n        }\n    "
       "]\n}"},
      {"{{ [1,2,3]|tojson(separators=(',',':')) }}", "[1,2,3]"},
      {"{{ {'a': undefined_name}|tojson }}", kError},
      {"{{ {'items':1}['items'] }}", "1"},
      {"{{ messages[0]['x'] }}", ""},
      {"{{ messages[0].x.y }}", kError},
      {"{% set ns = namespace(a=1) %}{% for i in [1,2] %}{% set ns.a = ns.a + i %}{% "
       "endfor %}{{ ns.a }}",
       "4"},
      {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
      {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
      {"{% set x=1 %}{% for i in [1,2] %}{{ x }}{% set x = x+1 %}{{ x }}{% endfor %}{{ x "
       "}}",
       "12121"},
      {"{% for m in [1,0] %}{% if m %}{% set r='a' %}{% endif %}{{ r is defined }}{% "
       "endfor %}",
       "TrueFalse"},
      {"{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ "
       "f() }}",
       "12"},
      {"{% for i in [1,2,3,4] if i % 2 == 0 %}{{ loop.index }}/{{ loop.length }} {% "
       "endfor %}",
       "1/2 2/2 "},
      {"{{ 1e15 }} {{ 1e16 }} {{ 0.0001 }} {{ 0.00001 }}",
       "1000000000000000.0 1e+16 0.0001 1e-05"},
      {"{{ [none,'a',1]|join(',') }}", "None,a,1"},
      {"{{ [{'a':none}]|selectattr('a','undefined')|list }}", "[]"},
      {"{% set d = {} %}{% set d.a = 1 %}", kError},
      {"{% macro f(a, b=2) %}{{a}}{{b}}{% endmacro %}{{ f(1) }}{{ f(1,3) }}", "1213"},
      {"{{ [3,1,2]|sort(reverse=true) }}", "[3, 2, 1]"},
      {"{{ 'a b c'.split(' ',1) }}", "['a', 'b c']"},
      {"{{ 'a\\nb'|indent(2) }}", "a\n  b"},
      {"{{ 2.5|round }}", "2.0"},
      {"{{ 'x'|int }}", "0"},
      {"{{ ''|default('x') }}|{{ ''|default('x', true) }}", "|x"},
      {"{% for x in [] %}a{% else %}empty{% endfor %}", "empty"},
      {"{{ 1 is true }}{{ 1 == true }}{{ true is integer }}{{ true is number }}",
       "FalseTrueFalseTrue"},
      {"{{ [1].append(2) }}", kError},
  };
  for (const auto& [source, wanted] : cases) {
    if (wanted == kError) {
      EXPECT_THROW(render(source, context), Error) << source;
    } else {
      EXPECT_EQ(render(source, context), wanted) << source;
    }
  }
  // A method hides the key of the same name.
  EXPECT_EQ(render("{{ {'items':1}.items is callable }}"), "True");
}

// tokenizers.md 17.1
TEST(Jinja, ControlsWhitespaceAsTheSpecificationSays) {
  EXPECT_EQ(render("a\n {%- if true -%}\n b \n {%- endif %}\n c"), "ab c");
  EXPECT_EQ(render("x   {#- c -#}   y"), "xy");
  EXPECT_EQ(render("line\n  {% set y=1 %}  \nz"), "line\n  \nz");
  EXPECT_EQ(render("a {{ 'x' }}\nb"), "a x\nb");
  EXPECT_EQ(render("a\r\nb\rc\n"), "a\nb\nc");
}

// Jinja settles at compile time who owns a name; jinja2 gave these outputs.
TEST(Jinja, HidesVariablesThatAScopeSetsLater) {
  const ordered_json context = {{"x", "X"}, {"l", {1, 2}}};
  const std::pair<const char*, const char*> cases[] = {
      {"{% for i in [1] %}{{ x }}{% endfor %}{% set x = 1 %}", ""},
      {"{{ x }}{% for i in [1] %}{{ x }}{% endfor %}{% set x = 1 %}", "XX"},
      {"{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 1 %}{{ f() }}", "1"},
      {"{% if l %}{% set x = 1 %}{% endif %}{% for i in [1] %}{{ x }}{% endfor %}", "1"},
      {"{% if not l %}{% set x = 1 %}{% endif %}{% for i in [1] %}{{ x }}{% endfor %}",
       "X"},
      {"{% for i in l %}{% for j in [1] %}{{ x }}{% endfor %}{% set x = 2 %}{% endfor %}",
       ""},
      {"{% set x %}[{{ x }}]{% endset %}{{ x }}", "[]"},
      {"{% for i in l %}{% if i == 2 %}{% set x = 3 %}{% endif %}{% for j in [1] %}{{ x "
       "}}"
       "{% endfor %}{% endfor %}",
       "X3"},
  };
  for (const auto& [source, wanted] : cases)
    EXPECT_EQ(render(source, context), wanted) << source;
}

TEST(Jinja, FormatsTimeInTheCLocale) {
  EXPECT_EQ(
      render("{{ strftime_now('%d %b %Y|%Y-%m-%d|%d %B %Y|%a %A %-d %e %H %I %j %m %M %p "
             "%S %y %Z%z%%') }}"),
      "26 Jul 2024|2024-07-26|26 July 2024|Fri Friday 26 26 13 01 208 07 04 PM 05 24 %");
}

// ---- The sandbox --------------------------------------------------------------------

TEST(JinjaSandbox, HidesUnderscoreAttributes) {
  // Field bug 14 (a).
  for (const char* source :
       {"{{ ''.__class__ }}", "{{ [].__class__ }}", "{{ {}['__class__'] }}",
        "{{ ''['__class__'] }}", "{{ ''|attr('__class__') }}", "{{ range.__globals__ }}",
        "{{ namespace(_a=1)._a }}", "{{ [''] | map(attribute='__class__') | first }}"}) {
    EXPECT_EQ(render(source), "") << source;
  }
  for (const char* source :
       {"{{ ''.__class__.__mro__ }}", "{{ ().__class__.__bases__[0].__subclasses__() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ raise_exception.__globals__['os'] }}", "{{ cycler.__init__.__globals__ }}",
        "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}"}) {
    EXPECT_THROW(render(source), Error) << source;
  }
}

TEST(JinjaSandbox, ChangesNothing) {
  for (const char* source : {"{{ [1].append(2) }}", "{{ [1].clear() }}",
                             "{{ {'a': 1}.update({}) }}", "{{ {'a': 1}.pop('a') }}",
                             "{{ {}.setdefault('a', 1) }}", "{{ [2, 1].sort() }}"}) {
    EXPECT_THAT(error_of(source), HasSubstr("is unsafe")) << source;
  }
}

// ---- Limits: each under 1 s and 64 MiB, on a small stack
// -------------------------------

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// Peak resident memory since the last reset, or 0 where the system does not say.
int64_t peak_kib(bool reset) {
  if (reset) {
    std::ofstream("/proc/self/clear_refs") << "5";
    return 0;
  }
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib;
  }
  return 0;
}

struct Cost {
  std::string error;
  double seconds = 0;
  int64_t grown_kib = 0;
};

void* run_on_small_stack(void* argument) {
  auto& [source, cost] = *static_cast<std::pair<std::string, Cost>*>(argument);
  const auto start = std::chrono::steady_clock::now();
  cost.error = error_of(source);
  cost.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return nullptr;
}

Cost cost_of(const std::string& source) {
  std::pair<std::string, Cost> job{source, {}};
  peak_kib(/*reset=*/true);
  const int64_t before = peak_kib(false);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSanitized ? 4u << 20 : 512u << 10);
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, &attributes, run_on_small_stack, &job), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  job.second.grown_kib = peak_kib(false) - before;
  return job.second;
}

std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JinjaLimits, StopHostileTemplates) {
  const std::pair<std::string, const char*> cases[] = {
      // Field bug 14 (b) to (e).
      {"{% for a in range(10000000) %}{% for b in range(10000000) %}x{% endfor %}{% "
       "endfor %}",
       "range too big"},
      {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
       "runs too long"},
      {"{% for a in range(100000) %}{% for b in range(100000) %}xyz{% endfor %}{% endfor "
       "%}",
       "e"},
      {"{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}"
       "{% endfor %}",
       "grows past"},
      {"{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}"
       "{% endfor %}",
       "grows past"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
      {"{% macro f(x) %}{{ f(x + 1) ~ f(x + 1) }}{% endmacro %}{{ f(0) }}", "deep"},
      {"{{ " + repeat("(", 10000) + "1" + repeat(")", 10000) + " }}", "nested"},
      {"{{ " + repeat("[", 10000) + repeat("]", 10000) + " }}", "nested"},
      {"{{ " + repeat("{1:", 10000) + "1" + repeat("}", 10000) + " }}", "nested"},
      {"{{ " + repeat("not ", 10000) + "1 }}", "nested"},
      {"{{ " + repeat("-", 10000) + "1 }}", "nested"},
      {"{{ x" + repeat("[x", 10000) + repeat("]", 10000) + " }}", "nested"},
      {"{{ " + repeat("1 if 1 else ", 10000) + "1 }}", "nested"},
      {repeat("{% if 1 %}", 10000) + repeat("{% endif %}", 10000), "nested"},
      {"{{ 1" + repeat(" + 1", 30000) + " }}", "nested"},
      {"{{ x" + repeat(".a", 30000) + " }}", "nested"},
      {"{{ ''" + repeat("|trim", 30000) + " }}", "nested"},
      {"{% set " + repeat("(", 10000) + "a" + repeat(")", 10000) + " = 1 %}", "nested"},
      // Other ways to eat time, memory and stack.
      {"{{ 'x' * 10 ** 9 }}", "grows past"},
      {"{{ [0] * 10 ** 9 }}", "memory"},
      {"{{ 10 ** 1000000 }}", "integer grows"},
      {"{{ '%1000000000d' % 1 }}", "grows past"},
      {"{{ '{:1000000000}'.format(1) }}", "grows past"},
      {"{{ 'x'.center(10 ** 9) }}", "grows past"},
      {"{{ 'x'.zfill(10 ** 9) }}", "grows past"},
      {"{{ 'a'|indent(10 ** 9) }}", "grows past"},
      {"{{ [1]|tojson(indent=10 ** 9) }}", "grows past"},
      {"{{ ('x' * 1000000).replace('', 'y' * 1000) }}", "grows past"},
      {"{{ [1]|batch(10 ** 9, 0)|list }}", "memory"},
      {"{{ [1]|slice(10 ** 9)|list }}", "e"},
      {"{{ ('x' * 4000000)|list|length }}", "memory"},
      {"{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% set n.l = [n.l] %}{% "
       "endfor %}",
       "nested"},
      {"{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% set n.l = "
       "n.l|map('trim') %}"
       "{% endfor %}",
       "nested"},
      {"{% set n = namespace(l=[0] * 1000) %}{% for i in range(60) %}{% set n.l = n.l + "
       "n.l %}"
       "{% endfor %}",
       "memory"},
      {"{% for i in range(100000) %}{% set n = namespace(a=i, b='x' * 1000) %}{% endfor "
       "%}",
       "memory"},
      {"{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "output grows past"},
      {"{% for i in range(100000) %}{% macro f() %}{{ i }}{% endmacro %}{% set l = [f] %}"
       "{% set t %}{{ 'y' * 1000 }}{% endset %}{% endfor %}",
       "e"},
      {"{% for i in [[[[1]]]] recursive %}{{ loop([[1]]) }}{% endfor %}", "deep"},
      {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", "nested"},
      {"{% set s = 'ab' * 100000 %}{% for i in range(100000) %}{{ s.find('c') }}{% "
       "endfor %}",
       "runs too long"},
      {"{% set s = 'ab' * 100000 %}{% for i in range(100000) %}{{ s.upper()|length }}{% "
       "endfor %}",
       "runs too long"},
      {"{% set l = range(100000)|list %}{% for i in l %}{{ i in l }}{% endfor %}", "e"},
      {"{% set l = range(100000)|list %}{% for i in l %}{{ l|sort|length }}{% endfor %}",
       "runs too long"},
  };
  for (const auto& [source, words] : cases) {
    const Cost cost = cost_of(source);
    const std::string what = source.substr(0, 120);
    EXPECT_THAT(cost.error, HasSubstr(words)) << what;
    EXPECT_THAT(cost.error, testing::StartsWith("test: line ")) << what;
    EXPECT_LT(cost.error.size(), 300u) << what;
    if (kSanitized) continue;
    EXPECT_LT(cost.seconds, 1.0) << what;
    EXPECT_LT(cost.grown_kib, int64_t{64} << 10) << what;
  }
}

TEST(JinjaLimits, AreConfigurable) {
  EXPECT_THAT(error_of("{% for i in range(50) %}{% endfor %}", {.max_steps = 20}),
              HasSubstr("more than 20 steps"));
  EXPECT_THAT(error_of("0123456789", {.max_output_bytes = 9}), HasSubstr("past 9 bytes"));
  EXPECT_THAT(error_of("{{ 'a' * 10 }}", {.max_string_bytes = 9}),
              HasSubstr("past 9 bytes"));
  EXPECT_THAT(error_of("{{ 'a' * 10000 }}", {.max_live_bytes = 9000}),
              HasSubstr("memory"));
  EXPECT_THAT(error_of("{{ [[[1]]] }}", {.max_value_depth = 2}),
              HasSubstr("more than 2 deep"));
  EXPECT_THAT(error_of("{{ ((1)) }}", {.max_nesting = 3}), HasSubstr("more than 3 deep"));
  EXPECT_THAT(error_of("{% macro f(n) %}{{ f(n - 1) if n }}{% endmacro %}{{ f(3) }}",
                       {.max_macro_depth = 3}),
              HasSubstr("more than 3 deep"));
  EXPECT_THAT(error_of("{{ 1 + (2 * (3 + 4)) }}", {.max_stack_bytes = 100}),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("0123456789", {.max_source_bytes = 9}), HasSubstr("limit is 9"));
}

TEST(JinjaLimits, LetALongConversationThrough) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 4000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", std::string(500, 'x')}});
  }
  const std::string text = render(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content|trim }}\n{% "
      "endfor %}",
      {{"messages", messages}});
  EXPECT_GT(text.size(), 4000u * 500u);
}

// A render leaves nothing behind, whatever rings the template made (the leak checker sees
// it).
TEST(Jinja, LetsGoOfRings) {
  EXPECT_EQ(
      render(
          "{% set n = namespace() %}{% set n.n = n %}{% macro f() %}{{ g }}{% endmacro %}"
          "{% set n.f = f %}{% for i in [1] %}{% macro g() %}{% endmacro %}"
          "{% set n.l = [loop, g] %}{% endfor %}ok"),
      "ok");
}

TEST(Jinja, OneTemplateRendersInManyThreads) {
  const ChatTemplate chat_template(
      "{% for i in range(200) %}{{ 'a' ~ i }}{% endfor %}{{ x }}", "test");
  const std::string wanted = chat_template.render({{"x", 1}});
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) good[t] += chat_template.render({{"x", 1}}) == wanted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 20));
}

// Values from Python.
TEST(BigInt, CountsAsPython) {
  using jinja::BigInt;
  const BigInt a = BigInt::parse("123456789012345678901234567890");
  const BigInt b = BigInt::parse("-98765432109876543210");
  EXPECT_EQ((a + b).to_string(), "123456788913580246791358024680");
  EXPECT_EQ((a - b).to_string(), "123456789111111111011111111100");
  EXPECT_EQ((a * b).to_string(), "-12193263113702179522496570642237463801111263526900");
  BigInt quotient, rest;
  BigInt::divide(a, b, quotient, rest);
  EXPECT_EQ(quotient.to_string(), "-1249999989");
  EXPECT_EQ(rest.to_string(), "-38580246902623456800");
  EXPECT_EQ(BigInt(INT64_MIN).to_string(), "-9223372036854775808");
  EXPECT_EQ(BigInt::from_double(1e23).to_string(), "99999999999999991611392");
  EXPECT_EQ(BigInt::parse("ff_ff", 16).to_int64(), 65535);
  EXPECT_EQ(a.to_double(), 123456789012345678901234567890.0);
}

}  // namespace
}  // namespace ingot
