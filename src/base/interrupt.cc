#include "base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/error.h"

namespace ingot {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int /*signal*/) {
  if (flag.exchange(true)) ::_exit(130);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is an error of the write, not the end of the process.
  ::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return flag; }
void clear_interrupt() { flag = false; }

void throw_if_interrupted() {
  if (flag) throw Error("interrupted", {}, ErrorKind::interrupted);
}

}  // namespace ingot
