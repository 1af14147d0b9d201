// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Arguments of the C interface out of the fuzzer's bytes: a sound problem first, then up to three
// things in it are spoilt. What a description claims is always really there, to the byte: an access
// outside of it is then the library's fault, and AddressSanitizer sees it.
#ifndef MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_ARGUMENTS_H_
#define MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay::testing {

// Reads the fuzzer's bytes. Behind their end everything is 0, which makes the simplest choice.
class Reader {
 public:
  Reader(const uint8_t *data, size_t size) : data_(data), end_(data + size) {}

  uint8_t Byte() { return data_ == end_ ? 0 : *data_++; }
  // 0 .. count - 1
  int64_t Below(int64_t count) { return Byte() % count; }
  bool OneIn(int64_t count) { return Below(count) == count - 1; }
  // Any number, most of them at the edges of the types.
  int64_t AnyNumber();
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }

 private:
  const uint8_t *data_;
  const uint8_t *end_;
};

// One tensor: its description, and its memory once Place was called.
struct FuzzTensor {
  std::string name;
  MsRelayTensor description = {};
  std::vector<int32_t> integers;  // content of lengths, maps and tables; else it is random
  bool is_output = false;
  bool is_null = false;  // NULL is handed over instead of it
};

// Everything that one call hands over. Descriptions lie in memory of exactly the size that they
// say.
class Arguments {
 public:
  explicit Arguments(Reader *reader) : reader_(reader) {}
  ~Arguments();
  Arguments(const Arguments &) = delete;
  Arguments &operator=(const Arguments &) = delete;

  // A contiguous tensor. The index is its number from now on.
  int Add(const char *name, int32_t dtype, const std::vector<int64_t> &shape);
  int AddOutput(const char *name, int32_t dtype, const std::vector<int64_t> &shape);
  int AddIntegers(const char *name, const std::vector<int64_t> &shape,
                  const std::vector<int32_t> &values);
  FuzzTensor &At(int index) { return tensors_[index]; }

  // Spoils one field of one description, or one number in an integer tensor.
  void SpoilTensor();

  // Memory for the tensor, and its description for the library. NULL for index -1.
  MsRelayTensor *Place(int index);
  // The same for a list; all elements have the size that the first one says, or not.
  MsRelayTensorList *PlaceList(const std::vector<int> &indices, bool is_stacked);

  // Whether all descriptions are such that running over all their elements ends soon.
  bool IsSmall() const { return num_elements_ < (1 << 20); }

  void *Allocate(size_t bytes);
  Reader *reader() { return reader_; }

 private:
  void SpoilDescription(MsRelayTensor *tensor);
  void PlaceData(FuzzTensor *tensor);
  void Fill(const FuzzTensor &tensor, char *data, size_t bytes);

  Reader *reader_;
  std::vector<FuzzTensor> tensors_;
  std::vector<void *> blocks_;
  double num_elements_ = 0;
  bool wrote_sparse_ = false;
};

}  // namespace mindspore_relay::testing

#endif  // MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_ARGUMENTS_H_
