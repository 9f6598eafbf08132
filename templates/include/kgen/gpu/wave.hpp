// Butterfly reductions over the lanes of a wave whose ids differ in the bits From <= bit < To (powers of
// two); every lane gets the result. <1, Team> reduces within aligned teams of lanes, <Team, kWave> over
// the same place in every team.
#pragma once

namespace kgen {

template <int From, int To, int N>
KGEN_DEVICE Vec<float, N> lanes_sum(Vec<float, N> x, Where where = here()) {
  if constexpr (From < To) {
    const Vec<float, N> other = shuffle_xor<From>(x, where);
    KGEN_UNROLL
    for (int i = 0; i < N; ++i) x[i] += other[i];
    return lanes_sum<From * 2, To>(x, where);
  }
  return x;
}

template <int From, int To>
KGEN_DEVICE float lanes_sum(float x, Where where = here()) {
  return lanes_sum<From, To>(Vec<float, 1>{{x}}, where)[0];
}

template <int From, int To>
KGEN_DEVICE float lanes_max(float x, Where where = here()) {
  if constexpr (From < To) return lanes_max<From * 2, To>(max(x, shuffle_xor<From>(x, where)), where);
  return x;
}

}  // namespace kgen
