// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The test side of the emulation: build a device, hand it GM buffers, launch a kernel, read the
// report.
//
//   ascendc_emulation::Device device(4);
//   device.RegisterInput("query", query.data(), query_bytes);
//   device.RegisterOutput("output", output.data(), output_bytes);
//   uint8_t *workspace = device.AllocateWorkspace("workspace", workspace_bytes);
//   const auto report = device.Launch(kernel, query_address, ..., workspace, tiling_address);
//   // report.ok(), report.complaint, report.counters
#ifndef ASCENDC_EMULATION_DEVICE_H_
#define ASCENDC_EMULATION_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ascendc_emulation/runtime.h"

namespace ascendc_emulation {

struct DeviceConfig {
  int num_ai_cores = 1;  // one cube core and two vector cores each
  // 0: cores run in the order of their number until they block. Other values: a reproducible random
  // order, with extra switches at every cross-core flag.
  uint64_t schedule_seed = 0;
  // Bytes a kernel may use. UB of the newer kits reserves 8 KB: plan for 184 KB.
  uint32_t ub_bytes = 192 * 1024 - 256;
  uint32_t l1_bytes = 512 * 1024 - 256;
  uint32_t l0a_bytes = 64 * 1024;
  uint32_t l0b_bytes = 64 * 1024;
  uint32_t l0c_bytes = 128 * 1024;
};

// GM traffic of one buffer, in bytes; indexed by Pipe.
struct BufferTraffic {
  uint64_t read_bytes[static_cast<size_t>(Pipe::kNumPipes)] = {};
  uint64_t written_bytes[static_cast<size_t>(Pipe::kNumPipes)] = {};
  // Bytes that were read or written at least once (whole 32-byte pieces).
  uint64_t touched_bytes = 0;
  bool is_workspace = false;

  uint64_t TotalRead() const;
  uint64_t TotalWritten() const;
};

struct CoreCounters {
  bool is_cube = false;
  int ai_core = 0;
  uint64_t padded_macs = 0;  // m, n and k rounded up to 16
  uint64_t useful_macs = 0;
  uint64_t vector_elements = 0;
  uint64_t vector_repeats = 0;  // 256-byte steps of the vector unit
  uint64_t gm_read_bytes = 0;
  uint64_t gm_written_bytes = 0;
  uint64_t instructions[static_cast<size_t>(Pipe::kNumPipes)] = {};
};

// Published rates of Atlas A2 (910B2): 24 AI cores, 354 TFLOPS in half precision, 1.6 TB/s. A
// vector core handles one 256-byte repeat per cycle; the clock follows from 354e12 = 24 * 8192 *
// clock.
struct DeviceRates {
  double hbm_bytes_per_second = 1.6e12;
  double cube_flops_per_core = 354e12 / 24;
  double vector_repeats_per_second = 354e12 / 24 / 8192;
};

// A lower bound on the time of a launch: no launch can be faster, a real one is slower. It is not a
// measurement and not an estimate.
struct LowerBound {
  double hbm_us = 0;     // distinct bytes of inputs and outputs, each moved once
  double gm_us = 0;      // all GM traffic at HBM rate: what it costs if nothing hits the L2 cache
  double cube_us = 0;    // the busiest cube core
  double vector_us = 0;  // the busiest vector core
  double bound_us = 0;   // max of hbm_us, cube_us and vector_us
};

struct Counters {
  std::map<std::string, BufferTraffic> buffers;
  std::vector<CoreCounters> cores;

  uint64_t GmReadBytes() const;
  uint64_t GmWrittenBytes() const;
  uint64_t PaddedMacs() const;
  uint64_t VectorElements() const;
  LowerBound ComputeLowerBound(const DeviceRates &rates = {}) const;
  std::string ToString() const;
};

struct Report {
  // Empty when no rule was broken; else "<core>, pipe <pipe>, <instruction>: <rule>: <value>".
  std::string complaint;
  std::string rule;  // the rule's short name, e.g. "unordered access"
  Counters counters;

  bool ok() const { return complaint.empty(); }
};

// One kernel in its cube form and its vector form.
struct Kernel {
  std::function<void()> cube;
  std::function<void()> vector;
};

class Engine;

class Device {
 public:
  explicit Device(const DeviceConfig &config);
  explicit Device(int num_ai_cores, uint64_t schedule_seed = 0);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  // A buffer that kernels only read. The caller keeps the memory alive.
  void RegisterInput(const std::string &name, const void *address, uint64_t num_bytes);
  // A buffer that kernels write before they read it. Its content counts as unset when a launch
  // begins, and is NaN.
  void RegisterOutput(const std::string &name, void *address, uint64_t num_bytes);
  // Input and output at once (content set, writing allowed).
  void RegisterInOut(const std::string &name, void *address, uint64_t num_bytes);
  // Memory behind the 16 MB that the framework keeps for itself: a kernel reaches the num_bytes
  // through GetUserWorkspace(returned address); touching the part before them is an error. Unset
  // when a launch begins.
  uint8_t *AllocateWorkspace(const std::string &name, uint64_t num_bytes);
  // A dynamic input: pointers to tensors of the given shapes, in the layout of ListTensorDesc.
  uint8_t *AllocateTensorList(const std::string &name, const std::vector<const void *> &tensors,
                              const std::vector<std::vector<uint64_t>> &shapes);

  Report Launch(const Kernel &kernel);

  // For kernels whose two forms are functions of GM addresses.
  template <typename Function, typename... Args>
  Report Launch(Function *cube, Function *vector, Args... args) {
    return Launch(Kernel{[=] { cube(args...); }, [=] { vector(args...); }});
  }

  // Bytes of a registered buffer that the last launch has not written (0 for inputs).
  uint64_t UnsetBytes(const std::string &name) const;

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_DEVICE_H_
