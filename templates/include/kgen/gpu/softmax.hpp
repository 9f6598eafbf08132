// Online softmax in base 2: scores come multiplied by log2(e), so that a weight is one exp2.
#pragma once

namespace kgen {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kMinusInfinity = -__builtin_huge_valf();

// What a row has seen: the largest score, and the sum of 2^(score - max). Nothing seen: -inf and 0.
struct RowState {
  float max;
  float sum;
};

// 2^(max - to): the factor that moves what was summed under `max` under `to` >= max. 0 for a row that
// has seen nothing, also when `to` is -inf.
KGEN_DEVICE float rescale(float max, float to) { return max == kMinusInfinity ? 0.0f : exp2(max - to); }

// Takes N more scores (-inf: masked). Turns them into weights in place and returns the factor for what
// was accumulated before.
template <int N>
KGEN_DEVICE float advance(RowState& row, Vec<float, N>& scores) {
  float top = row.max;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) top = max(top, scores[i]);
  const float shift = top == kMinusInfinity ? 0.0f : top;
  const float factor = rescale(row.max, top);
  float sum = row.sum * factor;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) {
    scores[i] = exp2(scores[i] - shift);
    sum += scores[i];
  }
  row = {top, sum};
  return factor;
}

struct MergeFactors {
  float old, added;
};

// Adds the state of another part of the row. Returns the factors for what each side accumulated.
KGEN_DEVICE MergeFactors merge(RowState& row, const RowState& added) {
  const float top = max(row.max, added.max);
  const MergeFactors factors = {rescale(row.max, top), rescale(added.max, top)};
  row = {top, row.sum * factors.old + added.sum * factors.added};
  return factors;
}

// Natural-log LSE of a row; -inf when it has seen nothing.
KGEN_DEVICE float natural_lse(const RowState& row) {
  return row.sum == 0.0f ? kMinusInfinity : (row.max + log2(row.sum)) * kLn2;
}

// 1 / sum; 0 when the row has seen nothing, so that its output is 0.
KGEN_DEVICE float normaliser(const RowState& row) { return row.sum == 0.0f ? 0.0f : 1.0f / row.sum; }

}  // namespace kgen
