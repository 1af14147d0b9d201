// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Key words of the device language, and the enumerations that the Ascend C interface is written
// with. Names and values of enumerators follow the public Ascend C documentation for Atlas A2.
#ifndef ASCENDC_PLATFORM_H_
#define ASCENDC_PLATFORM_H_

#include <cstdint>

#include "ascendc/numeric_types.h"
#include "ascendc_emulation/runtime.h"

// Address space and function qualifiers mean nothing on the host.
#define __aicore__
// Entries of a kernel module; everything else in it is hidden.
#define __global__ __attribute__((visibility("default")))
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__

#define GM_ADDR __gm__ uint8_t *

#define __NPU_ARCH__ 2201

// A kernel source is compiled twice, as on the device: once with __DAV_C220_CUBE__ and once with
// __DAV_C220_VEC__. With neither (small test kernels) the core type is asked for at run time.
#if defined(__DAV_C220_CUBE__) && defined(__DAV_C220_VEC__)
#error "define one of __DAV_C220_CUBE__ and __DAV_C220_VEC__, not both"
#endif

// Pipes. PIPE_ALL is only for PipeBarrier.
enum pipe_t {
  PIPE_S = 0,
  PIPE_V,
  PIPE_M,
  PIPE_MTE1,
  PIPE_MTE2,
  PIPE_MTE3,
  PIPE_ALL,
  PIPE_FIX = 10,
};

enum event_t {
  EVENT_ID0 = 0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7,
};

// Conversions that Fixpipe applies on the way out of L0C. Only those without scaling are emulated.
enum QuantMode_t {
  NoQuant = 0,
  F322F16 = 1,
  F322BF16 = 16,
};

namespace AscendC {

using TEventID = int8_t;

constexpr int32_t AIC = 1;
constexpr int32_t AIV = 2;

#if defined(__DAV_C220_CUBE__)
constexpr int32_t g_coreType = AIC;
#define ASCEND_IS_AIC constexpr(AscendC::g_coreType == AscendC::AIC)
#define ASCEND_IS_AIV constexpr(AscendC::g_coreType == AscendC::AIV)
#elif defined(__DAV_C220_VEC__)
constexpr int32_t g_coreType = AIV;
#define ASCEND_IS_AIC constexpr(AscendC::g_coreType == AscendC::AIC)
#define ASCEND_IS_AIV constexpr(AscendC::g_coreType == AscendC::AIV)
#else
#define ASCEND_IS_AIC (ascendc_emulation::IsCubeCore())
#define ASCEND_IS_AIV (!ascendc_emulation::IsCubeCore())
#endif

#define ASCEND_IS_NOT_AIC ASCEND_IS_AIV
#define ASCEND_IS_NOT_AIV ASCEND_IS_AIC

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX,
};
using QuePosition = TPosition;

enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  MTE2_M,
  M_MTE2,
  V_MTE1,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_FIX,
  FIX_MTE2,
  FIX_S,
  M_S,
  FIX_MTE3,
  MTE1_FIX,
  FIX_MTE1,
  FIX_FIX,
  MAX,
};

enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD,
};

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };

enum class SELMODE : uint8_t {
  VSEL_CMPMASK_SPR = 0,
  VSEL_TENSOR_SCALAR_MODE,
  VSEL_TENSOR_TENSOR_MODE,
};

enum class ReduceOrder : uint8_t {
  ORDER_VALUE_INDEX = 0,
  ORDER_INDEX_VALUE,
  ORDER_ONLY_VALUE,
  ORDER_ONLY_INDEX,
};

enum class ReduceType : uint8_t { SUM = 0, MAX, MIN };

enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };

struct FixpipeConfig {
  CO2Layout format;
  constexpr explicit FixpipeConfig(CO2Layout output_format) : format(output_format) {}
};
constexpr FixpipeConfig CFG_NZ(CO2Layout::NZ);
constexpr FixpipeConfig CFG_ROW_MAJOR(CO2Layout::ROW_MAJOR);

// Kernel types of a mixed operator. The emulation launches one cube and two vector cores per AI
// core (KERNEL_TYPE_MIX_AIC_1_2) and refuses a kernel that declares another type.
enum KernelMetaType {
  KERNEL_TYPE_AIV_ONLY,
  KERNEL_TYPE_AIC_ONLY,
  KERNEL_TYPE_MIX_AIV_1_0,
  KERNEL_TYPE_MIX_AIC_1_0,
  KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2,
};

constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr int32_t DEFAULT_C0_SIZE = 32;
constexpr uint16_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;

}  // namespace AscendC

#endif  // ASCENDC_PLATFORM_H_
