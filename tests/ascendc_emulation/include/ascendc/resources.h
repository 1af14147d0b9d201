// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// TPipe and TBuf: who owns which part of local memory. Buffers are laid out in the order of
// InitBuffer; running out of a memory ends the launch.
#ifndef ASCENDC_RESOURCES_H_
#define ASCENDC_RESOURCES_H_

#include <exception>

#include "ascendc/events.h"
#include "ascendc/tensor.h"

namespace AscendC {

template <TPosition position>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() {
    return Get<T>(static_cast<uint32_t>((ref_.end - ref_.begin) / sizeof(T)));
  }

  template <typename T>
  LocalTensor<T> Get(uint32_t num_elements) {
    return GetWithOffset<T>(num_elements, 0);
  }

  // offset_bytes from the begin of the buffer.
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t num_elements, uint32_t offset_bytes) {
    const uint64_t end = uint64_t{offset_bytes} + uint64_t{num_elements} * sizeof(T);
    if (ref_.memory == ascendc_emulation::Memory::kNone) {
      ascendc_emulation::FailRule("buffer", "TBuf::Get before TPipe::InitBuffer");
    }
    if (end > ref_.end - ref_.begin) {
      ascendc_emulation::FailRule("out of range", "TBuf::Get of [%u, %llu) in a buffer of %u bytes",
                                  offset_bytes, static_cast<unsigned long long>(end),
                                  ref_.end - ref_.begin);
    }
    ascendc_emulation::LocalRef part = ref_;
    part.begin += offset_bytes;
    part.end = part.begin + num_elements * static_cast<uint32_t>(sizeof(T));
    return LocalTensor<T>(position, part, num_elements);
  }

  uint32_t GetBufLen() const { return ref_.end - ref_.begin; }

 private:
  friend class TPipe;
  ascendc_emulation::LocalRef ref_;
};

class TPipe {
 public:
  // On a cube core the device's constructor takes M_MTE1 events 0, 1 and 2 and sets them; Destroy
  // (or the destructor) waits for them. A kernel that uses these ids by hand must know that.
  TPipe() { Init(); }
  ~TPipe() noexcept(false) {
    const bool is_unwinding =
        std::uncaught_exceptions() != 0 || ascendc_emulation::IsLaunchEnding();
    if (!is_destroyed_ && !is_unwinding) Destroy();
  }
  TPipe(const TPipe &) = delete;
  TPipe &operator=(const TPipe &) = delete;

  void Init() {
    ascendc_emulation::ResetLocalReservations();
    is_destroyed_ = false;
    if (!ascendc_emulation::IsCubeCore()) return;
    for (int id = 0; id < kReservedMatrixEvents; ++id) {
      SetFlag<HardEvent::M_MTE1>(AllocEventID<HardEvent::M_MTE1>());
    }
  }

  void Destroy() {
    if (ascendc_emulation::IsCubeCore()) {
      for (int id = 0; id < kReservedMatrixEvents; ++id) {
        WaitFlag<HardEvent::M_MTE1>(id);
        ReleaseEventID<HardEvent::M_MTE1>(static_cast<TEventID>(id));
      }
    }
    is_destroyed_ = true;
    PipeBarrier<PIPE_ALL>();
  }

  void Reset() { ascendc_emulation::ResetLocalReservations(); }

  // num_bytes is rounded up to 32.
  template <TPosition position>
  bool InitBuffer(TBuf<position> &buffer, uint32_t num_bytes) {
    constexpr ascendc_emulation::Memory kMemory = MemoryOf(position);
    static_assert(kMemory != ascendc_emulation::Memory::kNone, "position without local memory");
    const uint32_t rounded = (num_bytes + 31u) / 32u * 32u;
    const uint32_t begin = ascendc_emulation::ReserveLocal(kMemory, rounded);
    buffer.ref_ = {kMemory, ascendc_emulation::DType::kUint8, begin, begin + rounded};
    return true;
  }

  template <HardEvent event>
  TEventID AllocEventID() {
    return ascendc_emulation::AllocateEventId(EventSource(event), EventTarget(event));
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id) {
    ascendc_emulation::ReleaseEventId(EventSource(event), EventTarget(event), id);
  }

 private:
  static constexpr int kReservedMatrixEvents = 3;
  bool is_destroyed_ = false;
};

}  // namespace AscendC

#endif  // ASCENDC_RESOURCES_H_
