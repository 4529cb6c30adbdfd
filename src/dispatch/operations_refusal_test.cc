// SPDX-License-Identifier: Apache-2.0
// Everything that run_operation refuses, and that the sentence names the culprit.
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <tuple>

#include "dispatch/test_inputs.h"

namespace octet::dispatch {
namespace {

void expect_refused(const Result<NamedTensors>& r, Code code, const std::vector<std::string>& words,
                    const std::string& where) {
  ASSERT_FALSE(r.ok()) << where;
  EXPECT_EQ(r.status().code, code) << where << ": " << r.status().why;
  EXPECT_EQ(r.status().why.find('\n'), std::string::npos) << where;
  for (const std::string& word : words) {
    EXPECT_NE(r.status().why.find(word), std::string::npos) << where << ": " << r.status().why;
  }
}

TEST(Operations, RefuseWhatDoesNotExistWithTheNearestName) {
  const Inputs in = front_inputs();
  expect_refused(in.run("frnt"), Code::kMisuse, {"frnt", "did you mean front?"}, "operation");
  expect_refused(in.run("topk", {{"topk", "2"}}), Code::kMisuse, {"topk", "did you mean top_k?"},
                 "setting");
  expect_refused(in.run("mxfp8_quantize", {{"top_k", "6"}}), Code::kMisuse, {"top_k"},
                 "a setting of another operation");
  expect_refused(in.run("topk", kTop2, Backend::kCuda), Code::kUnsupported,
                 {"backend cuda is not built"}, "backend");
  expect_refused(in.run("topk", {{"router", "nosuch"}}), Code::kInvalidArgument,
                 {"router nosuch", "dsv4", "hash", "deepseek_v3", "softmax", "flint"}, "router");
  expect_refused(in.run("mxfp8_quantize", {{"layout", "4x4"}}), Code::kInvalidArgument,
                 {"layout 4x4", "linear, 128x4 or 8x4"}, "layout");
}

TEST(Operations, RefuseATopKThatIsNotTheTables) {
  Inputs in = front_inputs();
  in.i32("table", {3, 2}, {0, 1, 2, 3, 4, 5});
  in.i32("input_ids", {kTokens}, {0, 1, 2});
  for (const char* op : {"topk", "front"}) {
    EXPECT_TRUE(in.run(op, {{"router", "hash"}}).ok()) << "top_k is the table's";
    EXPECT_TRUE(in.run(op, {{"router", "hash"}, {"top_k", "2"}}).ok());
    expect_refused(in.run(op, {{"router", "hash"}, {"top_k", "4"}}), Code::kInvalidArgument,
                   {"top_k 4, want 2: table is [3, 2]"}, op);
  }
}

TEST(Operations, NameTheTwinOfAMissingTensor) {
  Inputs in = chain_inputs();
  in.rename("x_quant", "x_qant");
  expect_refused(in.run("gemm1", kI64), Code::kInvalidArgument,
                 {"x_quant: missing", "found x_qant, did you mean that?"}, "gemm1");
  in.rename("x_qant", "x_quant");
  in.rename("w13", "w4");  // w2 is there too, which gemm1 does not read, and neither is like w13
  expect_refused(in.run("gemm1", kI64), Code::kInvalidArgument, {"w13: missing"}, "gemm1");
  EXPECT_EQ(in.run("gemm1", kI64).status().why, "w13: missing, want U8 [E, 2 Ip, 64]");
}

TEST(Operations, RefuseEveryTensorThatIsMissingOrOfAnotherTypeOrShape) {
  const std::tuple<const char*, Inputs (*)(), Settings> calls[] = {
      {"mxfp8_quantize", front_inputs, {}},
      {"topk", front_inputs, kTop2},
      {"route", sorted_inputs, {{"experts", "4"}}},
      {"front", front_inputs, kTop2},
      {"gemm1", chain_inputs, kI64},
      {"gemm2", chain_inputs, {}},
      {"finalize", chain_inputs, {}},
      {"prepare", raw_weights, {{"limit", "10"}}},
      {"unprepare", chain_inputs, kI64},
      {"check_weights", chain_inputs, {{"top_k", "2"}, {"intermediate", "64"}}},
      {"moe_sort", sorted_inputs, {{"experts", "4"}, {"tile", "8"}}},
      {"moe_permute", sorted_inputs, {{"top_k", "2"}, {"tile", "8"}}},
      {"grouped_moe", grouped_inputs, {}},
      {"dequantize", weight_inputs, {{"format", "mxfp4"}}},
      {"quantize_weight", weight_inputs, {{"format", "mxfp4"}}},
  };
  for (const auto& [op, make, settings] : calls) {
    const OperationInfo& info = info_of(op);
    for (const std::string_view read : info.reads) {
      const std::string name(read);
      if (name.ends_with('?') && name != "bias?") continue;
      const std::string tensor = name.substr(0, name.find('?'));
      Inputs in = make();
      const Dims dims = in[tensor].dims();
      const Dtype dtype = in[tensor].dtype();
      in.add(tensor, Dtype::kF64, dims);
      expect_refused(in.run(op, settings), Code::kInvalidArgument, {tensor},
                     std::string(op) + " " + tensor + " as F64");
      Dims more = dims;
      more.insert(more.begin(), 1);
      in.add(tensor, dtype, more);
      // dequantize and quantize_weight take any number of dimensions, but both tensors of dequantize must have the same.
      if (std::string_view(op) != "quantize_weight" && tensor != "weight") {
        expect_refused(in.run(op, settings), Code::kInvalidArgument, {tensor},
                       std::string(op) + " " + tensor + " with a dimension more");
      }
      in.drop(tensor);
      expect_refused(in.run(op, settings), Code::kInvalidArgument, {tensor + ": missing"},
                     std::string(op) + " without " + tensor);
    }
  }
}

// Sizes that one tensor settles for another.
TEST(Operations, RefuseTensorsThatDoNotFitTogether) {
  const std::tuple<const char*, Inputs (*)(), Settings, const char*, Dims> calls[] = {
      {"topk", front_inputs, kTop2, "bias", {kExperts - 1}},
      {"front", front_inputs, kTop2, "logits", {kTokens + 1, kExperts}},
      {"gemm1", chain_inputs, kI64, "x_scale", {kTokens, kHidden / 32 - 1}},
      {"gemm1", chain_inputs, kI64, "topk_ids", {kTokens + 1, kTopK}},
      {"gemm1", chain_inputs, kI64, "w13", {kExperts, 256, kHidden / 2 - 1}},
      {"gemm1", chain_inputs, kI64, "w13_scale", {kExperts, 256 - 32, kHidden / 32}},
      {"gemm1", chain_inputs, kI64, "clamp", {kExperts - 1}},
      {"gemm2", chain_inputs, {}, "h_values", {8 * 6 - 1, 128}},
      {"gemm2", chain_inputs, {}, "h_scales", {5 * 512}},
      {"gemm2", chain_inputs, {}, "w2_scale", {kExperts, kHidden - 32, 4}},
      {"finalize", chain_inputs, {}, "topk_weights", {kTokens, kTopK - 1}},
      {"finalize", chain_inputs, {}, "shared", {kTokens, kHidden / 2}},
      {"prepare", raw_weights, {{"limit", "10"}}, "up", {kExperts, kIntermediate - 1, kHidden / 2}},
      {"prepare", raw_weights, {{"limit", "10"}}, "down_scale", {kExperts, kHidden, 1}},
      {"grouped_moe", grouped_inputs, {}, "x", {kTokens, kHidden / 2}},
      {"grouped_moe", grouped_inputs, {}, "topk_ids", {kTokens - 1, kTopK}},
      {"grouped_moe", grouped_inputs, {}, "topk_weights", {kTokens, kTopK + 1}},
      {"grouped_moe", grouped_inputs, {}, "w1_sf", {4, 128 * kHidden / 16 - 4}},
      {"grouped_moe", grouped_inputs, {}, "w2", {4, kHidden - 1, kIntermediate / 2}},
      {"grouped_moe", grouped_inputs, {}, "w2_alpha", {3}},
      {"dequantize", weight_inputs, {{"format", "mxfp4"}}, "scale", {2, 3, 1}},
      {"dequantize", weight_inputs, {{"format", "mxfp4"}}, "global_scale", {3}},
  };
  const std::map<std::string_view, Dtype> dtypes = {
      {"shared", Dtype::kBf16}, {"global_scale", Dtype::kF32}};  // not among the inputs
  for (const auto& [op, make, settings, name, dims] : calls) {
    Inputs in = make();
    const auto optional = dtypes.find(name);
    in.add(name, optional != dtypes.end() ? optional->second : in[name].dtype(), dims);
    expect_refused(in.run(op, settings), Code::kInvalidArgument, {std::string(name) + ": "},
                   std::string(op) + " " + name);
  }
}

// Sizes of 0 that no layer has; no rows, and activations of no columns, are fine.
TEST(Operations, RefuseWeightsOfNoColumnsAndListsOfNoExperts) {
  Inputs chain = chain_inputs();
  chain.add("w13", Dtype::kU8, {kExperts, 256, 0});
  chain.add("w13_scale", Dtype::kU8, {kExperts, 256, 0});
  chain.add("x_quant", Dtype::kE4m3, {kTokens, 0});
  chain.add("x_scale", Dtype::kU8, {kTokens, 0});
  expect_refused(chain.run("gemm1", kI64), Code::kInvalidArgument,
                 {" 0, want a positive multiple of 128"}, "gemm1");
  expect_refused(chain_inputs().run("unprepare", {{"intermediate", "0"}}), Code::kInvalidArgument,
                 {"intermediate 0"}, "unprepare");
  Inputs sorted = sorted_inputs();
  sorted.add("topk_ids", Dtype::kI32, {kTokens, 0});
  expect_refused(sorted.run("moe_sort", {{"experts", "4"}, {"tile", "8"}}), Code::kInvalidArgument,
                 {"topk_ids: k 0, want at least 1"}, "moe_sort");
  Inputs grouped = grouped_inputs();
  grouped.add("topk_ids", Dtype::kI32, {kTokens, 0});
  grouped.add("topk_weights", Dtype::kF32, {kTokens, 0});
  expect_refused(grouped.run("grouped_moe"), Code::kInvalidArgument,
                 {"topk_ids: k 0, want at least 1"}, "grouped_moe");
  Inputs none;
  none.add("x", Dtype::kBf16, {kTokens, 0});
  EXPECT_TRUE(none.run("mxfp8_quantize").ok());
}

TEST(Operations, RefuseSettingsThatAreNoNumbersOrOutOfRange) {
  const Inputs front = front_inputs();
  for (const char* bad : {"six", "", "0", "9", "-1", "2.5", "1e400", "nan", "inf", "0x2", " 2",
                          "1e18", "2\n", "1_0", "--2"}) {
    expect_refused(front.run("topk", {{"top_k", bad}}), Code::kInvalidArgument, {"top_k"}, bad);
  }
  for (const char* good : {"2", "2.0", "+2", "2e0", "2.", "20e-1"}) {
    EXPECT_TRUE(front.run("topk", {{"top_k", good}}).ok()) << good;
  }
  for (const char* bad : {"one", "1e39", "1e400", "-inf"}) {
    expect_refused(front.run("topk", {{"scale", bad}}), Code::kInvalidArgument, {"scale"}, bad);
  }
  const Inputs chain = chain_inputs();
  for (const char* bad : {"0", "129", "1e12"}) {
    expect_refused(chain.run("gemm1", {{"intermediate", bad}}), Code::kInvalidArgument,
                   {"intermediate"}, bad);
  }
  expect_refused(chain.run("gemm1"), Code::kInvalidArgument, {"intermediate"}, "missing");
  expect_refused(raw_weights().run("prepare"), Code::kInvalidArgument, {"limit"}, "missing");
  const Inputs sorted = sorted_inputs();
  const std::pair<Settings, const char*> sorts[] = {
      {{{"experts", "1e12"}, {"tile", "8"}}, "experts"},
      {{{"experts", "4"}, {"tile", "1e9"}}, "tile"},
      {{{"experts", "4"}, {"tile", "0"}}, "tile"},
      {{{"experts", "4"}, {"tile", "8"}, {"local_offset", "3"}, {"local_experts", "2"}},
       "local_offset"},
      {{{"experts", "4"}, {"tile", "8"}, {"local_experts", "5"}}, "local_experts"},
  };
  for (const auto& [settings, word] : sorts) {
    expect_refused(sorted.run("moe_sort", settings), Code::kInvalidArgument, {word}, word);
  }
  expect_refused(sorted.run("route", {{"experts", "513"}}), Code::kInvalidArgument, {"experts 513"},
                 "route");
}

TEST(Operations, RefuseRecordsThatLeaveTheTensors) {
  constexpr int64_t kCtas = kTokens * kTopK;
  constexpr int64_t kWidth = 8;  // cta_words(6)
  const std::pair<int64_t, int32_t> bad_words[] = {
      {0, 9},                             // rows that are not 8 x tiles
      {1, -1},          {1, kCtas + 1},   // tiles
      {4, -1},          {4, kExperts},    // expert
      {4 + kWidth, -1}, {4 + kWidth, 9},  // row limit
  };
  for (const auto& [word, value] : bad_words) {
    Inputs in = chain_inputs();
    in["record"].as<int32_t>()[word] = value;
    if (word == 1) in["record"].as<int32_t>()[0] = 8 * value;
    for (const char* op : {"gemm1", "gemm2"}) {
      expect_refused(in.run(op, op[4] == '1' ? kI64 : Settings{}), Code::kInvalidArgument,
                     {"record: "}, std::string(op) + " word " + std::to_string(word));
    }
  }
  for (const int32_t token : {-1, static_cast<int32_t>(kTokens)}) {
    Inputs in = chain_inputs();
    in["record"].as<int32_t>()[4 + 2 * kWidth] = token;
    expect_refused(in.run("gemm1", kI64), Code::kInvalidArgument, {"record: row 0 has token"}, "");
    EXPECT_TRUE(in.run("gemm2").ok()) << "gemm2 reads no tokens";
  }
}

TEST(Operations, RefuseTablesThatLeaveTheTensors) {
  const Settings settings = {{"top_k", "2"}, {"tile", "8"}};
  const std::tuple<const char*, int64_t, int32_t> bad[] = {
      {"num_tiles", 0, -1},
      {"num_tiles", 0, 7},
      {"tile_to_mn_limit", 0, -1},
      {"tile_to_mn_limit", 0, 9},
      {"permuted_to_expanded", 0, -1},
      {"permuted_to_expanded", 0, kTokens * kTopK}};
  for (const auto& [name, at, value] : bad) {
    Inputs in = sorted_inputs();
    in[name].as<int32_t>()[at] = value;
    expect_refused(in.run("moe_permute", settings), Code::kInvalidArgument, {name}, name);
  }
  Inputs in = sorted_inputs();
  in["permuted_to_expanded"].as<int32_t>()[7] = 1 << 30;  // past the first tile's rows
  EXPECT_TRUE(in.run("moe_permute", settings).ok()) << "rows without a slot are never looked at";

  Inputs chain = chain_inputs();
  chain["permuted"].as<int32_t>()[3] = static_cast<int32_t>(kTokens * kTopK * 8);
  expect_refused(chain.run("finalize"), Code::kInvalidArgument, {"permuted: [1, 1] is row 48"}, "");
  chain["permuted"].as<int32_t>()[3] = -7;
  EXPECT_TRUE(chain.run("finalize").ok()) << "negative rows are skipped";
}

TEST(Operations, RefuseShapesWithoutBytesThatWouldOverflow) {
  cpu::ThreadPool pool(1);
  const int64_t huge = int64_t{1} << 62;
  NamedViews views;
  views["x"] = {Dtype::kBf16, {0, huge}, nullptr};
  expect_refused(run_operation("mxfp8_quantize", views, {}, Backend::kAuto, pool),
                 Code::kInvalidArgument, {"x: dimension 4611686018427387904"}, "[0, 2^62]");
  // y of [T, H] from a tall `permuted` and a wide `gemm2_rows`: a hundred thousand times the input.
  Inputs in;
  in.add("gemm2_rows", Dtype::kBf16, {1, 1 << 19});
  in.add("topk_weights", Dtype::kF32, {1 << 18, 1});
  in.add("permuted", Dtype::kI32, {1 << 18, 1});
  expect_refused(in.run("finalize"), Code::kInvalidArgument, {"permuted", "want at most"}, "");
}

TEST(Operations, RefuseNumbersThatAreNotFinite) {
  Inputs in = weight_inputs();
  in["value"].as<float>()[17] = INFINITY;
  expect_refused(in.run("quantize_weight", {{"format", "mxfp4"}}), Code::kInvalidArgument,
                 {"value: element 17"}, "");
}

TEST(Operations, CheckWeightsFindsPadding) {
  Inputs in = chain_inputs();
  const Settings settings = {{"top_k", "2"}, {"intermediate", "64"}};
  EXPECT_TRUE(in.run("check_weights", settings).ok());
  in["w2"].as<uint8_t>()[32] = 1;
  expect_refused(in.run("check_weights", settings), Code::kInvalidArgument, {"w2"}, "padding");
}

}  // namespace
}  // namespace octet::dispatch
