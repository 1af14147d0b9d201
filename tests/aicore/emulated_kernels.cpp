// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The kernels under the emulation, as C functions for Python's ctypes (emulated_device.py): plan on
// the host, launch, report.
//
// Each function returns 0 if the kernel ran without a complaint, 1 if the plan refused the problem,
// 2 if the emulation complained; `text` then holds the message. After a run without a complaint it
// holds the counters as JSON.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ascendc_emulation/device.h"
#include "ascendc_emulation/kernel_module.h"
#include "plan_items.h"
#include "prefix_encoder/op_host/prefix_encoder_tiling_core.h"
#include "relay_attention/op_host/relay_attention_tiling_core.h"

namespace mindspore_relay::aicore {
namespace {

using ascendc_emulation::BufferTraffic;
using ascendc_emulation::CoreCounters;
using ascendc_emulation::Counters;
using ascendc_emulation::Device;
using ascendc_emulation::DeviceConfig;
using ascendc_emulation::KernelModule;
using ascendc_emulation::LowerBound;
using ascendc_emulation::Report;
using Address = uint8_t *;

enum ResultCode : int32_t { kOk = 0, kRefused = 1, kComplaint = 2 };

}  // namespace

extern "C" {

// Mirrored by ctypes structures in emulated_device.py.
struct EmulatedBuffer {
  const void *data;  // NULL: absent
  int64_t num_bytes;
  int32_t rank;
  int64_t dims[4];
};

// One of key, value, key_share, value_share.
struct EmulatedKv {
  int32_t num_tensors;
  const EmulatedBuffer *tensors;
};

struct EmulatedRun {
  int32_t num_ai_cores;
  uint64_t schedule_seed;
  const char *cube_module;    // shared library of the kernel's cube form
  const char *vector_module;  // and of its vector form
  char *text;
  int64_t text_bytes;
};

struct EmulatedRelayAttention {
  int64_t num_groups, head_num, kv_head_num, mask_type;
  float qk_scale;
  EmulatedBuffer query;
  EmulatedKv key, value, key_share, value_share;
  EmulatedBuffer block_tables, share_block_tables;
  const int64_t *seq_len, *kv_seq_len, *kv_share_map, *kv_share_len;
  EmulatedBuffer output, lse;
};

struct EmulatedPrefixEncoder {
  int64_t batch_size, head_num, kv_head_num, mask_type;
  float qk_scale;
  EmulatedBuffer query, key, value, block_tables, mask, slopes;
  const int64_t *seq_len, *kv_seq_len;
  EmulatedBuffer output, lse;
};
}

namespace {

void SetText(const EmulatedRun &run, const std::string &text) {
  const auto room = static_cast<size_t>(run.text_bytes - 1);
  const size_t num_bytes = std::min(room, text.size());
  std::memcpy(run.text, text.data(), num_bytes);
  run.text[num_bytes] = '\0';
}

Address AddInput(Device *device, const char *name, const EmulatedBuffer &buffer) {
  if (buffer.data == nullptr) return nullptr;
  device->RegisterInput(name, buffer.data, static_cast<uint64_t>(buffer.num_bytes));
  return static_cast<Address>(const_cast<void *>(buffer.data));
}

Address AddOutput(Device *device, const char *name, const EmulatedBuffer &buffer) {
  if (buffer.data == nullptr) return nullptr;
  auto *address = static_cast<Address>(const_cast<void *>(buffer.data));
  device->RegisterOutput(name, address, static_cast<uint64_t>(buffer.num_bytes));
  return address;
}

Address AddInts(Device *device, const char *name, const int64_t *values, int64_t count) {
  return AddInput(device, name,
                  {values, count * static_cast<int64_t>(sizeof(int64_t)), 1, {count}});
}

Dims DimsOf(const EmulatedBuffer &buffer) {
  if (buffer.data == nullptr) return {};
  return Dims(buffer.dims, buffer.dims + buffer.rank);
}

std::vector<Dims> DimsOf(const EmulatedKv &kv) {
  std::vector<Dims> dims;
  for (int32_t i = 0; i < kv.num_tensors; ++i) dims.push_back(DimsOf(kv.tensors[i]));
  return dims;
}

// A dynamic input.
Address AddList(Device *device, const std::string &name, const EmulatedKv &kv) {
  if (kv.num_tensors == 0) return nullptr;
  std::vector<const void *> tensors;
  std::vector<std::vector<uint64_t>> shapes;
  for (int32_t i = 0; i < kv.num_tensors; ++i) {
    const EmulatedBuffer &tensor = kv.tensors[i];
    device->RegisterInput(name + "[" + std::to_string(i) + "]", tensor.data,
                          static_cast<uint64_t>(tensor.num_bytes));
    tensors.push_back(tensor.data);
    shapes.emplace_back(tensor.dims, tensor.dims + tensor.rank);
  }
  return device->AllocateTensorList(name, tensors, shapes);
}

std::string ToJson(const Counters &counters, int32_t num_cores, double plan_imbalance) {
  std::string buffers;
  for (const auto &[name, traffic] : counters.buffers) {
    buffers += (buffers.empty() ? "" : ", ") + ("\"" + name) +
               "\": {\"read\": " + std::to_string(traffic.TotalRead()) +
               ", \"written\": " + std::to_string(traffic.TotalWritten()) +
               ", \"is_workspace\": " + (traffic.is_workspace ? "true" : "false") + "}";
  }
  std::string cores;
  for (const CoreCounters &core : counters.cores) {
    cores += (cores.empty() ? "" : ", ") + std::string("{\"is_cube\": ") +
             (core.is_cube ? "true" : "false") + ", \"macs\": " + std::to_string(core.padded_macs) +
             ", \"vector_repeats\": " + std::to_string(core.vector_repeats) +
             ", \"vector_elements\": " + std::to_string(core.vector_elements) +
             ", \"gm_bytes\": " + std::to_string(core.gm_read_bytes + core.gm_written_bytes) + "}";
  }
  const LowerBound bound = counters.ComputeLowerBound();
  return "{\"num_cores\": " + std::to_string(num_cores) +
         ", \"plan_imbalance\": " + std::to_string(plan_imbalance) + ", \"buffers\": {" + buffers +
         "}, \"cores\": [" + cores + "], \"bound\": {\"hbm_us\": " + std::to_string(bound.hbm_us) +
         ", \"gm_us\": " + std::to_string(bound.gm_us) +
         ", \"cube_us\": " + std::to_string(bound.cube_us) +
         ", \"vector_us\": " + std::to_string(bound.vector_us) +
         ", \"bound_us\": " + std::to_string(bound.bound_us) + "}}";
}

// Checks what must hold after every launch and writes the text.
int32_t Finish(const EmulatedRun &run, const Device &device, const Report &report, bool has_lse,
               int32_t num_cores, double plan_imbalance) {
  std::string complaint = report.complaint;
  for (const char *name : {"output", "lse"}) {
    if (!complaint.empty() || (!has_lse && std::strcmp(name, "lse") == 0)) continue;
    const uint64_t unset = device.UnsetBytes(name);
    if (unset != 0)
      complaint = std::string(name) + " has " + std::to_string(unset) + " unset bytes";
  }
  SetText(run, complaint.empty() ? ToJson(report.counters, num_cores, plan_imbalance) : complaint);
  return complaint.empty() ? kOk : kComplaint;
}

DeviceConfig ConfigOf(const EmulatedRun &run, int32_t num_cores) {
  DeviceConfig config;
  config.num_ai_cores = num_cores;
  config.schedule_seed = run.schedule_seed;
  config.ub_bytes = kUbBytes;
  return config;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int32_t
EmulateRelayAttention(const EmulatedRelayAttention *args, const EmulatedRun *run) {
  RelayAttentionShape shape;
  shape.query = DimsOf(args->query);
  shape.key = DimsOf(args->key);
  shape.value = DimsOf(args->value);
  shape.key_share = DimsOf(args->key_share);
  shape.value_share = DimsOf(args->value_share);
  shape.block_tables = DimsOf(args->block_tables);
  shape.share_block_tables = DimsOf(args->share_block_tables);
  shape.num_groups = args->num_groups;
  shape.head_num = args->head_num;
  shape.kv_head_num = args->kv_head_num;
  shape.mask_type = args->mask_type;
  shape.qk_scale = args->qk_scale;
  shape.seq_len = args->seq_len;
  shape.kv_seq_len = args->kv_seq_len;
  shape.kv_share_map = args->kv_share_map;
  shape.kv_share_len = args->kv_share_len;

  RelayAttentionTiling tiling;
  int64_t workspace_bytes = 0;
  std::string error;
  if (!ComputeRelayAttentionTiling(shape, {run->num_ai_cores, 0}, &tiling, &workspace_bytes,
                                   &error)) {
    SetText(*run, error);
    return kRefused;
  }
  Device device(ConfigOf(*run, tiling.attention.num_cores));
  device.RegisterInput("tiling", &tiling, sizeof(tiling));
  Address query = AddInput(&device, "query", args->query);
  Address key = AddList(&device, "key", args->key);
  Address value = AddList(&device, "value", args->value);
  Address key_share = AddList(&device, "key_share", args->key_share);
  Address value_share = AddList(&device, "value_share", args->value_share);
  Address block_tables = AddInput(&device, "block_tables", args->block_tables);
  Address share_block_tables = AddInput(&device, "share_block_tables", args->share_block_tables);
  const int64_t batch_size = shape.query[0];
  Address seq_len = AddInts(&device, "seq_len", args->seq_len, batch_size);
  Address kv_seq_len = AddInts(&device, "kv_seq_len", args->kv_seq_len, batch_size);
  Address kv_share_map = AddInts(&device, "kv_share_map", args->kv_share_map, batch_size);
  Address kv_share_len = AddInts(&device, "kv_share_len", args->kv_share_len, args->num_groups);
  Address output = AddOutput(&device, "output", args->output);
  Address lse = AddOutput(&device, "lse", args->lse);
  Address workspace = device.AllocateWorkspace("workspace", static_cast<uint64_t>(workspace_bytes));

  using Entry = void(Address, Address, Address, Address, Address, Address, Address, Address,
                     Address, Address, Address, Address, Address, Address, Address, Address);
  const KernelModule cube(run->cube_module);
  const KernelModule vector(run->vector_module);
  const Report report =
      device.Launch(cube.Entry<Entry>("relay_attention"), vector.Entry<Entry>("relay_attention"),
                    query, key, value, key_share, value_share, Address{nullptr}, block_tables,
                    share_block_tables, seq_len, kv_seq_len, kv_share_map, kv_share_len, output,
                    lse, workspace, reinterpret_cast<Address>(&tiling));
  RelayProblem<const int64_t *> problem;
  problem.Init(&tiling, args->kv_seq_len, args->kv_share_map, args->kv_share_len);
  return Finish(*run, device, report, lse != nullptr, tiling.attention.num_cores,
                Imbalance(&problem, tiling.attention));
}

__attribute__((visibility("default"))) int32_t
EmulatePrefixEncoder(const EmulatedPrefixEncoder *args, const EmulatedRun *run) {
  PrefixEncoderShape shape;
  shape.query = DimsOf(args->query);
  shape.key = DimsOf(args->key);
  shape.value = DimsOf(args->value);
  shape.block_tables = DimsOf(args->block_tables);
  shape.mask = DimsOf(args->mask);
  shape.slopes = DimsOf(args->slopes);
  shape.batch_size = args->batch_size;
  shape.head_num = args->head_num;
  shape.kv_head_num = args->kv_head_num;
  shape.mask_type = args->mask_type;
  shape.qk_scale = args->qk_scale;
  shape.seq_len = args->seq_len;
  shape.kv_seq_len = args->kv_seq_len;

  PrefixEncoderTiling tiling;
  int64_t workspace_bytes = 0;
  std::string error;
  if (!ComputePrefixEncoderTiling(shape, {run->num_ai_cores, 0}, &tiling, &workspace_bytes,
                                  &error)) {
    SetText(*run, error);
    return kRefused;
  }
  Device device(ConfigOf(*run, tiling.attention.num_cores));
  device.RegisterInput("tiling", &tiling, sizeof(tiling));
  Address query = AddInput(&device, "query", args->query);
  Address key = AddInput(&device, "key", args->key);
  Address value = AddInput(&device, "value", args->value);
  Address block_tables = AddInput(&device, "block_tables", args->block_tables);
  Address mask = AddInput(&device, "mask", args->mask);
  Address slopes = AddInput(&device, "slopes", args->slopes);
  Address seq_len = AddInts(&device, "seq_len", args->seq_len, args->batch_size);
  Address kv_seq_len = AddInts(&device, "kv_seq_len", args->kv_seq_len, args->batch_size);
  Address output = AddOutput(&device, "output", args->output);
  Address lse = AddOutput(&device, "lse", args->lse);
  Address workspace = device.AllocateWorkspace("workspace", static_cast<uint64_t>(workspace_bytes));

  using Entry = void(Address, Address, Address, Address, Address, Address, Address, Address,
                     Address, Address, Address, Address);
  const KernelModule cube(run->cube_module);
  const KernelModule vector(run->vector_module);
  const Report report =
      device.Launch(cube.Entry<Entry>("prefix_encoder"), vector.Entry<Entry>("prefix_encoder"),
                    query, key, value, block_tables, mask, slopes, seq_len, kv_seq_len, output, lse,
                    workspace, reinterpret_cast<Address>(&tiling));
  PrefixProblem<const int64_t *> problem;
  problem.Init(&tiling, args->seq_len, args->kv_seq_len);
  return Finish(*run, device, report, lse != nullptr, tiling.attention.num_cores,
                Imbalance(&problem, tiling.attention));
}
}

}  // namespace mindspore_relay::aicore
