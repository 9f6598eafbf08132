// Fibres: the threads of a block take turns on one host thread, switching only where they wait.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

#if defined(__x86_64__) && !defined(KGEN_SIM_PORTABLE)

// What a fibre that is not running needs: its stack pointer. Its registers lie on its stack.
struct Fibre {
  void* stack_pointer;
};

// Saves the registers a call must keep, leaves the stack pointer in *from and goes on where `to` left off.
__attribute__((naked, noinline)) static void switch_stacks(void** /*from*/, void* /*to*/) {
  asm("pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, (%rdi)\n\t"
      "movq %rsi, %rsp\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}

inline void switch_fibre(Fibre& from, Fibre& to) { switch_stacks(&from.stack_pointer, to.stack_pointer); }

// Prepares `fibre` to run `entry`, which must not return, on a stack that ends at `top` (16-byte aligned).
inline void start_fibre(Fibre& fibre, char* top, size_t /*bytes*/, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  void** slot = reinterpret_cast<void**>(top - 16);  // `ret` then leaves the stack as a call would
  *slot = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--slot = nullptr;
  fibre.stack_pointer = slot;
}

#else  // any host: the C library's contexts, about three times as slow

struct Fibre {
  ucontext_t context;
};

inline void switch_fibre(Fibre& from, Fibre& to) { swapcontext(&from.context, &to.context); }

inline void start_fibre(Fibre& fibre, char* top, size_t bytes, void (*entry)()) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = top - bytes;
  fibre.context.uc_stack.ss_size = bytes;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, entry, 0);
}

#endif

}  // namespace kgen::sim
