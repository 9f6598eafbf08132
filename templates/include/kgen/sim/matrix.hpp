// Matrix instructions on the simulator: what the target's lane maps say, and nothing else.
#pragma once

#include "kgen/sim/platform.hpp"

#pragma GCC visibility push(hidden)

namespace kgen::sim {

// What a lane brings to a product.
template <typename Maps, typename T>
struct MatrixOperands {
  Vec<T, Maps::a_elements> a;
  Vec<T, Maps::b_elements> b;
};

// D = A B of the wave that multiplied last: its first lane to go on fills it for all.
struct MatrixProduct {
  const void* maps = nullptr;
  uint32_t turn = 0;
  float d[32 * 32];
};

inline MatrixProduct the_product;

template <typename Maps, typename T>
void fill_product(const Meeting<MatrixOperands<Maps, T>>& meeting) {
  static float a[Maps::m][Maps::k], b[Maps::k][Maps::n];
  for (int lane = 0; lane < kWave; ++lane) {
    const MatrixOperands<Maps, T> held = meeting.of(lane);
    for (int e = 0; e < Maps::a_elements; ++e) {
      a[Maps::a[lane][e][0]][Maps::a[lane][e][1]] = to_float(held.a[e]);
    }
    for (int e = 0; e < Maps::b_elements; ++e) {
      b[Maps::b[lane][e][0]][Maps::b[lane][e][1]] = to_float(held.b[e]);
    }
  }
  for (int row = 0; row < Maps::m; ++row) {
    float* const sums = the_product.d + row * Maps::n;
    for (int col = 0; col < Maps::n; ++col) sums[col] = 0.0f;
    for (int k = 0; k < Maps::k; ++k) {
      for (int col = 0; col < Maps::n; ++col) sums[col] += a[row][k] * b[k][col];
    }
  }
}

// Maps has m, n, k, the elements of a lane, and `a`, `b` and `d`: by lane and element, the (row, column)
// held.
template <typename Maps, typename T>
Vec<float, Maps::d_elements> multiply(const Vec<T, Maps::a_elements>& a, const Vec<T, Maps::b_elements>& b,
                                      Vec<float, Maps::d_elements> c, Where where) {
  static_assert(Maps::m * Maps::n <= 32 * 32, "the largest product");
  const Meeting<MatrixOperands<Maps, T>> meeting({a, b}, "multiply", where);
  if (the_product.turn != machine().turn || the_product.maps != &Maps::d) {
    the_product.maps = &Maps::d;
    the_product.turn = machine().turn;
    fill_product<Maps, T>(meeting);
  }
  const auto& cells = Maps::d[machine().lane()];
  for (int e = 0; e < Maps::d_elements; ++e) c[e] += the_product.d[cells[e][0] * Maps::n + cells[e][1]];
  return c;
}

}  // namespace kgen::sim

#pragma GCC visibility pop
