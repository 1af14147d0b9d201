// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "fuzz_arguments.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace mindspore_relay::testing {
namespace {

// Larger memory is not filled: it is a part of one mapping of zeros, which costs no memory.
constexpr int64_t kMaxFilledBytes = 1 << 18;
constexpr int64_t kSparseBytes = int64_t{1} << 36;

char *MapSparse(int protection) {
  void *const mapped =
      mmap(nullptr, kSparseBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  return static_cast<char *>(mapped);
}

// What is written must not be what a plan reads, and inputs must not be written.
char *SparseMemory(bool is_output) {
  static char *const inputs = MapSparse(PROT_READ);
  static char *const outputs = MapSparse(PROT_READ | PROT_WRITE);
  return is_output ? outputs : inputs;
}

int64_t ElementBytes(int32_t dtype) {
  switch (dtype) {
    case MS_RELAY_FLOAT32:
    case MS_RELAY_INT32:
    case MS_RELAY_UINT32:
      return 4;
    case MS_RELAY_FLOAT16:
    case MS_RELAY_BFLOAT16:
      return 2;
    case MS_RELAY_UINT8:
      return 1;
    default:
      return 0;
  }
}

// Bytes before and behind the first element; false for a description that no memory can fit, of
// which the library must not touch a byte.
bool Extent(const MsRelayTensor &tensor, double *num_elements, int64_t *before, int64_t *behind) {
  const int64_t element_bytes = ElementBytes(tensor.dtype);
  if (tensor.struct_bytes < sizeof(MsRelayTensor) || element_bytes == 0 || tensor.rank < 1 ||
      tensor.rank > MS_RELAY_MAX_RANK) {
    return false;
  }
  __int128 low = 0, high = 0;
  *num_elements = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] < 0) return false;
    *num_elements *= static_cast<double>(tensor.shape[i]);
    const __int128 reach = static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
    if (tensor.shape[i] > 1) (reach < 0 ? low : high) += reach * element_bytes;
  }
  if (*num_elements == 0) low = high = 0;
  high += *num_elements == 0 ? 0 : element_bytes;
  if (high - low > kSparseBytes) return false;
  *before = static_cast<int64_t>(-low);
  *behind = static_cast<int64_t>(high);
  return true;
}

}  // namespace

int64_t Reader::AnyNumber() {
  constexpr int64_t kEdges[] = {0,
                                1,
                                -1,
                                2,
                                7,
                                8,
                                9,
                                16,
                                127,
                                128,
                                255,
                                256,
                                512,
                                513,
                                576,
                                584,
                                1024,
                                4096,
                                65536,
                                INT32_MAX - 1,
                                INT32_MAX,
                                int64_t{INT32_MAX} + 1,
                                INT32_MIN,
                                UINT32_MAX,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 61,
                                INT64_MAX,
                                INT64_MIN};
  const int64_t kind = Below(40);
  if (kind < static_cast<int64_t>(std::size(kEdges))) return kEdges[kind];
  const int64_t small = static_cast<int8_t>(Byte());
  return kind % 2 == 0 ? small : small * 256 + Byte();
}

Arguments::~Arguments() {
  for (void *block : blocks_) std::free(block);
  if (wrote_sparse_) madvise(SparseMemory(true), kSparseBytes, MADV_DONTNEED);
}

void *Arguments::Allocate(size_t bytes) {
  void *const block = std::malloc(bytes);
  if (block == nullptr) std::abort();
  blocks_.push_back(block);
  return block;
}

int Arguments::Add(const char *name, int32_t dtype, const std::vector<int64_t> &shape) {
  FuzzTensor tensor;
  tensor.name = name;
  MsRelayTensor &description = tensor.description;
  description.struct_bytes = sizeof(MsRelayTensor);
  description.dtype = dtype;
  description.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (int32_t dim = description.rank - 1; dim >= 0; --dim) {
    description.shape[dim] = shape[dim];
    description.strides[dim] = stride;
    stride *= shape[dim];
  }
  tensors_.push_back(tensor);
  return static_cast<int>(tensors_.size()) - 1;
}

int Arguments::AddOutput(const char *name, int32_t dtype, const std::vector<int64_t> &shape) {
  const int index = Add(name, dtype, shape);
  tensors_[index].is_output = true;
  return index;
}

int Arguments::AddIntegers(const char *name, const std::vector<int64_t> &shape,
                           const std::vector<int32_t> &values) {
  const int index = Add(name, MS_RELAY_INT32, shape);
  tensors_[index].integers = values;
  return index;
}

void Arguments::SpoilTensor() {
  if (tensors_.empty()) return;
  FuzzTensor &tensor = tensors_[reader_->Below(static_cast<int64_t>(tensors_.size()))];
  if (!tensor.integers.empty() && reader_->Byte() % 2 == 0) {
    const int64_t count = static_cast<int64_t>(tensor.integers.size());
    tensor.integers[reader_->Below(count)] = static_cast<int32_t>(reader_->AnyNumber());
    return;
  }
  SpoilDescription(&tensor.description);
  tensor.is_null = reader_->OneIn(16);
}

void Arguments::SpoilDescription(MsRelayTensor *tensor) {
  const int64_t dim = reader_->Below(MS_RELAY_MAX_RANK);
  switch (reader_->Below(9)) {
    case 0:
      tensor->dtype = static_cast<int32_t>(reader_->Below(7));
      break;
    case 1:
      tensor->rank = static_cast<int32_t>(reader_->AnyNumber());
      break;
    case 2:
      tensor->reserved = static_cast<uint32_t>(reader_->AnyNumber());
      break;
    case 3:
      tensor->struct_bytes = reader_->Pick<uint32_t>(
          {0, 4, 112, 119, 121, 128, 4096, 4097, std::numeric_limits<uint32_t>::max()});
      break;
    case 4:
    case 5:
      tensor->shape[dim] = reader_->AnyNumber();
      break;
    case 6:
      tensor->strides[dim] = reader_->AnyNumber();
      break;
    case 7:  // one more or one less
      tensor->shape[dim] += reader_->Byte() % 2 == 0 ? 1 : -1;
      break;
    default:  // space between the elements of the dimensions, which is sound
      for (int32_t i = 0; i + 1 < std::min(tensor->rank, MS_RELAY_MAX_RANK); ++i) {
        tensor->strides[i] = 2 * tensor->strides[i] + 3;
      }
  }
}

void Arguments::Fill(const FuzzTensor &tensor, char *data, size_t bytes) {
  // Numbers of ordinary size, and sometimes any bits.
  uint32_t state = reader_->Byte() * 2654435761u + 1;
  const bool is_any = reader_->OneIn(8);
  for (size_t i = 0; i + 1 < bytes; i += 2) {
    state = state * 1664525u + 1013904223u;
    const uint16_t bits =
        static_cast<uint16_t>(is_any ? state >> 16 : 0x3c00u + (state >> 24) * 4u);
    std::memcpy(data + i, &bits, sizeof(bits));
  }
  const size_t integer_bytes = tensor.integers.size() * sizeof(int32_t);
  if (integer_bytes > 0) std::memcpy(data, tensor.integers.data(), std::min(integer_bytes, bytes));
}

void Arguments::PlaceData(FuzzTensor *tensor) {
  double num_elements = 0;
  int64_t before = 0, behind = 0;
  MsRelayTensor &description = tensor->description;
  if (!Extent(description, &num_elements, &before, &behind)) {
    // A wild pointer where no memory could do: it must not be followed. What a process could have,
    // but this one has not, gets NULL, which is an error too.
    const bool is_wild = description.struct_bytes < sizeof(MsRelayTensor) ||
                         ElementBytes(description.dtype) == 0 || description.rank < 1 ||
                         description.rank > MS_RELAY_MAX_RANK;
    description.data = is_wild ? reinterpret_cast<void *>(uintptr_t{64}) : nullptr;
    return;
  }
  num_elements_ += num_elements;
  const int64_t bytes = before + behind;
  if (bytes > kMaxFilledBytes) {
    wrote_sparse_ = wrote_sparse_ || tensor->is_output;
    description.data = SparseMemory(tensor->is_output) + before;
    return;
  }
  char *const data = static_cast<char *>(Allocate(static_cast<size_t>(bytes)));
  Fill(*tensor, data, static_cast<size_t>(bytes));
  description.data = data + before;
  if (reader_->OneIn(64)) description.data = nullptr;
}

namespace {

// Bytes of which a description that says struct_bytes may be read.
size_t ReadableBytes(uint32_t struct_bytes) {
  if (struct_bytes > 4096) return sizeof(MsRelayTensor);
  return std::max<size_t>(struct_bytes, sizeof(uint32_t));
}

}  // namespace

MsRelayTensor *Arguments::Place(int index) {
  if (index < 0 || tensors_[index].is_null) return nullptr;
  FuzzTensor &tensor = tensors_[index];
  PlaceData(&tensor);
  const size_t bytes = ReadableBytes(tensor.description.struct_bytes);
  char *const placed = static_cast<char *>(Allocate(bytes));
  std::memset(placed, reader_->OneIn(4) ? 1 : 0, bytes);
  std::memcpy(placed, &tensor.description, std::min(bytes, sizeof(MsRelayTensor)));
  return reinterpret_cast<MsRelayTensor *>(placed);
}

MsRelayTensorList *Arguments::PlaceList(const std::vector<int> &indices, bool is_stacked) {
  MsRelayTensorList list = {sizeof(MsRelayTensorList), is_stacked ? 1 : 0,
                            static_cast<int64_t>(indices.size()), nullptr};
  const size_t element_bytes = sizeof(MsRelayTensor);
  // Where the first one says another size, the rest still has this one: the library must see it.
  char *const elements = static_cast<char *>(Allocate(indices.size() * element_bytes));
  for (size_t i = 0; i < indices.size(); ++i) {
    FuzzTensor &tensor = tensors_[indices[i]];
    PlaceData(&tensor);
    if (tensor.description.struct_bytes > element_bytes) {
      tensor.description.struct_bytes = element_bytes - 8;
    }
    std::memcpy(elements + i * element_bytes, &tensor.description, element_bytes);
  }
  list.tensors = reinterpret_cast<MsRelayTensor *>(elements);
  switch (reader_->Below(64)) {
    case 60:
      list.struct_bytes = static_cast<uint32_t>(reader_->Below(24));
      break;
    case 61:
      list.num_tensors = reader_->Pick<int64_t>({-1, 0, INT64_MIN});
      break;
    case 62:
      list.tensors = nullptr;
      break;
    case 63:
      list.is_stacked = static_cast<int32_t>(reader_->AnyNumber());
      break;
    default:
      break;
  }
  auto *const placed = static_cast<MsRelayTensorList *>(Allocate(sizeof(list)));
  std::memcpy(placed, &list, sizeof(list));
  return placed;
}

}  // namespace mindspore_relay::testing
