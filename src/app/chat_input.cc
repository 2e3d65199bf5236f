#include "app/chat_input.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/utf8.h"

namespace ingot {
namespace {

constexpr int kHistoryLines = 1000;

// Waits until standard input has something; false when Ctrl-C came instead.  The signals
// are let in during the wait alone, so that none falls between the question and the wait.
bool wait_for_key() {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (!interrupted() && ::ppoll(&input, 1, nullptr, &before) < 0) {
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return !interrupted();
}

bool read_byte(char& out) { return wait_for_key() && ::read(STDIN_FILENO, &out, 1) == 1; }

// One character of UTF-8 for libedit: 1, or 0 at the end of the input, or -1.
int read_character(EditLine*, wchar_t* out) {
  std::string bytes(1, '\0');
  if (!read_byte(bytes[0])) return interrupted() ? -1 : 0;
  Utf8Step step = decode_utf8(bytes, 0);
  while (!step.valid && step.truncated) {
    bytes.push_back('\0');
    if (!read_byte(bytes.back())) return interrupted() ? -1 : 0;
    step = decode_utf8(bytes, 0);
  }
  *out = step.valid ? wchar_t(step.code_point) : L'\xFFFD';
  return 1;
}

// libedit turns lines into bytes by the locale: UTF-8, whatever the environment says.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

const char* first_prompt(EditLine*) { return "> "; }
const char* next_prompt(EditLine*) { return "... "; }

void drop_line_end(std::string& line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
}

}  // namespace

struct ChatInput::Editor {
  Editor() {
    use_utf8();
    edit = el_init("ingot", stdin, stderr, stderr);
    past = history_init();
    CHECK(edit != nullptr && past != nullptr);
    HistEvent event;
    history(past, &event, H_SETSIZE, kHistoryLines);
    history(past, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 0);  // Ctrl-C is ours
    el_set(edit, EL_GETCFN, read_character);
    el_set(edit, EL_HIST, history, past);
    el_source(edit, nullptr);  // ~/.editrc
  }
  ~Editor() {
    el_end(edit);
    history_end(past);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  Typed read(std::string& line, bool first) {
    el_set(edit, EL_PROMPT, first ? first_prompt : next_prompt);
    el_resize(edit);
    int count = 0;
    const char* typed = el_gets(edit, &count);
    if (typed == nullptr) {
      std::fputs("\n", stderr);
      return interrupted() ? Typed::interrupted : Typed::end;
    }
    line.assign(typed, size_t(count));
    return Typed::line;
  }

  void remember(const std::string& line) {
    HistEvent event;
    if (!line.empty()) history(past, &event, H_ENTER, line.c_str());
  }

  EditLine* edit;
  History* past;
};

ChatInput::ChatInput() {
  if (::isatty(STDIN_FILENO) == 1) editor_ = std::make_unique<Editor>();
}
ChatInput::~ChatInput() = default;

Typed ChatInput::read(std::string& line) {
  line.clear();
  Typed typed = Typed::line;
  if (!editor_) {
    if (!std::getline(std::cin, line)) typed = Typed::end;
  } else {
    std::string part;
    do {
      if (!line.empty()) line.back() = '\n';  // was the backslash
      typed = editor_->read(part, line.empty());
      drop_line_end(part);
      line += part;
    } while (typed == Typed::line && part.ends_with('\\'));
  }
  if (interrupted()) {
    clear_interrupt();
    return Typed::interrupted;
  }
  if (typed == Typed::end) return Typed::end;
  drop_line_end(line);
  if (editor_) editor_->remember(line);
  line = lossy_utf8(line);
  return Typed::line;
}

}  // namespace ingot
