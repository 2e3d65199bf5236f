// Ctrl-C, as a question that long work asks now and then.
#pragma once

namespace ingot {

// SIGINT and SIGTERM set a flag from now on; a second one ends the process at once (130).
void install_interrupt_handler();
bool interrupted();
void clear_interrupt();       // chat: the answer stopped, the program goes on
void throw_if_interrupted();  // throws Error of kind interrupted

}  // namespace ingot
