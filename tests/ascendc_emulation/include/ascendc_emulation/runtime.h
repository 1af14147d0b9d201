// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The boundary between the Ascend C headers (templates, compiled into each kernel) and the engine
// (one library). Every function here acts on the core whose fibre is running. Offsets, lengths and
// strides are in the units of the Ascend C call that they come from unless a name says otherwise.
//
// A rule that is broken ends the launch: the function does not return and the launch's report
// carries one message with core, pipe, instruction, rule and value.
#ifndef ASCENDC_EMULATION_RUNTIME_H_
#define ASCENDC_EMULATION_RUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace ascendc_emulation {

enum class Memory : uint8_t { kUb, kL1, kL0a, kL0b, kL0c, kNumMemories, kNone = kNumMemories };

enum class Pipe : uint8_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kNumPipes };

enum class DType : uint8_t {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kBFloat16,
  kFloat,
};

uint32_t DTypeBytes(DType dtype);

// A piece of local memory: byte offsets in that memory; [begin, end) is what the tensor may touch,
// end being the end of the buffer that it was taken from.
struct LocalRef {
  Memory memory = Memory::kNone;
  DType dtype = DType::kFloat;
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct GmRef {
  uint8_t *address = nullptr;
  DType dtype = DType::kFloat;
};

// ---- core identity ----
bool IsCubeCore();
int64_t BlockIndex();     // cube core: AI core; vector core: AI core * 2 + sub-block
int64_t BlockCount();     // AI cores of the launch
int64_t SubBlockIndex();  // 0 on cube cores, 0 or 1 on vector cores
int64_t VectorCoresPerCubeCore();
void DeclareKernelType(int kernel_type, const char *name);
uint8_t *UserWorkspace(uint8_t *workspace);

// ---- scalar access ----
void ScalarReadGm(const void *address, void *value, uint32_t bytes);
void ScalarWriteGm(void *address, const void *value, uint32_t bytes);
void ScalarReadLocal(const LocalRef &source, uint32_t offset_bytes, void *value, uint32_t bytes);
void ScalarWriteLocal(const LocalRef &target, uint32_t offset_bytes, const void *value,
                      uint32_t bytes);
void CleanAndInvalidateCache(const void *address, bool entire_cache);
[[noreturn]] void FailFieldRange(int64_t value, int64_t bits, bool is_signed);
[[noreturn]] void FailRule(const char *rule, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ---- local memory ----
// Reserves bytes at the end of what the core has reserved so far. Returns the byte offset.
uint32_t ReserveLocal(Memory memory, uint32_t bytes);
uint32_t LocalCapacity(Memory memory);
void ResetLocalReservations();
// True while the fibres of a failed launch unwind: destructors then leave the core alone.
bool IsLaunchEnding();

// ---- synchronisation; pipes and events by the numbers of pipe_t and HardEvent ----
void SetEvent(Pipe source, Pipe target, int64_t event_id);
void WaitEvent(Pipe source, Pipe target, int64_t event_id);
int8_t AllocateEventId(Pipe source, Pipe target);
void ReleaseEventId(Pipe source, Pipe target, int64_t event_id);
void Barrier(Pipe pipe);
void BarrierAll();
void CrossCoreSet(int mode, Pipe pipe, int64_t flag_id);
void CrossCoreWait(int64_t flag_id);
void SynchroniseAllCores(bool vector_cores_only);

// ---- data movement ----
struct BlockCopy {
  int64_t block_count = 1;
  int64_t block_bytes = 0;
  int64_t source_gap_bytes = 0;  // end of a block to the begin of the next one
  int64_t target_gap_bytes = 0;
};

// What the unused bytes of a block's last 32 bytes become (DataCopyPad, GM -> UB).
struct BlockPadding {
  bool has_value = false;
  int64_t left_elements = 0;
  int64_t right_elements = 0;
  uint64_t value_bits = 0;
};

struct NdToNz {
  int64_t num_matrices = 0, num_rows = 0, num_columns = 0;
  int64_t source_matrix_stride = 0, source_row_stride = 0;        // elements
  int64_t target_column_block_stride = 0, target_row_stride = 0;  // 32-byte units
  int64_t target_matrix_stride = 0;                               // elements
};

void CopyGmToLocal(const char *name, const LocalRef &target, const GmRef &source,
                   const BlockCopy &copy, const BlockPadding *padding);
void CopyLocalToGm(const char *name, const GmRef &target, const LocalRef &source,
                   const BlockCopy &copy);
void CopyLocalToLocal(const char *name, const LocalRef &target, const LocalRef &source,
                      const BlockCopy &copy);
void CopyNdToNz(const LocalRef &target, const GmRef &source, const NdToNz &copy);

enum class AtomicMode : uint8_t { kNone, kAdd, kMax, kMin };
void SetAtomic(AtomicMode mode, DType dtype);

// ---- cube unit ----
struct FractalLoad {
  int64_t start_index = 0, repeat_times = 0, source_stride = 0, target_gap = 0;  // 512 bytes
  bool is_transposed = false;
  bool is_address_decreasing = false;
};
void LoadFractals(const char *name, const LocalRef &target, const LocalRef &source,
                  const FractalLoad &load);

struct MatrixMultiply {
  int64_t m = 0, n = 0, k = 0;
  bool clear_target = true;
  bool has_unsupported_option = false;
};
void MultiplyMatrices(const LocalRef &target, const LocalRef &left, const LocalRef &right,
                      const MatrixMultiply &multiply);

void FillConstant(const LocalRef &target, int64_t repeat_times, int64_t block_count,
                  int64_t target_gap, uint64_t value_bits);

enum class MatrixConversion : uint8_t { kNone, kToHalf, kToBFloat16, kUnsupported };
struct MatrixStore {
  int64_t num_columns = 0, num_rows = 0;
  int64_t source_stride = 0;  // 64-byte units (one row of a fractal)
  int64_t target_stride = 0;  // elements
  int64_t num_matrices = 1, source_matrix_stride = 0, target_matrix_stride = 0;
  MatrixConversion conversion = MatrixConversion::kNone;
  bool apply_relu = false;
  bool has_unsupported_option = false;
};
void StoreMatrixToGm(const GmRef &target, const LocalRef &source, const MatrixStore &store);

// ---- vector unit ----
struct VectorOperand {
  LocalRef ref;
  int64_t block_stride = 1;   // 32-byte units, between the blocks of one repeat
  int64_t repeat_stride = 8;  // 32-byte units, between repeats
};

// Which elements of each repeat take part.
struct VectorMask {
  enum class Kind : uint8_t {
    kCount,       // the first bits[0] elements of the whole operand; repeats follow from it
    kContiguous,  // the first bits[0] elements of every repeat (normal mode)
    kBits,        // one bit for each element of a repeat (normal mode)
    kRegister,    // what SetVectorMask left in the mask register
  };
  Kind kind = Kind::kCount;
  uint64_t bits[2] = {0, 0};
};

void SetSaturation(bool is_saturating);
void SetMaskMode(bool is_counter_mode);
void SetMaskRegister(uint64_t high, uint64_t low);

enum class VectorOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kAnd,
  kOr,
  kMulAddDst,
  kAdds,
  kMuls,
  kMaxs,
  kMins,
  kLeakyRelu,
  kAxpy,
  kShiftLeft,
  kShiftRight,
  kExp,
  kLn,
  kAbs,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kRelu,
  kNot,
  kCopy,
  kDuplicate,
};

// Scalar operands of any type, kept exactly.
struct ScalarValue {
  double real = 0.0;
  int64_t integer = 0;
};

void VectorBinary(const char *name, VectorOp op, const VectorOperand &target,
                  const VectorOperand &left, const VectorOperand &right, const VectorMask &mask,
                  int64_t repeat_times);
// Operations with one tensor source; value is the scalar operand where there is one.
void VectorUnary(const char *name, VectorOp op, const VectorOperand &target,
                 const VectorOperand &source, ScalarValue value, const VectorMask &mask,
                 int64_t repeat_times);
void VectorDuplicate(const VectorOperand &target, uint64_t value_bits, const VectorMask &mask,
                     int64_t repeat_times);
void VectorCreateIndex(const VectorOperand &target, ScalarValue first, const VectorMask &mask,
                       int64_t repeat_times);
void VectorCast(const VectorOperand &target, const VectorOperand &source, int round_mode,
                const VectorMask &mask, int64_t repeat_times);

// comparison: the value of CMPMODE. right is a tensor, or nullptr for the scalar form.
void VectorCompare(const char *name, const LocalRef &target, const VectorOperand &left,
                   const VectorOperand *right, ScalarValue scalar, int comparison,
                   const VectorMask &mask, int64_t repeat_times);
// select_mode: the value of SELMODE. right is nullptr for the scalar form.
void VectorSelect(const VectorOperand &target, const LocalRef &select_mask,
                  const VectorOperand &left, const VectorOperand *right, ScalarValue scalar,
                  int select_mode, const VectorMask &mask, int64_t repeat_times);

enum class Reduction : uint8_t { kSum, kMax, kMin };
enum class ReductionOrder : uint8_t { kValueIndex, kIndexValue, kOnlyValue, kOnlyIndex };
// One result for each repeat.
void VectorReduceRepeat(const char *name, Reduction reduction, ReductionOrder order,
                        const LocalRef &target, int64_t target_repeat_stride,
                        const VectorOperand &source, const VectorMask &mask, int64_t repeat_times);
// One result for each 32-byte block.
void VectorReduceBlock(const char *name, Reduction reduction, const LocalRef &target,
                       int64_t target_repeat_stride, const VectorOperand &source,
                       const VectorMask &mask, int64_t repeat_times);
void VectorBroadcastBlocks(const VectorOperand &target, const LocalRef &source,
                           int64_t repeat_times);
void VectorGather(const LocalRef &target, const LocalRef &source, const LocalRef &offsets,
                  int64_t base_offset_bytes, int64_t count);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_RUNTIME_H_
