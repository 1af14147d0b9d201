// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Who am I, scalar cache control, workspace, kernel type and tiling data.
#ifndef ASCENDC_SYSTEM_H_
#define ASCENDC_SYSTEM_H_

#include "ascendc/tensor.h"

namespace AscendC {

inline int64_t GetBlockIdx() { return ascendc_emulation::BlockIndex(); }
inline int64_t GetBlockNum() { return ascendc_emulation::BlockCount(); }
inline int64_t GetSubBlockIdx() { return ascendc_emulation::SubBlockIndex(); }
inline int64_t GetSubBlockNum() { return ascendc_emulation::VectorCoresPerCubeCore(); }
// Vector cores for each launched block: 2 on vector cores, 1 on cube cores.
inline int64_t GetTaskRation() {
  return ascendc_emulation::IsCubeCore() ? 1 : ascendc_emulation::VectorCoresPerCubeCore();
}
inline int64_t GetTaskRatio() { return GetTaskRation(); }

inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) {
  return ascendc_emulation::UserWorkspace(workspace);
}
inline void SetSysWorkspace(GM_ADDR) {}

template <typename T, CacheLine line, DcciDst destination>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &target) {
  ascendc_emulation::CleanAndInvalidateCache(target.Ref().address,
                                             line == CacheLine::ENTIRE_DATA_CACHE);
}
template <typename T, CacheLine line>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &target) {
  DataCacheCleanAndInvalid<T, line, DcciDst::CACHELINE_OUT>(target);
}

inline void ICachePreLoad(int64_t) {}

class AscendCUtils {
 public:
  // 1: infinity and NaN stay; 0, the state at the start: they become the largest number and 0 in
  // results of Mmad and in results of 16 bits.
  static void SetOverflow(uint64_t keeps_infinity_and_nan) {
    ascendc_emulation::SetSaturation(keeps_infinity_and_nan != 1);
  }
};

}  // namespace AscendC

namespace ascendc_emulation {
// Copies a tiling struct out of GM as the scalar unit does.
template <typename Tiling>
Tiling ReadTiling(const void *address) {
  Tiling tiling;
  ScalarReadGm(address, &tiling, sizeof(tiling));
  return tiling;
}
}  // namespace ascendc_emulation

#define KERNEL_TASK_TYPE_DEFAULT(type) ascendc_emulation::DeclareKernelType(AscendC::type, #type)
#define REGISTER_TILING_DEFAULT(type) static_assert(sizeof(type) > 0, "tiling struct")
#define GET_TILING_DATA_WITH_STRUCT(type, name, address) \
  const type name = ascendc_emulation::ReadTiling<type>(address)

#endif  // ASCENDC_SYSTEM_H_
