// The sticky error word: four int64 of the call, `code, row, index, value`, of which the first fault
// reported stays. A GPU call cannot wait, so the host reads it when it next looks.
#pragma once

namespace kgen {

KGEN_DEVICE void report(int64_t error_address, int64_t code, int64_t row, int64_t index, int64_t value,
                        Where where = here()) {
  const Global<int64_t> error(error_address, 4);
  if (error.compare_and_swap(0, 0, code, where) != 0) return;
  error.store(1, row, where);
  error.store(2, index, where);
  error.store(3, value, where);
}

}  // namespace kgen
