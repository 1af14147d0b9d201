// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0
#include "aot/arguments.h"

#include <cstring>
#include <limits>
#include <string>

namespace mindspore_relay::aot {
namespace {

struct DTypeOfName {
  const char *name;
  MsRelayDType dtype;
};

constexpr DTypeOfName kDTypes[] = {
    {"float32", MS_RELAY_FLOAT32}, {"float16", MS_RELAY_FLOAT16}, {"bfloat16", MS_RELAY_BFLOAT16},
    {"int32", MS_RELAY_INT32},     {"uint32", MS_RELAY_UINT32},   {"uint8", MS_RELAY_UINT8},
};

bool Is(const char *dtype, const char *name) { return std::strcmp(dtype, name) == 0; }

}  // namespace

ArgumentReader::ArgumentReader(const char *op_name, const RawParams &params,
                               std::vector<MsRelayTensor> *tensors)
    : op_name_(op_name), params_(params), tensors_(tensors) {
  tensors_->clear();
  // Descriptions are handed out by address: the vector must not grow afterwards.
  tensors_->reserve(static_cast<size_t>(params.num_params));
}

int ArgumentReader::NextIndex(const char *argument) {
  if (next_ >= params_.num_params) Fail(argument, "must be given", "too few parameters");
  return next_++;
}

void ArgumentReader::Fail(const char *argument, const char *rule, const char *value) const {
  throw std::runtime_error(std::string(op_name_) + ": " + argument + " " + rule + ", got " + value);
}

void ArgumentReader::ShapeCarrier() { carrier_shape_ = params_.shapes[NextIndex("shape carrier")]; }

MsRelayTensor *ArgumentReader::Tensor(const char *argument) {
  const int index = NextIndex(argument);
  const char *const name = params_.dtypes[index];
  if (Is(name, "none")) return nullptr;

  MsRelayTensor tensor = {};
  tensor.struct_bytes = sizeof(MsRelayTensor);
  tensor.data = params_.data[index];
  for (const DTypeOfName &entry : kDTypes) {
    if (Is(name, entry.name)) tensor.dtype = entry.dtype;
  }
  if (tensor.dtype == 0) {
    Fail(argument, "must have dtype float32, float16, bfloat16, int32, uint32 or uint8", name);
  }
  tensor.rank = params_.ranks[index];
  if (tensor.rank < 1 || tensor.rank > MS_RELAY_MAX_RANK) {
    Fail(argument, "must have rank 1 to 6", std::to_string(tensor.rank).c_str());
  }
  int64_t stride = 1;
  for (int dim = tensor.rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = params_.shapes[index][dim];
    tensor.strides[dim] = stride;
    stride *= tensor.shape[dim];
  }
  tensors_->push_back(tensor);
  return &tensors_->back();
}

MsRelayTensorList ArgumentReader::TensorList(const char *argument, int64_t num_tensors) {
  MsRelayTensorList list = {};
  list.struct_bytes = sizeof(MsRelayTensorList);
  list.num_tensors = num_tensors;
  list.tensors = tensors_->data() + tensors_->size();
  for (int64_t i = 0; i < num_tensors; ++i) {
    if (Tensor(argument) == nullptr) Fail(argument, "must hold tensors only", "None");
  }
  return list;
}

int64_t ArgumentReader::Int64(const char *argument) {
  const int index = NextIndex(argument);
  if (params_.ranks[index] != 0 || !Is(params_.dtypes[index], "int64")) {
    Fail(argument, "must be a Python int", params_.dtypes[index]);
  }
  int64_t value;
  std::memcpy(&value, params_.data[index], sizeof(value));
  return value;
}

int32_t ArgumentReader::Int32(const char *argument) {
  const int64_t value = Int64(argument);
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    Fail(argument, "must fit in 32 bits", std::to_string(value).c_str());
  }
  return static_cast<int32_t>(value);
}

float ArgumentReader::Float32(const char *argument) {
  const int index = NextIndex(argument);
  const bool is_scalar = params_.ranks[index] == 0;
  if (is_scalar && Is(params_.dtypes[index], "float32")) {
    float value;
    std::memcpy(&value, params_.data[index], sizeof(value));
    return value;
  }
  if (is_scalar && Is(params_.dtypes[index], "int64")) {
    int64_t value;
    std::memcpy(&value, params_.data[index], sizeof(value));
    return static_cast<float>(value);
  }
  Fail(argument, "must be a Python float", params_.dtypes[index]);
}

void ThrowIfError(MsRelayStatus status) {
  if (status != MS_RELAY_OK) throw std::runtime_error(MsRelayLastError());
}

}  // namespace mindspore_relay::aot
