// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Definition of PrefixEncoder: CANN generates aclnnPrefixEncoder from it (../README.md).

#include "prefix_encoder_host.h"

namespace ops {

class PrefixEncoder : public OpDef {
 public:
  explicit PrefixEncoder(const char *name) : OpDef(name) {
    DefineTensors();
    // Values that the plan depends on: aclIntArray in the generated interface.
    for (const char *length : {"seq_len", "kv_seq_len"}) {
      this->Input(length).ParamType(REQUIRED).DataType(kInt64).Format(kFormats).ValueDepend(
          REQUIRED);
    }
    this->Attr("mask_type").AttrType(REQUIRED).Int();
    this->Attr("head_num").AttrType(REQUIRED).Int();
    this->Attr("kv_head_num").AttrType(OPTIONAL).Int(0);
    this->Attr("qk_scale").AttrType(OPTIONAL).Float(1.0);
    this->SetInferShape(mindspore_relay::aicore::prefix_encoder::InferShape);
    this->SetInferDataType(mindspore_relay::aicore::prefix_encoder::InferDataType);
    this->AICore().SetTiling(mindspore_relay::aicore::prefix_encoder::Tile);
    this->AICore().AddConfig("ascend910b");
  }

 private:
  // The kernel is compiled once for each column: float16 and bfloat16.
  void DefineTensors() {
    this->Input("query").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Input("key").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Input("value").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Input("block_tables").ParamType(REQUIRED).DataType(kInt32).Format(kFormats);
    this->Input("mask").ParamType(OPTIONAL).DataType(kFloats).Format(kFormats);
    this->Input("slopes").ParamType(OPTIONAL).DataType(kFloat32).Format(kFormats);
    this->Output("attn_out").ParamType(REQUIRED).DataType(kFloats).Format(kFormats);
    this->Output("lse").ParamType(OPTIONAL).DataType(kFloat32).Format(kFormats);
  }

  const std::vector<ge::DataType> kFloats = {ge::DT_FLOAT16, ge::DT_BF16};
  const std::vector<ge::DataType> kFloat32 = {ge::DT_FLOAT, ge::DT_FLOAT};
  const std::vector<ge::DataType> kInt32 = {ge::DT_INT32, ge::DT_INT32};
  const std::vector<ge::DataType> kInt64 = {ge::DT_INT64, ge::DT_INT64};
  const std::vector<ge::Format> kFormats = {ge::FORMAT_ND, ge::FORMAT_ND};
};

OP_ADD(PrefixEncoder);

}  // namespace ops
