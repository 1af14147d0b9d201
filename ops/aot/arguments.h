// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Reads the arrays that MindSpore hands to an ops.Custom(func_type="aot") function as the types of
// the C interface.
#ifndef MINDSPORE_RELAY_AOT_ARGUMENTS_H_
#define MINDSPORE_RELAY_AOT_ARGUMENTS_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay::aot {

// The parameters of an entry point: inputs in the order of the Python call, then outputs. All
// arrays have num_params entries. A Python int, float or bool is a tensor of rank 0 and dtype
// int64, float32 or bool; None is a null pointer with dtype "none".
struct RawParams {
  int num_params;
  void **data;
  const int *ranks;
  const int64_t *const *shapes;
  const char *const *dtypes;
};

// A cursor over RawParams. Each call takes the next parameter; `argument` is its name in messages.
// All tensors are contiguous: MindSpore copies views before the call. Throws std::runtime_error
// that names operator, argument, rule and value.
class ArgumentReader {
 public:
  // *tensors is emptied and then holds the descriptions handed out: it must outlive their use, and
  // is a parameter so that a caller can keep its memory from call to call.
  ArgumentReader(const char *op_name, const RawParams &params, std::vector<MsRelayTensor> *tensors);

  // Leaves out the next num_params parameters.
  void Skip(int num_params) { next_ += num_params; }

  // nullptr for None.
  MsRelayTensor *Tensor(const char *argument);

  // The next num_tensors parameters, none of them None. is_stacked is 0.
  MsRelayTensorList TensorList(const char *argument, int64_t num_tensors);

  int64_t Int64(const char *argument);
  int32_t Int32(const char *argument);
  float Float32(const char *argument);

  // Takes the next parameter as the shape carrier (infer.h), of which dimensions follow.
  void ShapeCarrier();
  int64_t CarriedDim(int dim) const { return carrier_shape_[dim]; }

 private:
  int NextIndex(const char *argument);
  [[noreturn]] void Fail(const char *argument, const char *rule, const char *value) const;

  const char *op_name_;
  RawParams params_;
  std::vector<MsRelayTensor> *tensors_;
  const int64_t *carrier_shape_ = nullptr;
  int next_ = 0;
};

// Runs an entry point's body.
//
// MindSpore shows a user the text of a std::exception, but only the number of a non-zero return,
// and does not survive any other exception.
template <typename Body>
int RunEntry(const char *op_name, Body &&body) {
  try {
    body();
  } catch (const std::exception &) {
    throw;
  } catch (...) {
    throw std::runtime_error(std::string(op_name) + ": unknown exception");
  }
  return 0;
}

// Throws the library's text of the last failure unless status is MS_RELAY_OK.
void ThrowIfError(MsRelayStatus status);

}  // namespace mindspore_relay::aot

#endif  // MINDSPORE_RELAY_AOT_ARGUMENTS_H_
