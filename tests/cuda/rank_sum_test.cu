// SPDX-License-Identifier: Apache-2.0
// Needs a device: sums of partials against a plain loop, bytes. With two devices and NCCL also the gathering, a device a rank.
#include <algorithm>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cuda/nccl.h"
#include "cuda/rank_sum.h"
#include "on_device.h"

namespace octet::cuda {
namespace {

// Any 16 bits but NaN, whose bits are nobody's.
std::vector<Bf16> any_numbers(int64_t count, std::mt19937& rng) {
  std::vector<Bf16> v(static_cast<size_t>(count));
  for (Bf16& x : v) {
    x = {static_cast<uint16_t>(rng())};
    if ((x.bits & 0x7F80) == 0x7F80) x = {static_cast<uint16_t>(x.bits & 0xBFFF)};
  }
  return v;
}

std::vector<Bf16> sum_of(const std::vector<Bf16>& partials, int64_t ranks) {
  const size_t count = partials.size() / static_cast<size_t>(ranks);
  std::vector<Bf16> y(count);
  for (size_t i = 0; i < count; ++i) {
    float sum = formats::bf16_to_f32(partials[i]);
    for (size_t rank = 1; rank < static_cast<size_t>(ranks); ++rank)
      sum += formats::bf16_to_f32(partials[rank * count + i]);
    y[i] = formats::bf16_from_f32(sum);
  }
  return y;
}

void expect_same(const std::vector<Bf16>& got, const std::vector<Bf16>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i].bits, want[i].bits) << "element " << i;
}

TEST(RankSum, AddsInRankOrderAndRoundsOnce) {
  std::mt19937 rng(1);
  for (const int64_t ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t count : {8, 1016, 8 * 5120}) {
      const std::vector<Bf16> partials = any_numbers(ranks * count, rng);
      const OnDevice<Bf16> on_device(partials);
      // y in the place of a partial: read before it is written.
      const Status status = launch_rank_sum(
          {on_device.get(), ranks, count, on_device.get() + (ranks - 1) * count}, nullptr);
      ASSERT_TRUE(status.ok()) << status.why;
      const std::vector<Bf16> all = on_device.back();
      expect_same({all.end() - count, all.end()}, sum_of(partials, ranks));
    }
  }
}

TEST(RankSum, RefusesWhatItDoesNotTake) {
  EXPECT_EQ(launch_rank_sum({nullptr, 0, 8, nullptr}, nullptr).why, "ranks 0, want at least 1");
  EXPECT_EQ(launch_rank_sum({nullptr, 2, 12, nullptr}, nullptr).why,
            "count 12, want T H, a multiple of 8");
}

// NCCL's calls that only a test of one process with many devices needs.
struct NcclOfTest {
  int (*init_all)(void** comms, int devices, const int* list);
  int (*destroy)(void* comm);
};
NcclOfTest nccl_of_test() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW);
  const auto find = [&](const char* name) { return dlsym(library, name); };
  return {reinterpret_cast<int (*)(void**, int, const int*)>(find("ncclCommInitAll")),
          reinterpret_cast<int (*)(void*)>(find("ncclCommDestroy"))};
}

TEST(RankSum, ReducesOverRanks) {
  int devices = 0;
  ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  if (devices < 2) GTEST_SKIP() << "needs two devices, has " << devices;
  if (!nccl().ok()) GTEST_SKIP() << nccl().status().why;
  const NcclOfTest n = nccl_of_test();
  std::vector<void*> comms(static_cast<size_t>(devices));
  ASSERT_EQ(n.init_all(comms.data(), devices, nullptr), Nccl::kSuccess);
  constexpr int64_t kCount = 8 * 5120;
  std::mt19937 rng(2);
  const std::vector<Bf16> partials = any_numbers(devices * kCount, rng);
  std::vector<std::unique_ptr<OnDevice<Bf16>>> buffers, y;
  for (int d = 0; d < devices; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    std::vector<Bf16> own(partials.size(), Bf16{0x7FC0});  // the others' parts are not there yet
    std::copy_n(partials.begin() + d * kCount, kCount, own.begin() + d * kCount);
    buffers.push_back(std::make_unique<OnDevice<Bf16>>(own));
    y.push_back(std::make_unique<OnDevice<Bf16>>(std::vector<Bf16>(kCount)));
  }
  std::vector<std::thread> ranks;
  for (int d = 0; d < devices; ++d) {
    ranks.emplace_back([&, at = static_cast<size_t>(d), d] {
      EXPECT_EQ(cudaSetDevice(d), cudaSuccess);
      for (int call = 0; call < 3; ++call) {
        const Status status = reduce_over_ranks(
            {comms[at], buffers[at]->get(), kCount, y[at]->get()}, cudaStreamPerThread);
        EXPECT_TRUE(status.ok()) << status.why;
      }
      EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (int d = 0; d < devices; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    expect_same(y[static_cast<size_t>(d)]->back(), sum_of(partials, devices));
  }
  for (void* comm : comms) EXPECT_EQ(n.destroy(comm), Nccl::kSuccess);
}

}  // namespace
}  // namespace octet::cuda
