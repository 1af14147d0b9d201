// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// aicore/*/op_host with a stand-in for the toolkit's header (fake_toolkit): the definitions, the
// inference functions, and that the tiling functions hand over what CANN gives them.

#include <gtest/gtest.h>

#include <cstring>

#include "prefix_encoder/op_host/prefix_encoder_host.h"
#include "relay_attention/op_host/relay_attention_host.h"
#include "tiling_problems.h"

namespace mindspore_relay::aicore {
namespace {

constexpr int64_t kSystemWorkspaceBytes = 16 << 20;

const ops::OpDef &Definition(const char *name) { return ops::AllDefinitions().at(name); }

template <typename List>
std::vector<std::string> Names(const List &list) {
  std::vector<std::string> names;
  for (const auto &entry : list) names.push_back(entry.name);
  return names;
}

template <typename T>
void SetAttribute(gert::RuntimeAttrs *attributes, size_t index, T value) {
  attributes->values[index] = std::make_shared<T>(value);
}

void AddTensor(gert::TilingContext *context, size_t input, const Dims &dims) {
  gert::InputInstance instance;
  instance.shape.origin = gert::Shape(dims);
  context->inputs[input].push_back(instance);
}

void AddInts(gert::TilingContext *context, size_t input, const std::vector<int64_t> &values) {
  gert::InputInstance instance;
  instance.shape.origin = gert::Shape({static_cast<int64_t>(values.size())});
  instance.tensor.values = values;
  context->inputs[input].push_back(instance);
}

// ---- definitions
// ---------------------------------------------------------------------------------

TEST(Definition, RelayAttention) {
  const ops::OpDef &op = Definition("RelayAttention");
  EXPECT_EQ(Names(op.inputs),
            (std::vector<std::string>{"query", "key", "value", "key_share", "value_share",
                                      "attention_mask", "block_tables", "share_block_tables",
                                      "seq_len", "kv_seq_len", "kv_share_map", "kv_share_len"}));
  EXPECT_EQ(op.inputs[relay_attention::kKvShareLen].name, "kv_share_len");
  EXPECT_EQ(Names(op.outputs), (std::vector<std::string>{"attn_out", "lse"}));
  EXPECT_EQ(Names(op.attributes),
            (std::vector<std::string>{"head_num", "qk_scale", "kv_head_num", "mask_type"}));
  for (const size_t list : {relay_attention::kKey, relay_attention::kValue,
                            relay_attention::kKeyShare, relay_attention::kValueShare}) {
    EXPECT_EQ(op.inputs[list].type, ops::DYNAMIC);
  }
  EXPECT_EQ(op.attributes[relay_attention::kQkScale].kind, "float");
  EXPECT_EQ(op.attributes[relay_attention::kQkScale].default_value, 1.0);
}

TEST(Definition, PrefixEncoder) {
  const ops::OpDef &op = Definition("PrefixEncoder");
  EXPECT_EQ(Names(op.inputs),
            (std::vector<std::string>{"query", "key", "value", "block_tables", "mask", "slopes",
                                      "seq_len", "kv_seq_len"}));
  EXPECT_EQ(Names(op.outputs), (std::vector<std::string>{"attn_out", "lse"}));
  EXPECT_EQ(Names(op.attributes),
            (std::vector<std::string>{"mask_type", "head_num", "kv_head_num", "qk_scale"}));
  EXPECT_EQ(op.attributes[prefix_encoder::kQkScale].kind, "float");
}

// What the toolkit's documentation demands of every definition.
TEST(Definition, ParametersFitTogether) {
  for (const char *name : {"RelayAttention", "PrefixEncoder"}) {
    const ops::OpDef &op = Definition(name);
    EXPECT_EQ(op.ai_core.processors, std::vector<std::string>{"ascend910b"});
    EXPECT_NE(op.ai_core.tiling, nullptr);
    for (const auto *params : {&op.inputs, &op.outputs}) {
      for (const ops::OpParamDef &param : *params) {
        EXPECT_NE(param.type, ops::IGNORE) << param.name;
        EXPECT_EQ(param.data_types.size(), 2u) << param.name;
        EXPECT_EQ(param.formats.size(), 2u) << param.name;
        // Integer lists become aclIntArray only as int64 with a value dependence.
        const bool is_int64 = param.data_types[0] == ge::DT_INT64;
        EXPECT_EQ(is_int64, param.value_depend != ops::IGNORE) << param.name;
      }
    }
  }
}

// ---- inference
// -----------------------------------------------------------------------------------

TEST(Inference, OutputsOfRelayAttention) {
  gert::InferShapeContext context;
  context.inputs = {gert::Shape({3, 8 * 64})};
  context.outputs[relay_attention::kAttnOut];
  context.outputs[relay_attention::kLse];
  SetAttribute<int64_t>(&context.attributes, relay_attention::kHeadNum, 8);
  ASSERT_EQ(Definition("RelayAttention").infer_shape(&context), ge::GRAPH_SUCCESS);
  EXPECT_EQ(context.outputs[relay_attention::kAttnOut].dims(), (Dims{3, 512}));
  EXPECT_EQ(context.outputs[relay_attention::kLse].dims(), (Dims{3, 8}));
}

TEST(Inference, OutputsOfPrefixEncoderWithoutLse) {
  gert::InferShapeContext context;
  context.inputs = {gert::Shape({7, 4, 32})};
  context.outputs[prefix_encoder::kAttnOut];
  SetAttribute<int64_t>(&context.attributes, prefix_encoder::kHeadNum, 4);
  ASSERT_EQ(Definition("PrefixEncoder").infer_shape(&context), ge::GRAPH_SUCCESS);
  EXPECT_EQ(context.outputs[prefix_encoder::kAttnOut].dims(), (Dims{7, 4, 32}));
}

TEST(Inference, FailsWithoutHeadNum) {
  gert::InferShapeContext context;
  context.inputs = {gert::Shape({3, 512})};
  context.outputs[relay_attention::kAttnOut];
  EXPECT_EQ(Definition("RelayAttention").infer_shape(&context), ge::GRAPH_FAILED);
}

TEST(Inference, DataTypes) {
  for (const char *name : {"RelayAttention", "PrefixEncoder"}) {
    gert::InferDataTypeContext context;
    context.inputs = {ge::DT_BF16};
    ASSERT_EQ(Definition(name).infer_data_type(&context), ge::GRAPH_SUCCESS);
    EXPECT_EQ(context.outputs[0], ge::DT_BF16);
    EXPECT_EQ(context.outputs[1], ge::DT_FLOAT);
  }
}

// ---- tiling
// --------------------------------------------------------------------------------------

class RelayTiling : public ::testing::Test {
 protected:
  RelayTiling() {
    context_.platform.num_cube_cores = 24;
    AddTensor(&context_, relay_attention::kQuery, test_.shape.query);
    for (const Dims &dims : test_.shape.key) {
      AddTensor(&context_, relay_attention::kKey, dims);
      AddTensor(&context_, relay_attention::kValue, dims);
    }
    for (const Dims &dims : test_.shape.key_share) {
      AddTensor(&context_, relay_attention::kKeyShare, dims);
      AddTensor(&context_, relay_attention::kValueShare, dims);
    }
    AddInts(&context_, relay_attention::kSeqLen, test_.seq_len);
    AddInts(&context_, relay_attention::kKvSeqLen, test_.kv_seq_len);
    AddInts(&context_, relay_attention::kKvShareMap, test_.kv_share_map);
    AddInts(&context_, relay_attention::kKvShareLen, test_.kv_share_len);
    SetAttribute<int64_t>(&context_.attributes, relay_attention::kHeadNum, test_.shape.head_num);
    SetAttribute<float>(&context_.attributes, relay_attention::kQkScale, 0.125f);
    SetAttribute<int64_t>(&context_.attributes, relay_attention::kKvHeadNum,
                          test_.shape.kv_head_num);
    SetAttribute<int64_t>(&context_.attributes, relay_attention::kMaskType, 0);
  }

  // Runs the tiling function, which must fail, and returns what it said.
  std::string Message() {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Definition("RelayAttention").ai_core.tiling(&context_), ge::GRAPH_FAILED);
    return ::testing::internal::GetCapturedStderr();
  }

  RelayTestProblem test_{{500, 0, 700}, {0, -1, 0}, {1200}, 8, 2, 64};
  gert::TilingContext context_;
};

TEST_F(RelayTiling, IsThePlanOfTheSameProblem) {
  ASSERT_EQ(Definition("RelayAttention").ai_core.tiling(&context_), ge::GRAPH_SUCCESS);
  test_.shape.qk_scale = 0.125f;
  RelayAttentionTiling expected;
  int64_t workspace_bytes = 0;
  std::string error;
  ASSERT_TRUE(ComputeRelayAttentionTiling(test_.shape, {24, kSystemWorkspaceBytes}, &expected,
                                          &workspace_bytes, &error));
  EXPECT_EQ(std::memcmp(context_.raw_tiling.data(), &expected, sizeof(expected)), 0);
  EXPECT_EQ(context_.block_dim, static_cast<uint32_t>(expected.attention.num_cores));
  EXPECT_GT(context_.block_dim, 1u);
  EXPECT_EQ(context_.workspaces, std::vector<size_t>{static_cast<size_t>(workspace_bytes)});
  EXPECT_EQ(context_.schedule_mode, 1u) << "SyncAll may hang in any other mode";
}

TEST_F(RelayTiling, WithoutGroups) {
  context_.inputs.erase(relay_attention::kKeyShare);
  context_.inputs.erase(relay_attention::kValueShare);
  context_.inputs.erase(relay_attention::kKvShareMap);
  context_.inputs.erase(relay_attention::kKvShareLen);
  context_.inputs[relay_attention::kKvSeqLen][0].tensor.values = {500, 0, 700};
  EXPECT_EQ(Definition("RelayAttention").ai_core.tiling(&context_), ge::GRAPH_SUCCESS);
}

TEST_F(RelayTiling, SaysWhatIsWrong) {
  context_.inputs[relay_attention::kKvSeqLen][0].tensor.values[2] = 100;
  EXPECT_NE(Message().find("relay_attention: kv_seq_len[2]=100 is smaller than its shared prefix"),
            std::string::npos);
}

TEST_F(RelayTiling, LengthsMustBeOnTheHost) {
  context_.inputs[relay_attention::kKvSeqLen][0].tensor.is_on_host = false;
  EXPECT_NE(Message().find("kv_seq_len must have 3 values on the host, got 0"), std::string::npos);
}

TEST_F(RelayTiling, LengthsMustBeAsManyAsRequests) {
  context_.inputs[relay_attention::kSeqLen][0].tensor.values.pop_back();
  EXPECT_NE(Message().find("seq_len must have 3 values on the host, got 2"), std::string::npos);
}

TEST_F(RelayTiling, AttributesAreNeeded) {
  context_.attributes.values.erase(relay_attention::kMaskType);
  EXPECT_NE(Message().find("mask_type are needed"), std::string::npos);
}

class PrefixTiling : public ::testing::Test {
 protected:
  PrefixTiling() {
    context_.platform.num_cube_cores = 20;
    AddTensor(&context_, prefix_encoder::kQuery, test_.shape.query);
    AddTensor(&context_, prefix_encoder::kKey, test_.shape.key);
    AddTensor(&context_, prefix_encoder::kValue, test_.shape.value);
    AddTensor(&context_, prefix_encoder::kBlockTables, test_.shape.block_tables);
    AddTensor(&context_, prefix_encoder::kMask, {256, 256});
    AddTensor(&context_, prefix_encoder::kSlopes, {8});
    AddInts(&context_, prefix_encoder::kSeqLen, test_.seq_len);
    AddInts(&context_, prefix_encoder::kKvSeqLen, test_.kv_seq_len);
    SetAttribute<int64_t>(&context_.attributes, prefix_encoder::kMaskType, 4);
    SetAttribute<int64_t>(&context_.attributes, prefix_encoder::kHeadNum, test_.shape.head_num);
    SetAttribute<int64_t>(&context_.attributes, prefix_encoder::kKvHeadNum,
                          test_.shape.kv_head_num);
    SetAttribute<float>(&context_.attributes, prefix_encoder::kQkScale, 0.25f);
  }

  PrefixTestProblem test_{{300, 0, 70}, {900, 5, 70}, 8, 2, 64};
  gert::TilingContext context_;
};

TEST_F(PrefixTiling, IsThePlanOfTheSameProblem) {
  ASSERT_EQ(Definition("PrefixEncoder").ai_core.tiling(&context_), ge::GRAPH_SUCCESS);
  test_.shape.mask = {256, 256};
  test_.shape.slopes = {8};
  test_.shape.mask_type = 4;
  test_.shape.qk_scale = 0.25f;
  PrefixEncoderTiling expected;
  int64_t workspace_bytes = 0;
  std::string error;
  ASSERT_TRUE(ComputePrefixEncoderTiling(test_.shape, {20, kSystemWorkspaceBytes}, &expected,
                                         &workspace_bytes, &error));
  EXPECT_EQ(std::memcmp(context_.raw_tiling.data(), &expected, sizeof(expected)), 0);
  EXPECT_EQ(context_.block_dim, static_cast<uint32_t>(expected.attention.num_cores));
  EXPECT_EQ(context_.workspaces, std::vector<size_t>{static_cast<size_t>(workspace_bytes)});
  EXPECT_EQ(context_.schedule_mode, 1u);
}

TEST_F(PrefixTiling, MissingMaskIsNamed) {
  context_.inputs.erase(prefix_encoder::kMask);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Definition("PrefixEncoder").ai_core.tiling(&context_), ge::GRAPH_FAILED);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "prefix_encoder: mask_type 4 needs a mask of the shape [256, 256], got none"),
            std::string::npos);
}

}  // namespace
}  // namespace mindspore_relay::aicore
