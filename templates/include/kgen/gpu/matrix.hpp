// Matrix instructions of a wave: D = A B + C, f16 or bf16 in, f32 out, each operand spread over the lanes as
// its target says. On hardware a function of the instruction's name; in the simulator
// sim::multiply<Maps>, with the target's maps as tables.
#pragma once

#if defined(KGEN_SIM)
#include "kgen/sim/matrix.hpp"
#elif defined(__CUDACC__)
#include "kgen/gpu/matrix_cuda.hpp"
#else
#include "kgen/gpu/matrix_hip.hpp"
#endif
