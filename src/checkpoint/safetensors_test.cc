// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <cstring>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "checkpoint/model_testing.h"

namespace octet::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file's bytes from its header and data.
std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

Status parse(const std::string& bytes) {
  // Exactly as many bytes as there are, so that the address sanitizer sees reads beyond.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  return parse_safetensors(std::as_bytes(std::span(copy)), "f").status();
}
// One tensor called x; 8 bytes of data.
Status parse_tensor(const std::string& entry) {
  return parse(file_of("{\"x\":" + entry + "}", "01234567"));
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TestFolder folder;
  const fs::path path = folder.path() / "f.safetensors";
  Tensor a(Dtype::kF32, {2, 3}), b(Dtype::kU8, {5}), c(Dtype::kBf16, {0, 4}), d(Dtype::kF32, {});
  for (int i = 0; i < 6; ++i) a.as<float>()[i] = 0.5F * static_cast<float>(i);
  for (int i = 0; i < 5; ++i) b.as<uint8_t>()[i] = static_cast<uint8_t>(250 + i);
  *d.as<float>() = 7;
  const std::map<std::string, std::string> metadata = {{"key", "a \"value\"\n"}};
  ASSERT_TRUE(save_safetensors(path,
                               {{"b", b.view()}, {"a", a.view()}, {"c", c.view()}, {"d", d.view()}},
                               metadata)
                  .ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().why;
  EXPECT_EQ(file->header().metadata, metadata);
  ASSERT_EQ(file->tensors().size(), 4U);
  for (const auto& [name, want] :
       {std::pair("a", &a), std::pair("b", &b), std::pair("c", &c), std::pair("d", &d)}) {
    const TensorView& got = file->tensors().find(name)->second;
    EXPECT_EQ(got.dtype, want->dtype()) << name;
    EXPECT_EQ(got.dims, want->dims()) << name;
    EXPECT_EQ(std::memcmp(got.data, want->data(), want->num_bytes()), 0) << name;
  }
  // Widest first, without gaps, the data from a multiple of 64 on.
  const auto begin = reinterpret_cast<uintptr_t>(file->tensors().find("a")->second.data);
  EXPECT_EQ(begin % 64, 0U);
  EXPECT_EQ(file->tensors().find("d")->second.data, file->tensors().find("a")->second.data + 24);
  EXPECT_EQ(file->tensors().find("b")->second.data, file->tensors().find("d")->second.data + 4);
  EXPECT_EQ(file->file()->bytes().size() % 64, 33U);
}

TEST(Safetensors, TakesAnEmptyHeaderAndGaps) {
  EXPECT_TRUE(parse(file_of("{}")).ok());
  EXPECT_TRUE(parse(file_of("{}   ")).ok());
  EXPECT_TRUE(parse_tensor(R"({"dtype":"U8","shape":[2],"data_offsets":[6,8]})").ok());
  EXPECT_TRUE(parse_tensor(R"({"dtype":"F64","shape":[],"data_offsets":[0,8]})").ok());
}

TEST(Safetensors, RefusesFilesThatAreNoSafetensors) {
  EXPECT_SAYS(parse(""), "f: 0 bytes, wanted at least 8");
  EXPECT_SAYS(parse("1234567"), "f: 7 bytes, wanted at least 8");
  EXPECT_SAYS(parse(file_of("{}").substr(0, 9)), "header of 2 bytes, wanted at most 1");
  EXPECT_SAYS(parse(std::string(16, '\xFF')), "wanted at most 8");
  EXPECT_SAYS(parse(file_of("")), "not JSON");
  EXPECT_SAYS(parse(file_of("[]")), "header is array, wanted an object");
  EXPECT_SAYS(parse(file_of("{\"x\":")), "not JSON at byte");
  EXPECT_SAYS(parse(file_of("{} {}")), "not JSON");
  EXPECT_SAYS(parse(file_of("{\"\xFF\":{}}")), "not JSON");
  EXPECT_SAYS(parse(file_of(std::string(100000, '['))), "nested more than 64 deep");
  EXPECT_SAYS(parse(file_of("{\"x\":" + std::string(100000, '['))), "nested more than 64 deep");
}

TEST(Safetensors, RefusesHeadersOver100MB) {
  const TestFolder folder;
  const fs::path path = folder.path() / "f";
  const uint64_t length = 100'000'001;
  write_text(path, {reinterpret_cast<const char*>(&length), sizeof length});
  fs::resize_file(path, 100'000'100);  // no bytes on the disk
  EXPECT_SAYS(SafetensorsFile::open(path).status(),
              "header of 100000001 bytes, wanted at most 100000000");
}

TEST(Safetensors, RefusesDuplicateNames) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_SAYS(parse(file_of("{\"x\":" + entry + ",\"x\":" + entry + "}", "0")),
              "the key \"x\" occurs twice");
  EXPECT_SAYS(parse_tensor(R"({"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]})"),
              "the key \"dtype\" occurs twice");
}

TEST(Safetensors, RefusesBadEntries) {
  EXPECT_SAYS(parse_tensor("3"), "tensor x: dtype is missing");
  EXPECT_SAYS(parse_tensor(R"({"dtype":"U8","shape":[1]})"), "tensor x: data_offsets is missing");
  EXPECT_SAYS(parse_tensor(R"({"dtype":7,"shape":[1],"data_offsets":[0,1]})"), "dtype 7");
}

TEST(Safetensors, RefusesShapesThatAreNoSizes) {
  for (const char* shape :
       {"3", "[-1]", "[1.0]", "[\"2\"]", "[[1]]", "[null]", "[1e3]", "[18446744073709551615]",
        "[99999999999999999999999]", "[4294967296,4294967296]", "[0,4611686018427387904,4]",
        "[1,1,1,1,1,1,1,1,1]"}) {
    EXPECT_SAYS(
        parse_tensor(fmt::format(R"({{"dtype":"U8","shape":{},"data_offsets":[0,1]}})", shape)),
        "tensor x: shape ");
  }
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  for (const char* offsets : {"3", "[0]", "[0,1,2]", "[-1,0]", "[0.0,1]", "[1,0]", "[null,1]",
                              "[0,18446744073709551615]"}) {
    EXPECT_SAYS(
        parse_tensor(fmt::format(R"({{"dtype":"U8","shape":[1],"data_offsets":{}}})", offsets)),
        "wanted [begin, end]");
  }
  EXPECT_SAYS(parse_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[8,9]})"),
              "f: tensor x: data_offsets [8, 9] lie outside the data of 8 bytes");
  EXPECT_SAYS(
      parse_tensor(
          R"({"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]})"),
      "lie outside");
  EXPECT_SAYS(parse_tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              "hold 8 bytes, wanted 12 for F32 [3]");
}

TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  EXPECT_SAYS(parse(file_of("{}   ", "left over")), "f: data of 9 bytes, wanted 0, where");
  EXPECT_SAYS(parse_tensor(R"({"dtype":"U8","shape":[2],"data_offsets":[3,5]})"),
              "f: data of 8 bytes, wanted 5, where the last tensor ends");
}

TEST(Safetensors, SetsTensorsOfOtherDtypesApart) {
  struct Row {
    const char *dtype, *shape, *sizes;
    bool is_ok;
  };
  for (const Row& r : {Row{"U16", "[2,2]", "[4]", true}, Row{"U16", "[8]", "[4]", false},
                       Row{"U32", "[2]", "[4]", true}, Row{"U64", "[1]", "[4]", true},
                       Row{"C64", "[1]", "[4]", true}, Row{"C64", "[2]", "[4]", false},
                       Row{"F8_E4M3FNUZ", "[8]", "[4]", true}, Row{"F4", "[16]", "[4]", true},
                       Row{"F4", "[15]", "[4]", false}, Row{"F4", "[8]", "[4]", false},
                       Row{"F6_E2M3", "[4]", "[4]", false}, Row{"F6_E3M2", "[4]", "[4]", false},
                       Row{"I2_OF_2031", "[3,7]", "[4]", true}}) {
    const Status status = parse_tensor(
        fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[0,8]}})", r.dtype, r.shape));
    if (r.is_ok) {
      EXPECT_TRUE(status.ok()) << status.why;
    } else {
      EXPECT_SAYS(status, fmt::format("for {} {}", r.dtype, r.shape));
    }
  }
  const std::string file = file_of(R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},)"
                                   R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                                   "0123");
  const auto header = parse_safetensors(std::as_bytes(std::span(file)), "f");
  ASSERT_TRUE(header.ok()) << header.status().why;
  EXPECT_EQ(header->tensors.size(), 1U);
  EXPECT_EQ(header->others.at("a").dtype, "F6_E2M3");
  EXPECT_EQ(header->others.at("a").bytes.size(), 3U);
}

TEST(Safetensors, TrustsOtherDtypesNoMore) {
  for (const char* dtype : {"F4", "U64", "new"}) {
    const auto entry = [&](const char* shape, const char* offsets) {
      return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
    };
    EXPECT_SAYS(parse_tensor(entry("[1]", "[8,9]")), "lie outside the data of 8 bytes");
    EXPECT_SAYS(parse_tensor(entry("[4294967296,4294967296]", "[0,8]")), "whose bytes fit 63 bits");
    EXPECT_SAYS(parse_tensor(entry("[1]", "[8,0]")), "wanted [begin, end]");
    EXPECT_SAYS(
        parse(file_of(
            fmt::format(R"({{"a":{},"b":{{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}}})",
                        entry(dtype[0] == 'F' ? "[16]" : "[1]", "[0,8]")),
            "01234567")),
        "tensors a and b overlap");
  }
  EXPECT_SAYS(parse_tensor(R"({"dtype":"F4","shape":[9223372036854775807],"data_offsets":[0,8]})"),
              "wanted whole bytes for F4");
}

TEST(Safetensors, RefusesOverlaps) {
  EXPECT_SAYS(parse(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},)"
                            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("c":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}})",
                            "01234567")),
              "tensors b and a overlap");
}

TEST(Safetensors, RefusesMetadataThatAreNoStrings) {
  EXPECT_TRUE(parse(file_of(R"({"__metadata__":{"a":"b"}})")).ok());
  EXPECT_SAYS(parse(file_of(R"({"__metadata__":{"a":1}})")), "__metadata__ a: 1, wanted a string");
  EXPECT_SAYS(parse(file_of(R"({"__metadata__":[]})")), "__metadata__ is not an object");
}

TEST(Safetensors, RefusesMoreThanAMillionTensors) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i) header += fmt::format("{}\"{}\":0", i ? "," : "", i);
  EXPECT_SAYS(parse(file_of(header + "}")), "1000001 tensors, wanted at most 1000000");
}

TEST(MappedFile, RefusesWhatIsNoFileWithBytes) {
  const TestFolder folder;
  EXPECT_SAYS(MappedFile::open(folder.path()).status(), "not a regular file");
  EXPECT_SAYS(MappedFile::open(folder.path() / "none").status(), "none: No such file");
  EXPECT_EQ(MappedFile::open(folder.path() / "none").status().code, Code::kIo);
  write_text(folder.path() / "empty", "");
  EXPECT_SAYS(MappedFile::open(folder.path() / "empty").status(), "the file is empty");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_SAYS(MappedFile::open(folder.path() / "pipe").status(), "not a regular file");
}

size_t num_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(SafetensorsWriter, LeavesNothingUnlessFinished) {
  const TestFolder folder;
  const fs::path path = folder.path() / "f";
  const std::vector<SafetensorsWriter::Entry> entries = {{"x", Dtype::kU8, {4}}};
  {
    auto writer = SafetensorsWriter::create(path, entries, {});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(std::as_bytes(std::span("abc", 3))).ok());
    EXPECT_SAYS(writer->finish(), "3 bytes written, wanted 4");
    EXPECT_SAYS(writer->write(std::as_bytes(std::span("de", 2))), "5 bytes written, wanted 4");
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(num_files(folder.path()), 1U);
  }
  EXPECT_EQ(num_files(folder.path()), 0U);
}

TEST(SafetensorsWriter, ReplacesMetadataOfTheSameLength) {
  const TestFolder folder;
  const fs::path path = folder.path() / "f";
  auto writer = SafetensorsWriter::create(path, {{"x", Dtype::kU8, {4}}}, {{"sum", "0000"}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(std::as_bytes(std::span("abcd", 4))).ok());
  EXPECT_SAYS(writer->set_metadata({{"sum", std::string(200, 'x')}}), "header of");
  ASSERT_TRUE(writer->set_metadata({{"sum", "12ab"}}).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().why;
  EXPECT_EQ(file->header().metadata.at("sum"), "12ab");
  EXPECT_EQ(std::memcmp(file->tensors().at("x").data, "abcd", 4), 0);
}

TEST(SafetensorsWriter, RefusesPlacesThatAreNoFiles) {
  const TestFolder folder;
  EXPECT_SAYS(save_safetensors(folder.path(), {}), "not a regular file");
  EXPECT_SAYS(save_safetensors("/dev/null", {}), "cannot write /dev/null: not a regular file");
  EXPECT_SAYS(save_safetensors(folder.path() / "none" / "f", {}), "No such file");
  EXPECT_EQ(num_files(folder.path()), 0U);
}

}  // namespace
}  // namespace octet::checkpoint
