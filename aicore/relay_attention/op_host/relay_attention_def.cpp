// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Definition of RelayAttention: CANN generates aclnnRelayAttention from it (../README.md).

#include "relay_attention_host.h"

namespace ops {

class RelayAttention : public OpDef {
 public:
  explicit RelayAttention(const char *name) : OpDef(name) {
    DefineTensors();
    DefineLengths();
    this->Attr("head_num").AttrType(REQUIRED).Int();
    this->Attr("qk_scale").AttrType(OPTIONAL).Float(1.0);
    this->Attr("kv_head_num").AttrType(OPTIONAL).Int(0);
    this->Attr("mask_type").AttrType(OPTIONAL).Int(0);
    this->SetInferShape(mindspore_relay::aicore::relay_attention::InferShape);
    this->SetInferDataType(mindspore_relay::aicore::relay_attention::InferDataType);
    this->AICore().SetTiling(mindspore_relay::aicore::relay_attention::Tile);
    this->AICore().AddConfig("ascend910b");
  }

 private:
  // The kernel is compiled once for each column: float16 and bfloat16.
  void DefineTensors() {
    this->Input("query").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Input("key").ParamType(DYNAMIC).DataType(kFloats).Format(kFormats);
    this->Input("value").ParamType(DYNAMIC).DataType(kFloats).Format(kFormats);
    this->Input("key_share").ParamType(DYNAMIC).DataType(kFloats).Format(kFormats);
    this->Input("value_share").ParamType(DYNAMIC).DataType(kFloats).Format(kFormats);
    this->Input("attention_mask").ParamType(OPTIONAL).DataType(kFloats).Format(kFormats);
    this->Input("block_tables").ParamType(OPTIONAL).DataType(kInt32).Format(kFormats);
    this->Input("share_block_tables").ParamType(OPTIONAL).DataType(kInt32).Format(kFormats);
    this->Output("attn_out").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Output("lse").ParamType(OPTIONAL).DataType(kFloat32).Format(kFormats);
  }

  // Values that the plan depends on: aclIntArray in the generated interface.
  void DefineLengths() {
    for (const char *name : {"seq_len", "kv_seq_len"}) {
      this->Input(name).ParamType(REQUIRED).DataType(kInt64).Format(kFormats).ValueDepend(REQUIRED);
    }
    for (const char *name : {"kv_share_map", "kv_share_len"}) {
      this->Input(name).ParamType(OPTIONAL).DataType(kInt64).Format(kFormats).ValueDepend(OPTIONAL);
    }
  }

  const std::vector<ge::DataType> kFloats = {ge::DT_FLOAT16, ge::DT_BF16};
  const std::vector<ge::DataType> kFloat32 = {ge::DT_FLOAT, ge::DT_FLOAT};
  const std::vector<ge::DataType> kInt32 = {ge::DT_INT32, ge::DT_INT32};
  const std::vector<ge::DataType> kInt64 = {ge::DT_INT64, ge::DT_INT64};
  const std::vector<ge::Format> kFormats = {ge::FORMAT_ND, ge::FORMAT_ND};
};

OP_ADD(RelayAttention);

}  // namespace ops
