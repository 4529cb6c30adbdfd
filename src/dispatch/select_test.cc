// SPDX-License-Identifier: Apache-2.0
#include "dispatch/select.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "cpu/panel_dot.h"
#include "cuda/device_layer.h"

namespace octet::dispatch {
namespace {

Problem small_problem() {
  Problem p;
  p.spec.hidden = 64;
  p.spec.intermediate = 48;
  p.spec.experts = p.spec.local_experts = 4;
  return p;
}

std::string why_not(const Selection& s, std::string_view name) {
  const auto at = std::find_if(s.refused.begin(), s.refused.end(),
                               [&](const Refusal& r) { return r.kernel->name == name; });
  return at == s.refused.end() ? "" : at->why;
}

// The first instruction set of the table that this machine has.
Isa best_isa() {
  int at = 0;
  while (!cpu::isas()[static_cast<size_t>(at)].is_here()) ++at;
  return static_cast<Isa>(at);
}

TEST(Select, TakesTheFirstRowThatFitsAndSaysWhyNotTheOthers) {
  const Selection s = select(small_problem());
  ASSERT_NE(s.kernel, nullptr);
  EXPECT_EQ(s.kernel->isa, best_isa());
  EXPECT_TRUE(s.kernel->name.starts_with("experts_bf16_mxfp4_")) << s.kernel->name;
  EXPECT_EQ(s.refused.size(), kernels().size() - 1) << "every other row has a sentence";
  EXPECT_EQ(why_not(s, "experts_mxfp8_mxfp4_portable"),
            "takes mxfp8 activations, the layer has bf16");
  EXPECT_EQ(why_not(s, "experts_bf16_nvfp4_portable"), "takes nvfp4 weights, the layer has mxfp4");
  EXPECT_NE(why_not(s, "experts_bf16_mxfp4_reference").find("comes first"), std::string::npos);
}

TEST(Select, TheReferenceIsLast) {
  EXPECT_EQ(kernels().back().isa, Isa::kReference);
  EXPECT_TRUE(
      std::is_sorted(kernels().begin(), kernels().end(), [](const Kernel& a, const Kernel& b) {
        return std::pair(!is_cuda(a.isa), a.isa) < std::pair(!is_cuda(b.isa), b.isa);
      }));
}

TEST(Select, NamesTheSizeThatDoesNotFit) {
  Problem p = small_problem();
  p.spec.hidden = 4128 + 4;
  EXPECT_EQ(refusal(kernels().back(), {.spec = p.spec}),
            "takes nvfp4 weights, the layer has mxfp4");
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_portable"),
            "hidden 4132 is not a multiple of 32");
  p = small_problem();
  p.spec.intermediate = 15;
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_portable"), "intermediate 15, want at least 16");
  p = small_problem();
  p.spec.first_expert = 2;
  EXPECT_NE(why_not(select(p), "experts_bf16_mxfp4_portable").find("local experts 2..5"),
            std::string::npos);
}

TEST(Select, HonoursBackendAndKernel) {
  Problem p = small_problem();
  p.backend = Backend::kReference;
  EXPECT_EQ(select(p).kernel->name, "experts_bf16_mxfp4_reference");
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_portable"),
            "not asked for: --backend reference");
  p.backend = Backend::kCpu;
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_reference"), "not asked for: --backend cpu");
  p.kernel = "experts_bf16_mxfp4_portable";
  EXPECT_EQ(select(p).kernel->name, p.kernel);
  p.backend = Backend::kCuda;
  EXPECT_EQ(select(p).kernel, nullptr);
  EXPECT_EQ(why_not(select(p), p.kernel), "not asked for: --backend cuda");
}

// Without a device, or in a library without CUDA, they say so and the CPU's are as before.
TEST(Select, CudaKernelsAreTakenWhenAskedForAlone) {
  Problem p = small_problem();
  const std::string why = cuda::sm80_refusal();
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_sm80"),
            why.empty() ? "auto takes no CUDA device: --backend cuda does" : why);
  p.backend = Backend::kCpu;
  EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_sm80"), "not asked for: --backend cpu");
  p.backend = Backend::kCuda;
  EXPECT_EQ(machine_refusal(Isa::kSm80), why);
  if (why.empty()) {
    EXPECT_EQ(select(p).kernel->name, machine_refusal(Isa::kSm90).empty()
                                          ? "experts_bf16_mxfp4_sm90"
                                          : "experts_bf16_mxfp4_sm80");
    p.order = WeightOrder::kPacked;
    EXPECT_NE(select(p).kernel, nullptr) << "loading takes it out of its panels";
  } else {
    EXPECT_EQ(select(p).kernel, nullptr);
    EXPECT_EQ(why_not(select(p), "experts_bf16_mxfp4_sm80"), why);
    EXPECT_NE(select_or_refuse(p).status().why.find(why), std::string::npos);
  }
  p = small_problem();
  p.kernel = "experts_bf16_mxfp4_sm80";
  EXPECT_EQ(select(p).kernel != nullptr, why.empty()) << "a name is asked for";
}

TEST(Select, TheReferenceTakesACheckpointsOwnOrderAndMakesYAlone) {
  Problem p = small_problem();
  p.backend = Backend::kReference;
  const auto why = [&] { return why_not(select(p), "experts_bf16_mxfp4_reference"); };
  p.order = WeightOrder::kPacked;
  EXPECT_EQ(select(p).kernel, nullptr);
  EXPECT_EQ(why(), "reads a checkpoint's own order, the layer is packed");
  p.order = WeightOrder::kPrepared;
  EXPECT_EQ(why(), "reads a checkpoint's own order, the tensors are prepared");
  p.order = WeightOrder::kCheckpoint;
  p.rows = true;
  EXPECT_EQ(why(), "has y only, no rows and no intermediates");
  p.backend = Backend::kCpu;
  p.order = WeightOrder::kPacked;
  EXPECT_NE(select(p).kernel, nullptr) << "panels have rows and read every order";
}

TEST(Select, EveryInstructionSetHasARowOfItsTable) {
  EXPECT_EQ(std::ssize(cpu::isas()), static_cast<int64_t>(Isa::kReference));
  EXPECT_EQ(machine_refusal(Isa::kPortable), "");
  EXPECT_EQ(machine_refusal(Isa::kReference), "");
  EXPECT_EQ(machine_refusal(Isa::kAvx2), cpu::has_avx2() ? "" : "this machine has no AVX2 and FMA");
  EXPECT_EQ(&cpu::best_panel_dot(), cpu::isas()[static_cast<size_t>(best_isa())].dot);
  for (const cpu::IsaInfo& isa : cpu::isas()) {
    if (isa.is_here()) {
      EXPECT_NE(isa.dot->floats, nullptr) << isa.runs_on;
    }
  }
}

TEST(Select, RefusesWithEveryCandidatesReason) {
  Problem p = small_problem();
  p.spec.hidden = 40;
  const auto none = select_or_refuse(p);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code, Code::kUnsupported);
  for (const Kernel& k : kernels()) {  // each reason, once
    const std::string why = refusal(k, p) + " (";
    const size_t at = none.status().why.find(why);
    ASSERT_NE(at, std::string::npos) << none.status().why;
    EXPECT_EQ(none.status().why.find(why, at + 1), std::string::npos) << none.status().why;
  }
  EXPECT_EQ(none.status().why.find('\n'), std::string::npos);
  p.kernel = "experts_bf16_mxfp4_portable";
  EXPECT_EQ(select_or_refuse(p).status().why,
            "kernel experts_bf16_mxfp4_portable does not take this layer: " +
                refusal(*std::ranges::find(kernels(), p.kernel, &Kernel::name), p));
  p.kernel = "experts_bf16_mxfp4_portible";
  const auto misspelt = select_or_refuse(p);
  EXPECT_EQ(misspelt.status().code, Code::kMisuse);
  EXPECT_EQ(misspelt.status().why,
            "no kernel experts_bf16_mxfp4_portible, did you mean experts_bf16_mxfp4_portable?");
}

TEST(Select, CountsReasonsOverLayers) {
  ReasonCounts counts;
  Problem p = small_problem();
  p.kernel = "experts_bf16_mxfp4_portable";
  counts.add(select(p));
  counts.add(select(p));
  p.spec.hidden = 40;
  counts.add(select(p));
  const std::vector<std::string> lines = counts.lines();
  const auto has = [&](const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  EXPECT_TRUE(has("experts_bf16_mxfp4_portable: 2 layers"));
  EXPECT_TRUE(has("no, 1 layer: hidden 40 is not a multiple of 32 (experts_bf16_mxfp4_portable)"));
  EXPECT_TRUE(has("no, 3 layers: not asked for: --kernel experts_bf16_mxfp4_portable (" +
                  std::to_string(kernels().size() - 1) + " kernels)"));
}

TEST(Backend, IsFoundByNameOrTheNamesAreTold) {
  for (const Backend b : {Backend::kAuto, Backend::kCpu, Backend::kCuda, Backend::kReference}) {
    EXPECT_EQ(backend_from_name(name_of(b)).value(), b);
  }
  const auto bad = backend_from_name("referense");
  EXPECT_EQ(bad.status().code, Code::kMisuse);
  EXPECT_EQ(bad.status().why,
            "no backend referense: want auto, cpu, cuda or reference, did you mean reference?");
}

TEST(KernelsMarkdown, HasARowAKernel) {
  const std::string text = kernels_markdown();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::ssize(kernels()) + 2);
  EXPECT_NE(text.find("| `experts_bf16_mxfp4_portable` | any CPU | bf16 | mxfp4 | any | CI |"),
            std::string::npos);
}

}  // namespace
}  // namespace octet::dispatch
