// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. Random routings of Hopper's layer at V4.1's size, in each of its launches, from logits and x to y, each element of
// h, rows and y judged in float64 on the device (float64_judge.cuh); and that this judge sees what is wrong.
//
//   OCTET_ROUTINGS=10000 octet_sm90_stress_test --gtest_filter='*Routings.*'      200 otherwise; OCTET_SHAPE as decode_layer.cuh says
//   --gtest_filter='*Routings.*/experts_bf16_nvfp4_sm90'                          one launch
#include <algorithm>
#include <random>

#include "float64_judge.cuh"

namespace octet::sm90 {
namespace {

// [8, k] ids, distinct in each row: uniform, crowded towards low ids, of few experts, or the same in all rows.
std::vector<int32_t> random_ids(int kind, int64_t experts, std::mt19937& rng) {
  std::uniform_real_distribution<double> uniform;
  const auto few = static_cast<int64_t>(kTopK + rng() % 6);
  const auto first = static_cast<int64_t>(rng() % size_of(experts - few + 1));
  const auto draw = [&] {
    const double u = uniform(rng);
    const double share = kind == 1 ? u * u * u * u : u;
    return kind == 2 ? first + static_cast<int64_t>(u * static_cast<double>(few))
                     : static_cast<int64_t>(share * static_cast<double>(experts));
  };
  std::vector<int32_t> ids;
  for (int row = 0; row < kMostRows; ++row) {
    const auto begin = std::ssize(ids);
    while (std::ssize(ids) < begin + kTopK) {
      const auto id = static_cast<int32_t>(draw());
      if (std::find(ids.begin() + begin, ids.end(), id) == ids.end()) ids.push_back(id);
    }
    if (kind == 3) std::copy_n(ids.begin(), kTopK, ids.begin() + begin);
  }
  return ids;
}

class Routings : public testing::TestWithParam<Formats> {};

TEST_P(Routings, AreTheReferenceWithinItsRoom) {
  const DecodeLayer layer(GetParam());
  const int64_t experts = layer.shape.experts;
  for (const int64_t e : {int64_t{0}, experts / 2 + 1, experts - 1}) layer.expect_packed(e);
  if (HasFailure()) return;

  const auto count = static_cast<int>(setting("OCTET_ROUTINGS", 200));
  std::mt19937 rng(1);
  std::vector<int32_t> all;
  for (int i = 0; i < count; ++i) {
    const auto ids = random_ids(i % 4, experts, rng);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  const OnDevice<int32_t> wanted(all);
  std::vector<std::unique_ptr<DecodeCall>> calls;
  for (int tokens = 1; tokens <= kMostRows; ++tokens)
    calls.push_back(std::make_unique<DecodeCall>(layer, tokens));
  const Judge judge(layer);
  const Stream stream;
  const int sms = experts_ctas();
  unsigned long long rows = 0;
  for (int i = 0; i < count; ++i) {
    const DecodeCall& call = *calls[rng() % calls.size()];
    const int32_t* ids = wanted.get() + i * kMostRows * kTopK;
    const int ctas = i % 2 == 0 ? sms : 1 + sms / 3 + static_cast<int>(rng() % size_of(sms));
    request(call, ids, size_of(i), stream);
    if (i % 3 == 0) call.poison(stream);  // otherwise as the launch before has left it
    call.launch(stream, ctas);
    judge.enqueue(call, ids, i, stream);
    rows += static_cast<unsigned long long>(call.tokens);
    if (i % 1000 == 999) finish(stream, "routings");
    if (HasFailure()) return;
  }
  finish(stream, "routings");
  const Verdict v = judge.verdict();
  const auto width = static_cast<unsigned long long>(layer.shape.hidden);
  EXPECT_EQ(v.judged[kH], rows * kTopK * static_cast<unsigned long long>(layer.shape.intermediate));
  EXPECT_EQ(v.judged[kRows], rows * kTopK * width);
  EXPECT_EQ(v.judged[kY], rows * width);
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_EQ(v.outside[stage], 0U) << "of " << v.judged[stage] << " " << kStageNames[stage];
    std::printf("%s: %llu of %llu outside\n", kStageNames[stage], v.outside[stage],
                v.judged[stage]);
  }
  if (v.taken != 0) {
    ADD_FAILURE() << "routing " << v.routing << ", " << kStageNames[v.stage] << ", slot " << v.slot
                  << ", column " << v.column << ": got " << v.got << ", want " << v.lo << " ... "
                  << v.hi;
  }
}

// What a launch left, with something changed, as the judge finds it.
class Planted {
 public:
  Planted(const DecodeLayer& layer, const DecodeCall& call, const std::vector<int32_t>& wanted)
      : layer_(layer), call_(call), wanted_(wanted) {}

  // Changes `count` elements at `at`, judges, changes them back. Returns how many were outside at `stage`.
  template <class T, class Change>
  unsigned long long outside(Stage stage, T* at, int64_t count, const Change& change) const {
    std::vector<T> was(size_of(count));
    expect_ok(cudaMemcpy(was.data(), at, was.size() * sizeof(T), cudaMemcpyDeviceToHost));
    std::vector<T> now = was;
    change(now);
    expect_ok(cudaMemcpy(at, now.data(), now.size() * sizeof(T), cudaMemcpyHostToDevice));
    const unsigned long long found = judged(wanted_).outside[stage];
    expect_ok(cudaMemcpy(at, was.data(), was.size() * sizeof(T), cudaMemcpyHostToDevice));
    return found;
  }
  Verdict judged(const std::vector<int32_t>& wanted) const {
    const OnDevice<int32_t> ids(wanted);
    const Judge judge(layer_);
    const Stream stream;
    judge.enqueue(call_, ids.get(), 0, stream);
    finish(stream, "judge", 600);
    return judge.verdict();
  }
  uint8_t* half() const {
    LaunchWord word{};
    expect_ok(cudaMemcpy(&word, call_.workspace.get() + ExpertsWorkspace::kWordAt, sizeof word,
                         cudaMemcpyDeviceToHost));
    return call_.workspace.get() + ExpertsWorkspace::kHalvesAt +
           word.last_half() * call_.at().half_bytes;
  }
  Bf16* row(int slot) const {
    return reinterpret_cast<Bf16*>(half() + call_.at().rows_at) + slot * layer_.shape.hidden;
  }
  // All records of a slot's tile, and where element `column` of the slot is in them.
  uint8_t* tile(int slot) const {
    const HiddenPlace p = hidden_place(wanted_.data(), call_.tokens, slot);
    return half() + call_.at().h_at + p.tile * tile_bytes();
  }
  int64_t tile_bytes() const { return call_.at().h_bytes / call_.tiles(); }
  uint32_t h_at(int slot, int column) const {
    const HiddenPlace p = hidden_place(wanted_.data(), call_.tokens, slot);
    return layer_.formats.activations == Activations::kMxfp8
               ? ActivationRecord::code_at(ActivationRecord::padded_rows(p.rows), p.row, column)
               : Bf16Record::at(p.rows, p.row, column);
  }

 private:
  const DecodeLayer& layer_;
  const DecodeCall& call_;
  const std::vector<int32_t>& wanted_;
};

// A row that shares its expert with another and a row alone; what is planted is in slot 0 and its expert.
TEST_P(Routings, AreJudgedOutsideWhereSomethingIsPlanted) {
  const DecodeLayer layer(GetParam());
  const int64_t hidden = layer.shape.hidden, columns = layer.shape.intermediate;
  const DecodeCall call(layer, 2);
  std::vector<int32_t> wanted = {7, 1, 2, 3, 4, 5, 8, 7, 9, 1, 10, 11};
  const OnDevice<int32_t> ids(wanted);
  const Stream stream;
  request(call, ids.get(), 1, stream);
  call.launch(stream);
  finish(stream, "a launch");
  const Planted planted(layer, call, wanted);
  const Verdict plain = planted.judged(wanted);
  for (int stage = 0; stage < kStages; ++stage)
    ASSERT_EQ(plain.outside[stage], 0U) << kStageNames[stage];

  // `got` of `count` changed ones, want at least `share` of them.
  const auto expect_seen = [](const char* what, unsigned long long got, int64_t count,
                              double share) {
    std::printf("%s: %llu of %lld seen\n", what, got, static_cast<long long>(count));
    EXPECT_GE(static_cast<double>(got), share * static_cast<double>(count)) << what;
  };
  const bool is_mxfp8 = GetParam().activations == Activations::kMxfp8;
  const auto flipped = [](uint16_t bit) {
    return [bit](std::vector<Bf16>& v) {
      for (Bf16& e : v) e.bits ^= bit;
    };
  };
  expect_seen("an id", planted.outside(kIds, call.ids.get(), 1, [](auto& v) { ++v[0]; }), 1, 1);
  expect_seen(
      "a weight by 2^-17 of itself",
      planted.outside(kWeights, call.weights.get(), 1, [](auto& v) { v[0] *= 1 + 0x1p-17F; }), 1,
      1);
  expect_seen("y's last bits", planted.outside(kY, call.y.get(), hidden, flipped(1)), hidden, 1);
  // The room of MXFP8 is wider than the last bits.
  expect_seen(is_mxfp8 ? "a row's bits 3" : "a row's last bits",
              planted.outside(kRows, planted.row(0), hidden, flipped(is_mxfp8 ? 8 : 1)), hidden,
              is_mxfp8 ? 0.5 : 0.75);
  expect_seen("another slot's row",
              planted.outside(kRows, planted.row(0), 2 * hidden,
                              [&](auto& v) { std::copy_n(v.begin() + hidden, hidden, v.begin()); }),
              hidden, 0.9);
  expect_seen(is_mxfp8 ? "h's bits 1" : "h's last bits",
              planted.outside(kH, planted.tile(0), planted.tile_bytes(),
                              [&](auto& v) {
                                for (int c = 0; c < columns; ++c)
                                  v[planted.h_at(0, c)] ^= is_mxfp8 ? 2U : 1U;
                              }),
              columns, is_mxfp8 ? 0.25 : 0.75);
  // A sign in each gate row, and in each row of w2, of the expert that slots 0 and 7 share.
  const auto signs = [](const Canonical& m) {
    return [stride = size_of(m.cols / 2)](auto& v) {
      for (size_t i = 0; i < v.size(); i += stride) v[i + i / stride % stride] ^= 0x08U;
    };
  };
  const Canonical &w13 = layer.canonical.w13, &w2 = layer.canonical.w2;
  expect_seen("a weight's sign in each gate row",
              planted.outside(kH, w13.codes + wanted[0] * w13.code_bytes(), w13.code_bytes() / 2,
                              signs(w13)),
              2 * columns, is_mxfp8 ? 0.02 : 0.25);
  expect_seen(
      "a weight's sign in each row of w2",
      planted.outside(kRows, w2.codes + wanted[0] * w2.code_bytes(), w2.code_bytes(), signs(w2)),
      2 * hidden, is_mxfp8 ? 0.1 : 0.25);
  wanted[0] = wanted[7] = 6;  // which no row has, and whose tile would be there
  const Verdict other = planted.judged(wanted);
  expect_seen("another expert, in ids", other.outside[kIds], 2, 1);
  expect_seen("another expert, in h", other.outside[kH], 2 * columns, 0.9);
  expect_seen("another expert, in rows", other.outside[kRows], 2 * hidden, 0.9);
}

INSTANTIATE_TEST_SUITE_P(Sm90, Routings, testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace octet::sm90
