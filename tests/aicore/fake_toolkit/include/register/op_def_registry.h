// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Stand-in for the header of the CANN toolkit, for tests on hosts without it: the names that
// aicore/*/op_host uses, with as much behind them as the tests look at. Names and signatures are
// those of the public documentation of the toolkit; see OpDef, TilingContext and InferShapeContext
// there.

#ifndef MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_OP_DEF_REGISTRY_H_
#define MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_OP_DEF_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ge {
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
enum DataType { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT32 = 3, DT_INT64 = 9, DT_BF16 = 27 };
enum Format { FORMAT_ND = 2 };
}  // namespace ge

namespace fe {
class PlatFormInfos {
 public:
  uint32_t num_cube_cores = 0;
};
}  // namespace fe

namespace gert {

class Shape {
 public:
  Shape() = default;
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t i) const { return dims_[i]; }
  void SetDimNum(size_t count) { dims_.resize(count); }
  void SetDim(size_t i, int64_t size) { dims_[i] = size; }
  const std::vector<int64_t> &dims() const { return dims_; }

 private:
  std::vector<int64_t> dims_;
};

class StorageShape {
 public:
  Shape origin;
  const Shape &GetOriginShape() const { return origin; }
};

class Tensor {
 public:
  std::vector<int64_t> values;
  bool is_on_host = true;
  int64_t GetShapeSize() const { return static_cast<int64_t>(values.size()); }
  template <typename T>
  const T *GetData() const {
    return is_on_host ? reinterpret_cast<const T *>(values.data()) : nullptr;
  }
};

class RuntimeAttrs {
 public:
  std::map<size_t, std::shared_ptr<void>> values;
  template <typename T>
  const T *GetAttrPointer(size_t index) const {
    const auto found = values.find(index);
    return found == values.end() ? nullptr : static_cast<const T *>(found->second.get());
  }
};

// One input of the definition may be any number of tensors.
struct InputInstance {
  StorageShape shape;
  Tensor tensor;
};

class TilingContext {
 public:
  std::map<size_t, std::deque<InputInstance>> inputs;  // by index in the definition
  RuntimeAttrs attributes;
  fe::PlatFormInfos platform;
  std::vector<uint8_t> raw_tiling = std::vector<uint8_t>(8192, 0xCD);
  std::vector<size_t> workspaces;
  uint32_t block_dim = 0;
  uint32_t schedule_mode = 0;

  const StorageShape *GetDynamicInputShape(const size_t ir_index,
                                           const size_t relative_index) const {
    const InputInstance *input = Find(ir_index, relative_index);
    return input == nullptr ? nullptr : &input->shape;
  }
  const Tensor *GetDynamicInputTensor(const size_t ir_index, const size_t relative_index) const {
    const InputInstance *input = Find(ir_index, relative_index);
    return input == nullptr ? nullptr : &input->tensor;
  }
  const RuntimeAttrs *GetAttrs() const { return &attributes; }
  fe::PlatFormInfos *GetPlatformInfo() { return &platform; }
  template <typename T>
  T *GetTilingData() {
    return reinterpret_cast<T *>(raw_tiling.data());
  }
  ge::graphStatus SetBlockDim(const uint32_t value) {
    block_dim = value;
    return ge::GRAPH_SUCCESS;
  }
  ge::graphStatus SetScheduleMode(const uint32_t mode) {
    schedule_mode = mode;
    return ge::GRAPH_SUCCESS;
  }
  size_t *GetWorkspaceSizes(const size_t count) {
    workspaces.resize(count);
    return workspaces.data();
  }

 private:
  const InputInstance *Find(size_t input, size_t instance) const {
    const auto found = inputs.find(input);
    if (found == inputs.end() || instance >= found->second.size()) return nullptr;
    return &found->second[instance];
  }
};

class InferShapeContext {
 public:
  std::vector<Shape> inputs;
  std::map<size_t, Shape> outputs;
  RuntimeAttrs attributes;
  const Shape *GetInputShape(const size_t index) const { return &inputs[index]; }
  Shape *GetOutputShape(const size_t index) {
    const auto found = outputs.find(index);
    return found == outputs.end() ? nullptr : &found->second;
  }
  const RuntimeAttrs *GetAttrs() const { return &attributes; }
};

class InferDataTypeContext {
 public:
  std::vector<ge::DataType> inputs;
  std::map<size_t, ge::DataType> outputs;
  ge::DataType GetInputDataType(const size_t index) const { return inputs[index]; }
  ge::graphStatus SetOutputDataType(const size_t index, const ge::DataType type) {
    outputs[index] = type;
    return ge::GRAPH_SUCCESS;
  }
};

}  // namespace gert

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3 };

class OpParamDef {
 public:
  explicit OpParamDef(std::string param_name) : name(std::move(param_name)) {}
  OpParamDef &ParamType(Option option) { return type = option, *this; }
  OpParamDef &DataType(std::vector<ge::DataType> types) { return data_types = types, *this; }
  OpParamDef &Format(std::vector<ge::Format> list) { return formats = list, *this; }
  OpParamDef &ValueDepend(Option option) { return value_depend = option, *this; }

  std::string name;
  Option type = IGNORE;
  Option value_depend = IGNORE;
  std::vector<ge::DataType> data_types;
  std::vector<ge::Format> formats;
};

class OpAttrDef {
 public:
  explicit OpAttrDef(std::string attribute_name) : name(std::move(attribute_name)) {}
  OpAttrDef &AttrType(Option option) { return type = option, *this; }
  OpAttrDef &Int() { return kind = "int", *this; }
  OpAttrDef &Int(int64_t value) { return default_value = static_cast<double>(value), Int(); }
  OpAttrDef &Float(float value) { return default_value = value, kind = "float", *this; }

  std::string name;
  std::string kind;
  Option type = IGNORE;
  double default_value = 0;
};

class OpAICoreDef {
 public:
  OpAICoreDef &SetTiling(ge::graphStatus (*function)(gert::TilingContext *)) {
    return tiling = function, *this;
  }
  OpAICoreDef &AddConfig(const char *processor) {
    return processors.emplace_back(processor), *this;
  }

  ge::graphStatus (*tiling)(gert::TilingContext *) = nullptr;
  std::vector<std::string> processors;
};

class OpDef {
 public:
  explicit OpDef(const char *op_name) : name(op_name) {}
  OpParamDef &Input(const char *param) { return inputs.emplace_back(param); }
  OpParamDef &Output(const char *param) { return outputs.emplace_back(param); }
  OpAttrDef &Attr(const char *attribute) { return attributes.emplace_back(attribute); }
  OpDef &SetInferShape(ge::graphStatus (*function)(gert::InferShapeContext *)) {
    return infer_shape = function, *this;
  }
  OpDef &SetInferDataType(ge::graphStatus (*function)(gert::InferDataTypeContext *)) {
    return infer_data_type = function, *this;
  }
  OpAICoreDef &AICore() { return ai_core; }

  std::string name;
  std::deque<OpParamDef> inputs;
  std::deque<OpParamDef> outputs;
  std::deque<OpAttrDef> attributes;
  ge::graphStatus (*infer_shape)(gert::InferShapeContext *) = nullptr;
  ge::graphStatus (*infer_data_type)(gert::InferDataTypeContext *) = nullptr;
  OpAICoreDef ai_core;
};

// The definitions of a program, by name.
inline std::map<std::string, OpDef> &AllDefinitions() {
  static std::map<std::string, OpDef> definitions;
  return definitions;
}

struct Registration {
  explicit Registration(const OpDef &definition) {
    AllDefinitions().emplace(definition.name, definition);
  }
};

}  // namespace ops

#define OP_ADD(Op) \
  static const ops::Registration registration_of_##Op { Op(#Op) }

#endif  // MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_OP_DEF_REGISTRY_H_
