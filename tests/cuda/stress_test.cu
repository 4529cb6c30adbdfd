// SPDX-License-Identifier: Apache-2.0
// Needs an SM 9.0 device. Hopper's layer, in each of its launches, where it could hang or take what is not there yet: long chains of replays,
// several streams, SMs held by somebody else, launches broken off. Bytes are compared with those of a call alone; what is right is judged in
// routings_test.cu.
//
//   OCTET_REPLAYS=1000000 octet_sm90_stress_test --gtest_filter='*Stress.*'      1,000 otherwise; OCTET_SHAPE as decode_layer.cuh says
//   --gtest_filter='*Stress.*/experts_bf16_nvfp4_sm90'                           one launch
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "replays.cuh"
#include "sm_holder.cuh"

namespace octet::sm90 {
namespace {

class Stress : public testing::TestWithParam<Formats> {
 protected:
  // All three are kept (11 GB at V4.1's size): each test runs on every launch before the next test does.
  static const DecodeLayer& layer() {
    std::unique_ptr<DecodeLayer>& made = layers_[name_of(GetParam())];
    if (made == nullptr) made = std::make_unique<DecodeLayer>(GetParam());
    return *made;
  }
  static void TearDownTestSuite() { layers_.clear(); }

  // Ids of request `number`: from 6 to 12 neighbouring experts.
  static std::vector<int32_t> wanted(uint64_t number) {
    std::vector<int32_t> ids;
    const uint64_t first = mix(number), spread = mix(first) % 4;
    for (int row = 0; row < kMostRows; ++row) {
      for (int j = 0; j < kTopK; ++j)
        ids.push_back(static_cast<int32_t>((first + (size_of(j) + size_of(row) * spread) % 12) %
                                           size_of(layer().shape.experts)));
    }
    return ids;
  }
  // A request laid down in `call`.
  static void ask(const DecodeCall& call, uint64_t number, cudaStream_t stream) {
    const OnDevice<int32_t> ids(wanted(number));
    request(call, ids.get(), number, stream);
    finish(stream, "request");
  }
  static CallResult alone(const DecodeCall& call, uint64_t number, cudaStream_t stream) {
    ask(call, number, stream);
    call.poison(stream);
    call.launch(stream);
    finish(stream, "alone");
    return call.result();
  }

 private:
  static std::map<std::string, std::unique_ptr<DecodeLayer>> layers_;
};
std::map<std::string, std::unique_ptr<DecodeLayer>> Stress::layers_;
INSTANTIATE_TEST_SUITE_P(Sm90, Stress, testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return name_of(info.param); });

// ---- Replays

TEST_P(Stress, ReplaysOnNewLogitsAreTheSameOnAnyGrid) {
  const int64_t count = setting("OCTET_REPLAYS", 1000);
  const int sms = experts_ctas();
  const Chain one = Replays(layer(), kMostRows, sms, 1).run(count),
              other = Replays(layer(), kMostRows, sms * 2 / 3, 1).run(count);
  EXPECT_EQ(one.replay, size_of(count));
  EXPECT_EQ(one.digest, other.digest);
  // The digest tells other requests apart.
  const int64_t few = std::min<int64_t>(count, 20);
  EXPECT_NE(Replays(layer(), kMostRows, sms, 1).run(few).digest,
            Replays(layer(), kMostRows, sms, 2).run(few).digest);
  std::printf("%lld replays on %d and %d CTAs, digest %016llx\n", static_cast<long long>(count),
              sms, sms * 2 / 3, static_cast<unsigned long long>(one.digest));
}

// ---- Streams

TEST_P(Stress, StreamsBesideOneAnotherGiveTheirOwnBytes) {
  constexpr int kTokens[] = {1, 8, 3, 6};
  const auto rounds = static_cast<int>(setting("OCTET_ROUNDS", 50));
  std::vector<std::unique_ptr<DecodeCall>> calls;
  std::vector<CallResult> want;
  const Stream streams[std::size(kTokens)];
  for (const int tokens : kTokens) {
    calls.push_back(std::make_unique<DecodeCall>(layer(), tokens));
    want.push_back(alone(*calls.back(), size_of(tokens), streams[0]));
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t s = 0; s < calls.size(); ++s) calls[s]->poison(streams[s]);
    for (int again = 0; again < 5; ++again)
      for (size_t s = 0; s < calls.size(); ++s) calls[s]->launch(streams[s]);
    for (const Stream& s : streams) finish(s, "streams");
    for (size_t s = 0; s < calls.size(); ++s)
      ASSERT_EQ(difference(calls[s]->result(), want[s]), "")
          << "T " << calls[s]->tokens << ", round " << round;
  }
}

// ---- SMs that somebody else holds

constexpr uint64_t kMostNs = 20'000'000'000;

TEST_P(Stress, FewerSmsThanCtasGiveTheSameBytes) {
  const Stream stream;
  const DecodeCall a(layer(), 8), b(layer(), 1), c(layer(), 5);
  const CallResult of_a = alone(a, 1, stream), of_b = alone(b, 2, stream),
                   of_c = alone(c, 3, stream);
  SmHolder holder;
  const int sms = experts_ctas();
  for (const int left : {1, 2, 7, sms / 2, sms - 1}) {
    SCOPED_TRACE(testing::Message() << left << " SMs left");
    for (const DecodeCall* call : {&a, &b, &c}) call->poison(stream);
    finish(stream, "poison");
    holder.take(sms - left, kMostNs);
    // Each call's kernels are programmatic dependents of the one before.
    for (const DecodeCall* call : {&a, &b, &c}) call->launch(stream);
    finish(stream, "a layer on few SMs", 15);
    EXPECT_TRUE(holder.holds()) << "the SMs were free before the layer ended";
    holder.let_go();
    EXPECT_EQ(difference(a.result(), of_a), "");
    EXPECT_EQ(difference(b.result(), of_b), "");
    EXPECT_EQ(difference(c.result(), of_c), "");
  }
}

TEST_P(Stress, AllSmsHeldForAWhileChangeNoByte) {
  const Stream stream;
  const DecodeCall a(layer(), 8), b(layer(), 2);
  const CallResult of_a = alone(a, 4, stream), of_b = alone(b, 5, stream);
  SmHolder holder;
  const int sms = experts_ctas();
  for (int round = 0; round < 3; ++round) {
    for (const DecodeCall* call : {&a, &b}) call->poison(stream);
    finish(stream, "poison");
    holder.take(sms, 10'000'000);
    for (const DecodeCall* call : {&a, &b}) call->launch(stream);
    finish(stream, "a layer behind held SMs");
    holder.let_go();
    EXPECT_EQ(difference(a.result(), of_a), "");
    EXPECT_EQ(difference(b.result(), of_b), "");
  }
}

// The holder takes SMs while a chain runs: between its kernels, so that some of their CTAs never begin before others have ended.
TEST_P(Stress, SmsTakenInTheMidstOfAChainChangeNoByte) {
  const Stream stream;
  const DecodeCall a(layer(), 8), b(layer(), 3);
  const CallResult of_a = alone(a, 6, stream), of_b = alone(b, 7, stream);
  SmHolder holder;
  const int sms = experts_ctas();
  for (int round = 0; round < 10; ++round) {
    for (const DecodeCall* call : {&a, &b}) call->poison(stream);
    for (int i = 0; i < 40; ++i) {
      a.launch(stream);
      b.launch(stream);
      if (i == 10) holder.take(round % 2 == 0 ? sms - 3 : sms / 2, 1'000'000, false);
    }
    finish(stream, "a chain beside a holder");
    holder.let_go();
    ASSERT_EQ(difference(a.result(), of_a), "") << "round " << round;
    ASSERT_EQ(difference(b.result(), of_b), "") << "round " << round;
  }
}

// ---- Launches that were broken off

// Any state that a launch could leave, then a call as ever.
class BrokenOff {
 public:
  BrokenOff(const DecodeCall& call, const CallResult& want, cudaStream_t stream)
      : call_(call), want_(want), stream_(stream) {}
  void expect_same(const char* state, int64_t detail = 0) const {
    call_.launch(stream_);
    finish(stream_, state);
    EXPECT_EQ(difference(call_.result(), want_), "") << "after " << state << " " << detail;
  }

 private:
  const DecodeCall& call_;
  const CallResult& want_;
  cudaStream_t stream_;
};

TEST_P(Stress, ACallAfterAnyStateOfItsWorkspaceGivesItsBytes) {
  const Stream stream;
  const DecodeCall call(layer(), 8), other(layer(), 8), fewer(layer(), 3);
  const CallResult want = alone(call, 8, stream);
  ask(other, 9, stream);
  ask(fewer, 10, stream);
  const BrokenOff then(call, want, stream);
  const auto all_of = [&](const DecodeCall& another) {
    expect_ok(launch_experts(another.experts(&call), experts_ctas(), stream));
  };
  // What comes before the launch from ids, and of BF16, where nothing does, that launch.
  const bool is_mxfp8 = GetParam().activations == Activations::kMxfp8;
  const auto from_ids = [&](const DecodeCall& another) {
    ExpertsArgs args = another.experts(&call);
    args.front = {};
    if (!is_mxfp8) {
      expect_ok(launch_experts(args, experts_ctas(), stream));
      finish(stream, "a launch from ids");
      return;
    }
    const OnDevice<uint8_t> codes(std::vector<uint8_t>(size_of(8 * layer().shape.hidden), 0x38)),
        scales(std::vector<uint8_t>(size_of(8 * layer().shape.hidden / 32), 127));
    args.gemm.x_quant = codes.get();
    args.gemm.x_scale = scales.get();
    expect_ok(launch_make_ready(args, stream));
    finish(stream, "make_ready");
  };
  for (const int byte : {0x00, 0xFF, 0x7F, 0xA5}) {
    expect_ok(cudaMemsetAsync(call.workspace.get(), byte, size_of(call.workspace_bytes()), stream));
    then.expect_same("bytes of", byte);
    then.expect_same("a call after bytes of", byte);
  }
  for (uint64_t seed = 0; seed < 4; ++seed) {
    make_codes<<<64, 256, 0, stream>>>(call.workspace.get(), call.workspace_bytes(), seed);
    then.expect_same("random bytes", static_cast<int64_t>(seed));
  }
  all_of(other);
  then.expect_same("all of another routing");
  all_of(fewer);
  then.expect_same("all of fewer rows");
  for (const DecodeCall* another : {&other, &fewer}) {
    from_ids(*another);  // by the record that its own launch has left
    then.expect_same(is_mxfp8 ? "make_ready alone, rows" : "a launch from ids, rows",
                     another->tokens);
  }
  // The word that a launch counts in, with what the launch before has left.
  const auto at = call.at();
  for (const uint64_t word :
       {uint64_t{0}, uint64_t{1}, uint64_t{57}, ~uint64_t{0}, LaunchWord::kRunning,
        LaunchWord::kRunning | LaunchWord::at_rest(at.half_bytes, 0) | 500,
        LaunchWord::kRunning | LaunchWord::at_rest(at.half_bytes, 1) | LaunchWord::kReady,
        LaunchWord::at_rest(at.half_bytes + 256, 1)}) {
    all_of(other);
    finish(stream, "another routing");
    expect_ok(cudaMemcpy(call.workspace.get() + ExpertsWorkspace::kWordAt, &word, sizeof word,
                         cudaMemcpyHostToDevice));
    then.expect_same("the word", static_cast<int64_t>(word));
  }
  // At rest, but everything else is somebody else's.
  for (const int byte : {0x00, 0x3C}) {
    all_of(other);
    expect_ok(cudaMemsetAsync(call.workspace.get() + ExpertsWorkspace::kHalvesAt, byte,
                              size_of(call.workspace_bytes() - ExpertsWorkspace::kHalvesAt),
                              stream));
    then.expect_same("a word at rest before bytes of", byte);
  }
}

// A first CTA took a ticket at rest and never made the word running: the next launch's wait for a second (launch_word.cuh), which the
// simulator, where no time passes while all wait, takes for a hang.
TEST_P(Stress, ACallAfterALaunchThatWasBrokenOffAsItBeganGivesItsBytes) {
  const Stream stream;
  const DecodeCall call(layer(), 8), other(layer(), 8);
  const CallResult want = alone(call, 8, stream);
  ask(other, 9, stream);
  expect_ok(launch_experts(other.experts(&call), experts_ctas(), stream));
  finish(stream, "another routing");
  const uint64_t word = LaunchWord::at_rest(call.at().half_bytes, 0) + LaunchWord::kTicket;
  expect_ok(cudaMemcpy(call.workspace.get() + ExpertsWorkspace::kWordAt, &word, sizeof word,
                       cudaMemcpyHostToDevice));
  BrokenOff(call, want, stream).expect_same("a ticket taken at rest");
}

// Decoding: calls of other numbers of rows on one workspace, whose parts lie elsewhere.
TEST_P(Stress, CallsOfOtherRowsOnOneWorkspaceGiveTheirBytes) {
  const Stream stream;
  const DecodeCall memory(layer(), 8);
  std::vector<std::unique_ptr<DecodeCall>> calls;
  std::vector<CallResult> want;
  for (int tokens = 1; tokens <= 8; ++tokens) {
    calls.push_back(std::make_unique<DecodeCall>(layer(), tokens));
    want.push_back(alone(*calls.back(), size_of(20 + tokens), stream));
  }
  std::mt19937 rng(1);
  for (int i = 0; i < 200; ++i) {
    const size_t at = rng() % calls.size();
    calls[at]->poison(stream);
    expect_ok(launch_experts(calls[at]->experts(&memory), experts_ctas(), stream));
    finish(stream, "a call on another's workspace");
    const auto y = calls[at]->y.back();
    for (size_t e = 0; e < y.size(); ++e)
      ASSERT_EQ(y[e].bits, want[at].y[e].bits)
          << "call " << i << ", T " << at + 1 << ", element " << e;
  }
}

// Memory as it was in the midst of a launch, copied while it ran.
TEST_P(Stress, ACallAfterALaunchThatWasBrokenOffGivesItsBytes) {
  constexpr int kSlowCtas = 8, kCopies = 40;  // a launch of some hundred microseconds
  const Stream stream, beside;
  const DecodeCall call(layer(), 8), other(layer(), 8);
  const CallResult want = alone(call, 11, stream);
  ask(other, 12, stream);
  const BrokenOff then(call, want, stream);
  const size_t workspace_bytes = size_of(call.workspace_bytes());
  // What lies between the workspace's parts, too, for tools that ask what is read before it is written.
  expect_ok(cudaMemset(call.workspace.get(), 0, workspace_bytes));
  uint8_t* kept = nullptr;
  expect_ok(cudaHostAlloc(&kept, workspace_bytes, cudaHostAllocDefault));
  int in_the_midst = 0;
  for (int delay_us = 0; delay_us < 10 * kCopies; delay_us += 10) {
    expect_ok(launch_experts(other.experts(&call), kSlowCtas, stream));
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(delay_us)) {
    }
    expect_ok(cudaMemcpyAsync(kept, call.workspace.get(), workspace_bytes, cudaMemcpyDeviceToHost,
                              beside));
    finish(beside, "a copy beside a launch");
    finish(stream, "a slow launch");
    uint64_t word = 0;
    std::memcpy(&word, kept + ExpertsWorkspace::kWordAt, sizeof word);
    if ((word & LaunchWord::kRunning) != 0) ++in_the_midst;
    expect_ok(cudaMemcpyAsync(call.workspace.get(), kept, workspace_bytes, cudaMemcpyHostToDevice,
                              stream));
    then.expect_same("a launch broken off, after us", delay_us);
  }
  cudaFreeHost(kept);
  EXPECT_GT(in_the_midst, 0) << "no copy was taken in the midst of a launch";
  std::printf("%d of %d copies of a launch that runs\n", in_the_midst, kCopies);
}

}  // namespace
}  // namespace octet::sm90
