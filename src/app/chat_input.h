// What the person (or a script) types at `ingot chat`, line by line.
#pragma once

#include <memory>
#include <string>

namespace ingot {

enum class Typed {
  line,
  end,          // Ctrl-D, or the end of the input
  interrupted,  // Ctrl-C; the flag is cleared
};

// With editing and history (libedit) when standard input is a terminal, plain lines
// otherwise.  The prompt and the editing are drawn on standard error: standard output
// holds the answers alone.
class ChatInput {
 public:
  ChatInput();
  ~ChatInput();
  bool is_terminal() const { return editor_ != nullptr; }
  // `line` without its end, well-formed UTF-8.  On a terminal a backslash at a line's end
  // takes another line.
  Typed read(std::string& line);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  // null: plain lines
};

}  // namespace ingot
