#include "tensor/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lockstep/error.h"

namespace lockstep::tensor {
namespace {

using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() : folder_(testing::TempDir() + "/safetensors_test") {
    std::filesystem::create_directories(folder_);
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/x.safetensors"; }

  void write_raw(const std::string& header, size_t data_bytes) {
    std::ofstream file(path(), std::ios::binary);
    const uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header << std::string(data_bytes, '\0');
  }

  /// The message with which reading the file fails.
  [[nodiscard]] std::string failure() const {
    try {
      SafetensorsFile file(base::host_files(), path());
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path()));
      return error.what();
    }
    return "no failure";
  }

 private:
  std::string folder_;
};

TEST_F(SafetensorsTest, RoundTripKeepsEveryBit) {
  const at::Tensor a = at::arange(6, at::kFloat).view({2, 3}) / 7;
  const at::Tensor b = at::arange(5, at::kFloat).to(at::kBFloat16);
  const at::Tensor c = at::full({}, 3, at::kLong);
  const at::Tensor d = at::empty({0, 4}, at::kFloat);
  write_safetensors(base::host_files(), path(), {{"a", a}, {"b", b}, {"c", c}, {"d", d}}, {{"format", "pt"}});
  const SafetensorsFile file(base::host_files(), path());
  EXPECT_EQ(file.entries().size(), 4U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto& [name, tensor] : {std::pair{"a", a}, {"b", b}, {"c", c}, {"d", d}}) {
    const at::Tensor read = file.read(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
  EXPECT_EQ(file.read_fp32("b").scalar_type(), at::kFloat);
  EXPECT_TRUE(file.read_fp32("b").equal(b.to(at::kFloat)));
}

TEST_F(SafetensorsTest, DataBeginsAtAMultipleOf64Bytes) {
  for (const char* name : {"a", "ab", "abc", "a much longer name than the others have"}) {
    write_safetensors(base::host_files(), path(), {{name, at::ones({3})}});
    EXPECT_EQ((std::filesystem::file_size(path()) - 12) % 64, 0U) << name;
  }
}

TEST_F(SafetensorsTest, WriterTakesPiecesOfAnySize) {
  const std::vector<float> values{1, 2, 3, 4, 5};
  const auto bytes = std::as_bytes(std::span(values));
  SafetensorsWriter writer(base::host_files(), path(), {{.name = "x", .shape = {2}}, {.name = "y", .shape = {3, 1}}});
  writer.write(bytes.first(3));
  writer.write(bytes.subspan(3, 11));
  EXPECT_THROW(writer.close(), std::logic_error);
  writer.write(bytes.subspan(14));
  EXPECT_THROW(writer.write(bytes.first(1)), std::logic_error);
  writer.close();
  const SafetensorsFile file(base::host_files(), path());
  EXPECT_TRUE(file.read("x").equal(at::tensor({1.F, 2.F})));
  EXPECT_TRUE(file.read("y").equal(at::tensor({3.F, 4.F, 5.F}).view({3, 1})));
}

TEST_F(SafetensorsTest, ReadsWhatHuggingFaceWrote) {
  const SafetensorsFile file(base::host_files(), std::string(LOCKSTEP_TEST_DATA) + "/gpt2-tiny/model.safetensors");
  EXPECT_EQ(file.entries().size(), 52U);
  const at::Tensor weight = file.read_fp32("transformer.wte.weight");
  EXPECT_EQ(weight.sizes(), (std::vector<int64_t>{256, 64}));
  EXPECT_NEAR(weight.std().item<double>(), 0.02, 0.001);
}

TEST_F(SafetensorsTest, AbsentTensorsAndWrongKindsAreNamed) {
  write_safetensors(base::host_files(), path(), {{"count", at::ones({2}, at::kLong)}});
  const SafetensorsFile file(base::host_files(), path());
  EXPECT_THROW((void)file.bytes("other"), CheckpointError);
  try {
    (void)file.read_fp32("count");
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor count: dtype I64; expected one of F32"));
  }
}

TEST_F(SafetensorsTest, AbsentFileIsAnIoError) {
  EXPECT_THROW(SafetensorsFile(base::host_files(), path() + ".none"), IoError);
}

struct Malformed {
  const char* name;
  const char* header;
  size_t data_bytes;
  const char* message;
};

class MalformedSafetensorsTest : public SafetensorsTest, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedSafetensorsTest, IsRefused) {
  write_raw(GetParam().header, GetParam().data_bytes);
  EXPECT_THAT(failure(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedSafetensorsTest,
    testing::Values(
        Malformed{"NoJson", "{", 0, "its header is not JSON"}, Malformed{"Array", "[]", 0, "is not a JSON object"},
        Malformed{"Deep", R"({"a":{"dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4]}})", 4, "nested too deeply"},
        Malformed{
            "Duplicate",
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            4, "tensor a: comes twice"},
        Malformed{"NoDtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor a: expected dtype"},
        Malformed{"UnknownDtype", R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4,
                  "tensor a: unknown dtype F31"},
        Malformed{"NegativeDim", R"({"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}})", 4,
                  "tensor a: expected sizes as shape"},
        Malformed{"FractionalDim", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
                  "tensor a: expected sizes as shape"},
        Malformed{"Overflow", R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}})", 0,
                  "tensor a: expected sizes as shape"},
        Malformed{"HugeNumber", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", 4,
                  "tensor a: expected data_offsets in order"},
        Malformed{"Backwards", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
                  "tensor a: expected data_offsets in order"},
        Malformed{"WrongSize", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                  "tensor a: 8 bytes by its shape, 4 by its data_offsets"},
        Malformed{"CutShort", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7,
                  "tensor a: ends at byte 8 of 7: the file is cut short"},
        Malformed{
            "Overlap",
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
            12, "tensor b: begins at byte 4, inside the one before"},
        Malformed{
            "Hole",
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
            12, "tensor b: begins at byte 8, 4 after"},
        Malformed{"Rest", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9,
                  "5 bytes after its last tensor"},
        Malformed{"Metadata", R"({"__metadata__":{"a":1}})", 0, "__metadata__: a: expected text"}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_F(SafetensorsTest, FilesShorterThanTheirHeaderAreRefused) {
  std::ofstream(path()) << "abc";
  EXPECT_THAT(failure(), HasSubstr("it has 3 bytes"));
  write_raw("{}", 0);
  std::filesystem::resize_file(path(), 9);
  EXPECT_THAT(failure(), HasSubstr("its header claims 2 bytes of the file's 9"));
  std::ofstream(path(), std::ios::binary) << std::string(64, '\xff');
  EXPECT_THAT(failure(), HasSubstr("its header claims 18446744073709551615 bytes"));
}

}  // namespace
}  // namespace lockstep::tensor
