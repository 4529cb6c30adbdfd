// SPDX-License-Identifier: Apache-2.0
// A call of Hopper's layer judged on the device, in float64 from canonical weights, by plain kernels that know semantics.md and of the
// launches only in which formats they are and in which order they add (judge_products.cuh).
//
//   x ─► read_x ─► judge_up ─► span of h ─► judge_h ◄── h found (activation_record.h) ─► judge_down ◄── rows found ─► judge_y ◄── y found
//   wanted ids, logits ─► judge_routing ◄── ids and weights found
//
// h and rows are right where they are the rounding of a number inside the room of judge_products.cuh; rows are judged from the h that was
// found, y, by its bytes, from the rows and weights that were. For the values that decode_layer.cuh and decode_call.cuh make: numbers and
// scales far from the ends of their ranges; anything else is reported as outside.
#pragma once

#include <cstdint>

#include "decode_call.cuh"
#include "judge_products.cuh"
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
  const float *limit, *gate_alpha, *up_alpha, *down_alpha;  // of experts; but limit null: 1
  SumOrder up_order, down_order;
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
  float *x_read, *h_found;  // [T, H], [T k, I]
  double2* h_span;          // [T k, I]
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

// x as the products read it: as it is, or section 3, closed form. A thread a block of 32.
template <class Traits>
static __global__ void read_x(const __grid_constant__ JudgeArgs a) {
  const int block = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (block >= a.tokens * a.hidden / 32) return;
  const auto* bits = reinterpret_cast<const uint16_t*>(a.x) + block * 32;
  int most = 0;
  for (int i = 0; i < 32; ++i) most = max(most, bits[i] & 0x7FFF);
  const int code = (most >> 7) - 8 + ((most & 127) > 96 ? 1 : 0);
  for (int i = 0; i < 32; ++i) {
    double v = __bfloat162float(a.x[block * 32 + i]);
    if (Traits::kActivations == Activations::kMxfp8)
      v = ldexp(to_e4m3(ldexp(v, 127 - code)), code - 127);
    a.x_read[block * 32 + i] = static_cast<float>(v);
  }
}

// sqrt(log(1 + exp(logit))), each root by a step of Newton's from binary32's: the simulator has neither sqrt nor what CUDA's log takes in
// binary64.
__device__ inline double score_of(double logit) {
  const double v = 1 + exp(logit), near_log = logf(static_cast<float>(v));
  const double log = near_log + (v * exp(-near_log) - 1);
  const double near_root = sqrtf(static_cast<float>(log));
  return 0.5 * (near_root + log / near_root);
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
    const double w = score_of(logit);
    sum += w;
    if (j == slot) mine = w;
  }
  const double weight = mine * kRouterScale / sum, room = weight * 0x1p-19;
  const double found = a.topk_weights[slot];
  if (!(fabs(found - weight) <= room))
    report_outside(a, kWeights, slot, 0, found, weight - room, weight + room);
}

__device__ inline double silu(double gate) { return gate / (1 + exp(-gate)); }
// Sections 7 and 9 over intervals, before any rounding of h. Binary32 adds, relative, 5 * 2^-23 for the reciprocal, the sum and the products, and (1 - sigmoid) (|gate| + 2)
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
template <class Traits>
static __global__ void judge_up(const __grid_constant__ JudgeArgs a) {
  extern __shared__ float x[];
  const auto slot = static_cast<int>(blockIdx.x);
  const int token = slot / kTopK, expert = a.wanted[slot];
  to_shared(x, a.x_read + int64_t{token} * a.hidden, a.hidden);
  const Canonical& w = a.weights.w13;
  const int warp = static_cast<int>(blockIdx.y * kJudgeThreads + threadIdx.x) / 32;
  for (int column = warp; column < a.intermediate; column += kUpParts * kJudgeThreads / 32) {
    const Sum gate = product<Traits>(x, weight_row(w, a.gate_alpha, expert, column), a.up_order),
              up = product<Traits>(x, weight_row(w, a.up_alpha, expert, column + a.intermediate),
                                   a.up_order);
    if (threadIdx.x % 32 == 0)
      a.h_span[slot * a.intermediate + column] = swiglu_span(gate, up, a.limit[expert]);
  }
}

// Where h of a slot is. Tiles are experts ascending, their rows tokens ascending.
struct HiddenPlace {
  int tile, row, rows;
};
__host__ __device__ inline HiddenPlace hidden_place(const int32_t* wanted, int tokens, int slot) {
  const int token = slot / kTopK, expert = wanted[slot];
  HiddenPlace p{};
  for (int s = 0; s < tokens * kTopK; ++s) {
    const int e = wanted[s];
    p.rows += e == expert ? 1 : 0;
    p.row += e == expert && s / kTopK < token ? 1 : 0;
    bool is_first = e < expert;
    for (int before = 0; is_first && before < s; ++before) is_first = wanted[before] != e;
    p.tile += is_first ? 1 : 0;
  }
  return p;
}

// Section 7: code of a block of h from its largest magnitude.
__device__ inline int h_scale_code(double amax) {
  const float found = amax == 0 ? 448.0F : static_cast<float>(amax);
  const uint32_t v = __float_as_uint(__fmul_rn(found, __uint_as_float(0x3B124925U)));
  return static_cast<int>(v >> 23) + ((v & 0x7FFFFFU) != 0 ? 1 : 0);
}
// Section 7: an element of a block in its scale, which must be one that the block may have. A whole warp, a lane an element.
__device__ inline void judge_h_element(const JudgeArgs& a, const uint8_t* h,
                                       const HiddenPlace& place, int slot, int column) {
  const double2 span = a.h_span[slot * a.intermediate + column];
  double least = span.x <= 0 && span.y >= 0 ? 0 : fmin(fabs(span.x), fabs(span.y)),
         most = fmax(fabs(span.x), fabs(span.y));
  for (int other = 16; other > 0; other /= 2) {
    least = fmax(least, __shfl_xor_sync(~0U, least, other));
    most = fmax(most, __shfl_xor_sync(~0U, most, other));
  }
  const int rows = ActivationRecord::padded_rows(place.rows);
  const auto bits = *reinterpret_cast<const uint32_t*>(
      h + ActivationRecord::scale_at(rows, place.row, column / 32 * 32));
  const auto scale = static_cast<int>(bits >> 23);
  int units = 0;
  const bool is_number = e4m3_units(h[ActivationRecord::code_at(rows, place.row, column)], units);
  const bool is_scale = scale > 0 && scale < 255 && (bits & 0x7FFFFFU) == 0 && least > 0 &&
                        scale >= h_scale_code(least) && scale <= h_scale_code(most);
  const double lo = to_e4m3(ldexp(span.x, 127 - scale)), hi = to_e4m3(ldexp(span.y, 127 - scale)),
               got = ldexp(units, -9);
  if (!(is_number && is_scale && got >= lo && got <= hi))
    report_outside(a, kH, slot, column, ldexp(got, scale - 127), ldexp(lo, scale - 127),
                   ldexp(hi, scale - 127));
  a.h_found[slot * a.intermediate + column] = static_cast<float>(ldexp(got, scale - 127));
}
// Section 9: one rounding to BF16.
__device__ inline void judge_h_element_bf16(const JudgeArgs& a, const uint8_t* h,
                                            const HiddenPlace& place, int slot, int column) {
  const double2 span = a.h_span[slot * a.intermediate + column];
  const float got = __bfloat162float(
      *reinterpret_cast<const __nv_bfloat16*>(h + Bf16Record::at(place.rows, place.row, column)));
  const double lo = to_bf16(span.x), hi = to_bf16(span.y);
  if (!(got >= lo && got <= hi)) report_outside(a, kH, slot, column, got, lo, hi);
  a.h_found[slot * a.intermediate + column] = got;
}
// A warp a block of 32 columns.
template <class Traits>
static __global__ void judge_h(const __grid_constant__ JudgeArgs a) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int all = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / 32,
            blocks = a.intermediate / 32;
  const int slot = all / blocks, column = all % blocks * 32 + lane;
  if (slot >= a.tokens * kTopK) return;
  const HiddenPlace place = hidden_place(a.wanted, a.tokens, slot);
  const uint8_t* h = half_of(a) + a.at.h_at + place.tile * a.h_tile_bytes;
  count_judged(a, kH, true);
  if constexpr (Traits::kActivations == Activations::kMxfp8) {
    judge_h_element(a, h, place, slot, column);
  } else {
    judge_h_element_bf16(a, h, place, slot, column);
  }
}

// From the h that was found. A block a slot and part of the outputs, a warp an output.
template <class Traits>
static __global__ void judge_down(const __grid_constant__ JudgeArgs a) {
  extern __shared__ float h[];
  const auto slot = static_cast<int>(blockIdx.x);
  to_shared(h, a.h_found + slot * a.intermediate, a.intermediate);
  const int warp = static_cast<int>(blockIdx.y * kJudgeThreads + threadIdx.x) / 32;
  for (int n = warp; n < a.hidden; n += kDownParts * kJudgeThreads / 32) {
    const Sum sum =
        product<Traits>(h, weight_row(a.weights.w2, a.down_alpha, a.wanted[slot], n), a.down_order);
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
        x_read_(std::vector<float>(size_of(kMostRows * layer.shape.hidden))),
        h_found_(std::vector<float>(size_of(kMostRows * kTopK * layer.shape.intermediate))),
        h_span_(std::vector<double2>(size_of(kMostRows * kTopK * layer.shape.intermediate))),
        verdict_(std::vector<Verdict>(1)) {}

  void enqueue(const DecodeCall& call, const int32_t* wanted, int routing,
               cudaStream_t stream) const {
    const DecodeShape& s = layer_.shape;
    const JudgeArgs a{.weights = layer_.canonical,
                      .limit = layer_.weights.limit,
                      .gate_alpha = layer_.weights.gate_alpha,
                      .up_alpha = layer_.weights.up_alpha,
                      .down_alpha = layer_.weights.down_alpha,
                      .up_order = sum_order(layer_.weights.sizes.w13, s.hidden),
                      .down_order = sum_order(layer_.weights.sizes.w2, s.intermediate),
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
                      .x_read = x_read_.get(),
                      .h_found = h_found_.get(),
                      .h_span = h_span_.get(),
                      .verdict = verdict_.get()};
    const auto slots = static_cast<unsigned>(call.slots);
    const auto blocks_of = [](int64_t threads) {
      return static_cast<unsigned>(ceil_div(threads, kJudgeThreads));
    };
    const auto shared_of = [](int64_t width) { return size_of(width / 32 * 33 * 4); };
    judge_routing<<<1, 64, 0, stream>>>(a);
    with_traits(layer_.formats.activations, layer_.formats.weights, [&]<class Traits>(Traits) {
      read_x<Traits><<<blocks_of(call.tokens * s.hidden / 32), kJudgeThreads, 0, stream>>>(a);
      judge_up<Traits><<<dim3(slots, kUpParts), kJudgeThreads, shared_of(s.hidden), stream>>>(a);
      judge_h<Traits><<<blocks_of(call.slots * s.intermediate), kJudgeThreads, 0, stream>>>(a);
      judge_down<Traits>
          <<<dim3(slots, kDownParts), kJudgeThreads, shared_of(s.intermediate), stream>>>(a);
    });
    judge_y<<<blocks_of(call.tokens * s.hidden), kJudgeThreads, 0, stream>>>(a);
    expect_ok(cudaGetLastError());
  }
  Verdict verdict() const { return verdict_.back().front(); }

 private:
  const DecodeLayer& layer_;
  OnDevice<float> x_read_, h_found_;
  OnDevice<double2> h_span_;
  OnDevice<Verdict> verdict_;
};

}  // namespace octet::sm90
