// SPDX-License-Identifier: Apache-2.0
// A call of Hopper's layer judged on the device, in float64 from canonical weights, by plain kernels that know semantics.md and no kernel of
// the library's.
//
//   x ─► quantize_x ─► judge_up ─► span of h ─► judge_h ◄── h found (activation_record.h) ─► judge_down ◄── rows found ─► judge_y ◄── y found
//   wanted ids, logits ─► judge_routing ◄── ids and weights found
//
// Room: section 12. Products of codes are integers below 2^27 a block of 32, so a block's sum is exact in int32. For the values that
// decode_layer.cuh and decode_call.cuh make: numbers and scales far from the ends of their ranges; anything else is reported as outside.
#pragma once

#include <cfloat>
#include <cstdint>

#include "decode_call.cuh"
#include "sm90/activation_record.h"

namespace octet::sm90 {

enum Stage : int { kIds, kWeights, kH, kRows, kY, kStages };
constexpr const char* kStageNames[kStages] = {"ids", "weights", "h", "rows", "y"};

struct Verdict {
  unsigned long long judged[kStages], outside[kStages];
  // The first that was outside.
  int taken, routing, stage, slot, column;
  double got, lo, hi;
};
struct JudgeArgs {
  CanonicalWeights weights;
  const float* limit;
  const int32_t* wanted;  // [T, k]
  const float* logits;
  const __nv_bfloat16 *x, *y;
  const int32_t* ids;
  const float* topk_weights;
  const uint8_t* workspace;  // of the launch before
  ExpertsWorkspace at;
  int64_t h_tile_bytes;
  int tokens, hidden, intermediate, experts, routing;
  // Scratch
  int32_t *x_codes, *h_codes;    // [T, H], [T k, I]: E4M3 in units of 2^-9
  uint8_t *x_scales, *h_scales;  // [T, H/32], [T k, I/32]
  double2* h_span;               // [T k, I]
  Verdict* verdict;
};

__device__ inline const uint8_t* half_of(const JudgeArgs& a) {
  const LaunchWord word =
      *reinterpret_cast<const LaunchWord*>(a.workspace + ExpertsWorkspace::kWordAt);
  return a.workspace + ExpertsWorkspace::kHalvesAt + word.last_half() * a.at.half_bytes;
}
__device__ inline const __nv_bfloat16* rows_of(const JudgeArgs& a) {
  return reinterpret_cast<const __nv_bfloat16*>(half_of(a) + a.at.rows_at);
}

__device__ inline void report_outside(const JudgeArgs& a, Stage stage, int slot, int column,
                                      double got, double lo, double hi) {
  atomicAdd(&a.verdict->outside[stage], 1ULL);
  if (atomicCAS(&a.verdict->taken, 0, 1) != 0) return;
  a.verdict->routing = a.routing;
  a.verdict->stage = stage;
  a.verdict->slot = slot;
  a.verdict->column = column;
  a.verdict->got = got;
  a.verdict->lo = lo;
  a.verdict->hi = hi;
}
__device__ inline void count_judged(const JudgeArgs& a, Stage stage,
                                    bool is_there) {  // a whole warp
  const unsigned there = __ballot_sync(~0U, is_there);
  if (threadIdx.x % 32 == 0)
    atomicAdd(&a.verdict->judged[stage], static_cast<unsigned long long>(__popc(there)));
}

// v >= 0 to the nearest number of `bits` significant bits, ties to even; below 2^least in steps of 2^(least - bits + 1).
__device__ inline double rounded(double v, int bits, int least) {
  if (v == 0) return 0;
  const int e = max(ilogb(v), least);
  return ldexp(rint(ldexp(v, bits - 1 - e)), e - bits + 1);
}
__device__ inline double to_e4m3(double v) {
  return copysign(fmin(rounded(fabs(v), 4, -6), 448.0), v);
}
__device__ inline double to_bf16(double v) { return copysign(rounded(fabs(v), 8, -126), v); }
// E4M3 in units of 2^-9; false for NaN.
__device__ inline bool e4m3_units(uint8_t code, int& units) {
  const int e = code >> 3 & 15, m = code & 7;
  units = e == 0 ? m : (8 + m) << (e - 1);
  if ((code & 0x80) != 0) units = -units;
  return (code & 0x7F) != 0x7F;
}
// E2M1 in units of 1/2.
__device__ inline int e2m1_units(uint32_t code) {
  const auto magnitude = static_cast<int>(0xC8643210U >> (4 * (code & 7U)) & 15U);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Section 3, closed form. A thread a block of 32.
static __global__ void quantize_x(const __grid_constant__ JudgeArgs a) {
  const int block = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (block >= a.tokens * a.hidden / 32) return;
  const auto* bits = reinterpret_cast<const uint16_t*>(a.x) + block * 32;
  int most = 0;
  for (int i = 0; i < 32; ++i) most = max(most, bits[i] & 0x7FFF);
  const int code = (most >> 7) - 8 + ((most & 127) > 96 ? 1 : 0);
  a.x_scales[block] = static_cast<uint8_t>(code);
  for (int i = 0; i < 32; ++i) {
    const double v = __bfloat162float(a.x[block * 32 + i]);
    a.x_codes[block * 32 + i] = static_cast<int32_t>(ldexp(to_e4m3(ldexp(v, 127 - code)), 9));
  }
}

// Section 4 for the logits of make_request. A thread a slot.
static __global__ void judge_routing(const __grid_constant__ JudgeArgs a) {
  const auto slot = static_cast<int>(threadIdx.x);
  const bool is_there = slot < a.tokens * kTopK;
  count_judged(a, kIds, is_there);
  count_judged(a, kWeights, is_there);
  if (!is_there) return;
  const int first = slot / kTopK * kTopK;
  const int want = a.wanted[slot], got = a.ids[slot];
  if (got != want) report_outside(a, kIds, slot, 0, got, want, want);
  double sum = 0, mine = 0;
  for (int j = first; j < first + kTopK; ++j) {
    const double logit = a.logits[slot / kTopK * a.experts + a.wanted[j]];
    const double w = sqrt(log(1 + exp(logit)));
    sum += w;
    if (j == slot) mine = w;
  }
  const double weight = mine * kRouterScale / sum, room = weight * 0x1p-19;
  const double found = a.topk_weights[slot];
  if (!(fabs(found - weight) <= room))
    report_outside(a, kWeights, slot, 0, found, weight - room, weight + room);
}

struct Sum {
  double value, room;
};
// x [K/32][33] codes in shared memory (the 33rd keeps lanes on banks of their own), one warp; every lane has the result.
__device__ inline Sum product(const int32_t* x, const uint8_t* x_scales, const uint8_t* codes,
                              const uint8_t* scales, int width) {
  double value = 0, mass = 0, truncated = 0;
  for (int block = static_cast<int>(threadIdx.x) % 32; block < width / 32; block += 32) {
    const uint4 four = reinterpret_cast<const uint4*>(codes)[block];
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    int sum = 0, magnitudes = 0, most = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int p = e2m1_units(words[i / 8] >> (i % 8 * 4)) * x[block * 33 + i];
      sum += p;
      magnitudes += abs(p);
      most = max(most, abs(p));
    }
    const double unit = ldexp(1.0, scales[block] + x_scales[block] - 254 - 10);
    value += unit * sum;
    mass += unit * magnitudes;
    truncated += unit * most * (32 * 0x1p-13);
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(~0U, value, lane);
    mass += __shfl_xor_sync(~0U, mass, lane);
    truncated += __shfl_xor_sync(~0U, truncated, lane);
  }
  const double k = width;
  return {value, fmin(k + 1, 8 * sqrt(k) + k / 8) * 0x1p-24 * mass + truncated};
}
__device__ inline void to_shared(int32_t* x, const int32_t* from, int width) {
  for (auto i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x))
    x[i / 32 * 33 + i % 32] = from[i];
  __syncthreads();
}

__device__ inline double silu(double gate) { return gate / (1 + exp(-gate)); }
// Section 7 over intervals. Binary32 adds, relative, 5 * 2^-23 for the reciprocal, the sum and the products, and (1 - sigmoid) (|gate| + 2)
// 2^-23 for the exponential and its argument.
__device__ inline double2 swiglu_span(const Sum& gate, const Sum& up, double limit) {
  constexpr double kTurn = -1.2784645427610738;  // where silu is least
  const double g0 = fmin(gate.value - gate.room, limit), g1 = fmin(gate.value + gate.room, limit);
  const double u0 = fmax(fmin(up.value - up.room, limit), -limit),
               u1 = fmax(fmin(up.value + up.room, limit), -limit);
  double s0 = fmin(silu(g0), silu(g1));
  const double s1 = fmax(silu(g0), silu(g1));
  if (g0 < kTurn && g1 > kTurn) s0 = silu(kTurn);
  const double lo = fmin(fmin(u0 * s0, u0 * s1), fmin(u1 * s0, u1 * s1)),
               hi = fmax(fmax(u0 * s0, u0 * s1), fmax(u1 * s0, u1 * s1));
  const double g = fmin(gate.value, limit);
  const double rel = (5 + (fabs(g) + 2) / (1 + exp(g))) * 0x1p-23;
  return {lo - rel * fabs(lo), hi + rel * fabs(hi)};
}

constexpr int kJudgeThreads = 256, kUpParts = 8, kDownParts = 16;
// A block a slot and part of the columns, a warp a column.
static __global__ void judge_up(const __grid_constant__ JudgeArgs a) {
  extern __shared__ int32_t x[];
  const auto slot = static_cast<int>(blockIdx.x);
  const int token = slot / kTopK, expert = a.wanted[slot];
  to_shared(x, a.x_codes + int64_t{token} * a.hidden, a.hidden);
  const Canonical& w = a.weights.w13;
  const uint8_t *codes = w.codes + expert * w.code_bytes(),
                *scales = w.scales + expert * w.scale_bytes();
  const uint8_t* x_scales = a.x_scales + token * a.hidden / 32;
  const int warp = static_cast<int>(blockIdx.y * kJudgeThreads + threadIdx.x) / 32;
  for (int column = warp; column < a.intermediate; column += kUpParts * kJudgeThreads / 32) {
    const int64_t gate_row = column, up_row = column + a.intermediate;
    const Sum gate = product(x, x_scales, codes + gate_row * a.hidden / 2,
                             scales + gate_row * a.hidden / 32, a.hidden);
    const Sum up = product(x, x_scales, codes + up_row * a.hidden / 2,
                           scales + up_row * a.hidden / 32, a.hidden);
    if (threadIdx.x % 32 == 0)
      a.h_span[slot * a.intermediate + column] = swiglu_span(gate, up, a.limit[expert]);
  }
}

// Section 7: code of a block of h from its largest magnitude.
__device__ inline int h_scale_code(double amax) {
  const float found = amax == 0 ? 448.0F : static_cast<float>(amax);
  const uint32_t v = __float_as_uint(__fmul_rn(found, __uint_as_float(0x3B124925U)));
  return static_cast<int>(v >> 23) + ((v & 0x7FFFFFU) != 0 ? 1 : 0);
}
// A warp a block of 32 columns.
static __global__ void judge_h(const __grid_constant__ JudgeArgs a) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int all = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / 32,
            blocks = a.intermediate / 32;
  const int slot = all / blocks, block = all % blocks;
  if (slot >= a.tokens * kTopK) return;
  const int token = slot / kTopK, expert = a.wanted[slot];
  // Tiles are experts ascending, their rows tokens ascending.
  int tile = 0, row = 0, rows = 0;
  for (int s = 0; s < a.tokens * kTopK; ++s) {
    const int e = a.wanted[s];
    rows += e == expert ? 1 : 0;
    row += e == expert && s / kTopK < token ? 1 : 0;
    bool is_first = e < expert;
    for (int before = 0; is_first && before < s; ++before) is_first = a.wanted[before] != e;
    tile += is_first ? 1 : 0;
  }
  const uint8_t* h = half_of(a) + a.at.h_at + tile * a.h_tile_bytes;
  rows = ActivationRecord::padded_rows(rows);
  const int column = block * 32 + lane;
  const double2 span = a.h_span[slot * a.intermediate + column];
  double least = span.x <= 0 && span.y >= 0 ? 0 : fmin(fabs(span.x), fabs(span.y)),
         most = fmax(fabs(span.x), fabs(span.y));
  for (int other = 16; other > 0; other /= 2) {
    least = fmax(least, __shfl_xor_sync(~0U, least, other));
    most = fmax(most, __shfl_xor_sync(~0U, most, other));
  }
  const auto bits =
      *reinterpret_cast<const uint32_t*>(h + ActivationRecord::scale_at(rows, row, block * 32));
  const auto scale = static_cast<int>(bits >> 23);
  int units = 0;
  const bool is_number = e4m3_units(h[ActivationRecord::code_at(rows, row, column)], units);
  const bool is_scale = scale > 0 && scale < 255 && (bits & 0x7FFFFFU) == 0 && least > 0 &&
                        scale >= h_scale_code(least) && scale <= h_scale_code(most);
  const double lo = to_e4m3(ldexp(span.x, 127 - scale)), hi = to_e4m3(ldexp(span.y, 127 - scale)),
               got = ldexp(units, -9);
  count_judged(a, kH, true);
  if (!(is_number && is_scale && got >= lo && got <= hi))
    report_outside(a, kH, slot, column, ldexp(got, scale - 127), ldexp(lo, scale - 127),
                   ldexp(hi, scale - 127));
  a.h_codes[slot * a.intermediate + column] = units;
  if (lane == 0) a.h_scales[slot * blocks + block] = static_cast<uint8_t>(scale);
}

// From the h that was found. A block a slot and part of the outputs, a warp an output.
static __global__ void judge_down(const __grid_constant__ JudgeArgs a) {
  extern __shared__ int32_t h[];
  const auto slot = static_cast<int>(blockIdx.x);
  const int expert = a.wanted[slot];
  to_shared(h, a.h_codes + slot * a.intermediate, a.intermediate);
  const Canonical& w = a.weights.w2;
  const uint8_t *codes = w.codes + expert * w.code_bytes(),
                *scales = w.scales + expert * w.scale_bytes();
  const int warp = static_cast<int>(blockIdx.y * kJudgeThreads + threadIdx.x) / 32;
  for (int n = warp; n < a.hidden; n += kDownParts * kJudgeThreads / 32) {
    const int64_t row = n;
    const Sum sum =
        product(h, a.h_scales + slot * a.intermediate / 32, codes + row * a.intermediate / 2,
                scales + row * a.intermediate / 32, a.intermediate);
    const double lo = to_bf16(sum.value - sum.room), hi = to_bf16(sum.value + sum.room),
                 got = __bfloat162float(rows_of(a)[int64_t{slot} * a.hidden + n]);
    count_judged(a, kRows, threadIdx.x % 32 == 0);
    if (threadIdx.x % 32 == 0 && !(got >= lo && got <= hi))
      report_outside(a, kRows, slot, n, got, lo, hi);
  }
}

// Section 8, from the rows and weights that were found: bytes.
static __global__ void judge_y(const __grid_constant__ JudgeArgs a) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int token = at / a.hidden, column = at % a.hidden;
  const bool is_there = token < a.tokens;
  float want = 0, got = 0;
  if (is_there) {
    for (int j = token * kTopK; j < (token + 1) * kTopK; ++j)
      want = fmaf(a.topk_weights[j], __bfloat162float(rows_of(a)[int64_t{j} * a.hidden + column]),
                  want);
    want = __bfloat162float(__float2bfloat16_rn(want));
    got = __bfloat162float(a.y[at]);
  }
  count_judged(a, kY, is_there);
  if (__float_as_uint(got) != __float_as_uint(want))
    report_outside(a, kY, token * kTopK, column, got, want, want);
}

// Judges what `call` left, on `stream`; the verdicts add up.
class Judge {
 public:
  explicit Judge(const DecodeLayer& layer)
      : layer_(layer),
        x_codes_(std::vector<int32_t>(size_of(kMostRows * layer.shape.hidden))),
        h_codes_(std::vector<int32_t>(size_of(kMostRows * kTopK * layer.shape.intermediate))),
        x_scales_(std::vector<uint8_t>(size_of(kMostRows * layer.shape.hidden / 32))),
        h_scales_(std::vector<uint8_t>(size_of(kMostRows * kTopK * layer.shape.intermediate / 32))),
        h_span_(std::vector<double2>(size_of(kMostRows * kTopK * layer.shape.intermediate))),
        verdict_(std::vector<Verdict>(1)) {}

  void enqueue(const DecodeCall& call, const int32_t* wanted, int routing,
               cudaStream_t stream) const {
    const DecodeShape& s = layer_.shape;
    const JudgeArgs a{.weights = layer_.canonical,
                      .limit = layer_.weights.limit,
                      .wanted = wanted,
                      .logits = call.logits.get(),
                      .x = reinterpret_cast<const __nv_bfloat16*>(call.x.get()),
                      .y = reinterpret_cast<const __nv_bfloat16*>(call.y.get()),
                      .ids = call.ids.get(),
                      .topk_weights = call.weights.get(),
                      .workspace = call.workspace.get(),
                      .at = call.at(),
                      .h_tile_bytes = call.at().h_bytes / call.tiles(),
                      .tokens = call.tokens,
                      .hidden = static_cast<int>(s.hidden),
                      .intermediate = static_cast<int>(s.intermediate),
                      .experts = static_cast<int>(s.experts),
                      .routing = routing,
                      .x_codes = x_codes_.get(),
                      .h_codes = h_codes_.get(),
                      .x_scales = x_scales_.get(),
                      .h_scales = h_scales_.get(),
                      .h_span = h_span_.get(),
                      .verdict = verdict_.get()};
    const auto slots = static_cast<unsigned>(call.slots);
    const auto blocks_of = [](int64_t threads) {
      return static_cast<unsigned>(ceil_div(threads, kJudgeThreads));
    };
    const auto shared_of = [](int64_t width) { return size_of(width / 32 * 33 * 4); };
    quantize_x<<<blocks_of(call.tokens * s.hidden / 32), kJudgeThreads, 0, stream>>>(a);
    judge_routing<<<1, 64, 0, stream>>>(a);
    judge_up<<<dim3(slots, kUpParts), kJudgeThreads, shared_of(s.hidden), stream>>>(a);
    judge_h<<<blocks_of(call.slots * s.intermediate), kJudgeThreads, 0, stream>>>(a);
    judge_down<<<dim3(slots, kDownParts), kJudgeThreads, shared_of(s.intermediate), stream>>>(a);
    judge_y<<<blocks_of(call.tokens * s.hidden), kJudgeThreads, 0, stream>>>(a);
    expect_ok(cudaGetLastError());
  }
  Verdict verdict() const { return verdict_.back().front(); }

 private:
  const DecodeLayer& layer_;
  OnDevice<int32_t> x_codes_, h_codes_;
  OnDevice<uint8_t> x_scales_, h_scales_;
  OnDevice<double2> h_span_;
  OnDevice<Verdict> verdict_;
};

}  // namespace octet::sm90
