// libFuzzer: a template, and after a NUL byte the JSON of its variables.  Any bytes end
// in text or in an Error, within the limits.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

std::tm fixed_clock() {
  std::tm time{};
  time.tm_year = 124, time.tm_mon = 6, time.tm_mday = 26;
  return time;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string source(reinterpret_cast<const char*>(data), size);
  std::string variables = R"({"messages": [{"role": "user", "content": "Hi <b>"},
      {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
      "arguments": {"a": [1, 2.5, null], "items": true}}}]}], "x": 7, "s": " a,b\n"})";
  if (const size_t end = source.find('\0'); end != std::string::npos) {
    variables = source.substr(end + 1);
    source.resize(end);
  }
  ingot::TemplateLimits limits;
  limits.max_steps = 200'000;  // keeps each run short
  limits.max_live_bytes = 8u << 20;
  limits.max_output_bytes = limits.max_string_bytes = 1u << 20;
  try {
    const ingot::ChatTemplate chat_template(std::move(source), "fuzz", limits,
                                            fixed_clock);
    const auto request = ingot::parse_request_json(variables, "fuzz");
    const auto prompt =
        ingot::render_chat_guarded(chat_template, request, {{"bos_token", "<s>"}});
    std::string joined;
    for (const auto& segment : prompt.segments) joined += segment.text;
    if (joined != ingot::render_chat(chat_template, request, {{"bos_token", "<s>"}}))
      __builtin_trap();
  } catch (const ingot::Error&) {
  }
  return 0;
}
