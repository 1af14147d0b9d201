// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "ascendc_emulation/device.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "engine.h"

namespace ascendc_emulation {

namespace {

constexpr uint64_t kSystemWorkspaceBytes = 16 * 1024 * 1024;
constexpr double kMicroseconds = 1e6;

uint64_t Sum(const uint64_t (&values)[static_cast<size_t>(Pipe::kNumPipes)]) {
  uint64_t sum = 0;
  for (const uint64_t value : values) sum += value;
  return sum;
}

}  // namespace

uint64_t BufferTraffic::TotalRead() const { return Sum(read_bytes); }
uint64_t BufferTraffic::TotalWritten() const { return Sum(written_bytes); }

uint64_t Counters::GmReadBytes() const {
  uint64_t sum = 0;
  for (const auto &[name, traffic] : buffers) sum += traffic.TotalRead();
  return sum;
}

uint64_t Counters::GmWrittenBytes() const {
  uint64_t sum = 0;
  for (const auto &[name, traffic] : buffers) sum += traffic.TotalWritten();
  return sum;
}

uint64_t Counters::PaddedMacs() const {
  uint64_t sum = 0;
  for (const CoreCounters &core : cores) sum += core.padded_macs;
  return sum;
}

uint64_t Counters::VectorElements() const {
  uint64_t sum = 0;
  for (const CoreCounters &core : cores) sum += core.vector_elements;
  return sum;
}

LowerBound Counters::ComputeLowerBound(const DeviceRates &rates) const {
  LowerBound bound;
  uint64_t distinct_bytes = 0;
  for (const auto &[name, traffic] : buffers) {
    if (!traffic.is_workspace) distinct_bytes += traffic.touched_bytes;
  }
  uint64_t busiest_macs = 0;
  uint64_t busiest_repeats = 0;
  for (const CoreCounters &core : cores) {
    busiest_macs = std::max(busiest_macs, core.padded_macs);
    busiest_repeats = std::max(busiest_repeats, core.vector_repeats);
  }
  bound.hbm_us = static_cast<double>(distinct_bytes) / rates.hbm_bytes_per_second * kMicroseconds;
  bound.gm_us = static_cast<double>(GmReadBytes() + GmWrittenBytes()) / rates.hbm_bytes_per_second *
                kMicroseconds;
  bound.cube_us =
      2.0 * static_cast<double>(busiest_macs) / rates.cube_flops_per_core * kMicroseconds;
  bound.vector_us =
      static_cast<double>(busiest_repeats) / rates.vector_repeats_per_second * kMicroseconds;
  bound.bound_us = std::max({bound.hbm_us, bound.cube_us, bound.vector_us});
  return bound;
}

std::string Counters::ToString() const {
  std::string text =
      Format("%-24s %14s %14s %14s\n", "GM buffer", "read bytes", "written bytes", "touched bytes");
  for (const auto &[name, traffic] : buffers) {
    text += Format("%-24s %14llu %14llu %14llu\n", name.c_str(),
                   static_cast<unsigned long long>(traffic.TotalRead()),
                   static_cast<unsigned long long>(traffic.TotalWritten()),
                   static_cast<unsigned long long>(traffic.touched_bytes));
  }
  text += Format("GM bytes by pipe (read, written):");
  for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
    uint64_t read = 0;
    uint64_t written = 0;
    for (const auto &[name, traffic] : buffers) {
      read += traffic.read_bytes[pipe];
      written += traffic.written_bytes[pipe];
    }
    if (read + written == 0) continue;
    text += Format(" %s %llu, %llu;", PipeName(static_cast<Pipe>(pipe)),
                   static_cast<unsigned long long>(read), static_cast<unsigned long long>(written));
  }
  const LowerBound bound = ComputeLowerBound();
  text += Format("\npadded MACs %llu, vector elements %llu\n",
                 static_cast<unsigned long long>(PaddedMacs()),
                 static_cast<unsigned long long>(VectorElements()));
  text += Format(
      "lower bound %.2f us (HBM %.2f, cube %.2f, vector %.2f; all GM traffic at HBM rate "
      "%.2f)\n",
      bound.bound_us, bound.hbm_us, bound.cube_us, bound.vector_us, bound.gm_us);
  return text;
}

Device::Device(const DeviceConfig &config) : engine_(std::make_unique<Engine>(config)) {
  if (config.num_ai_cores < 1) throw std::invalid_argument("Device: num_ai_cores must be positive");
}
Device::Device(int num_ai_cores, uint64_t schedule_seed)
    : Device([&] {
        DeviceConfig config;
        config.num_ai_cores = num_ai_cores;
        config.schedule_seed = schedule_seed;
        return config;
      }()) {}
Device::~Device() = default;

void Device::RegisterInput(const std::string &name, const void *address, uint64_t num_bytes) {
  // The role keeps kernels from writing through this pointer.
  engine_->gm().Add(name, static_cast<uint8_t *>(const_cast<void *>(address)), num_bytes,
                    GmBuffer::Role::kInput);
}

void Device::RegisterOutput(const std::string &name, void *address, uint64_t num_bytes) {
  engine_->gm().Add(name, static_cast<uint8_t *>(address), num_bytes, GmBuffer::Role::kOutput);
  // NaN in every floating-point type: a byte that no kernel writes does not look like a result.
  std::memset(address, 0xff, num_bytes);
}

void Device::RegisterInOut(const std::string &name, void *address, uint64_t num_bytes) {
  engine_->gm().Add(name, static_cast<uint8_t *>(address), num_bytes, GmBuffer::Role::kInOut);
}

uint8_t *Device::AllocateWorkspace(const std::string &name, uint64_t num_bytes) {
  uint8_t *address = engine_->gm().Allocate(kSystemWorkspaceBytes + num_bytes);
  engine_->gm().Add(name, address + kSystemWorkspaceBytes, num_bytes, GmBuffer::Role::kWorkspace);
  return address;
}

uint8_t *Device::AllocateTensorList(const std::string &name,
                                    const std::vector<const void *> &tensors,
                                    const std::vector<std::vector<uint64_t>> &shapes) {
  if (tensors.size() != shapes.size() || tensors.empty()) {
    throw std::invalid_argument("Device: a tensor list has one shape for each of its tensors");
  }
  std::vector<uint64_t> words(1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t high = i == 0 ? tensors.size() : i;
    words.push_back(high << 32 | shapes[i].size());
    words.insert(words.end(), shapes[i].begin(), shapes[i].end());
  }
  words[0] = words.size() * sizeof(uint64_t);
  for (const void *tensor : tensors) words.push_back(reinterpret_cast<uint64_t>(tensor));
  const uint64_t num_bytes = words.size() * sizeof(uint64_t);
  uint8_t *address = engine_->gm().Allocate(num_bytes);
  std::memcpy(address, words.data(), num_bytes);
  engine_->gm().Add(name, address, num_bytes, GmBuffer::Role::kInput);
  return address;
}

Report Device::Launch(const Kernel &kernel) { return engine_->Launch(kernel); }

uint64_t Device::UnsetBytes(const std::string &name) const {
  GmBuffer *buffer = engine_->gm().FindByName(name);
  if (buffer == nullptr) throw std::invalid_argument("Device: no buffer '" + name + "'");
  return buffer->CountUnset();
}

}  // namespace ascendc_emulation
