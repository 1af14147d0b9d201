// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Calls the callback that MindSpore has built for a device operator, as MindSpore would, and checks
// every argument that arrives.
//   call_callback LIBRARY relay_attention|prefix_encoder

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "aclnn_prefix_encoder.h"
#include "aclnn_relay_attention.h"

namespace {

// Addresses that stand for tensors, lists and int arrays: input i is &places[i], output i is
// &places[kOutputs + i].
constexpr int kOutputs = 20;
char places[kOutputs + 2];

// Of attributes MindSpore hands over the address.
int64_t ints[] = {11, 22, 33};
double scale = 0.08838834764831845;

uint64_t workspace_bytes = 0;
aclOpExecutor *executor = nullptr;

constexpr int kStatus = 77;
int num_wrong = 0;
bool is_called = false;

void Expect(const char *argument, bool is_right) {
  if (is_right) return;
  std::printf("wrong: %s\n", argument);
  ++num_wrong;
}

void ExpectPlace(const char *argument, const void *pointer, int index) {
  Expect(argument, pointer == &places[index]);
}

void ExpectResults(const aclTensor *attn_out, const aclTensor *lse, uint64_t *workspace,
                   aclOpExecutor **executor_address) {
  ExpectPlace("attn_out", attn_out, kOutputs);
  ExpectPlace("lse", lse, kOutputs + 1);
  Expect("workspace_size", workspace == &workspace_bytes);
  Expect("executor", executor_address == &executor);
  is_called = true;
}

}  // namespace

extern "C" {

aclnnStatus aclnnRelayAttentionGetWorkspaceSize(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
    const aclTensorList *key_share, const aclTensorList *value_share,
    const aclTensor *attention_mask, const aclTensor *block_tables,
    const aclTensor *share_block_tables, const aclIntArray *seq_len, const aclIntArray *kv_seq_len,
    const aclIntArray *kv_share_map, const aclIntArray *kv_share_len, int64_t head_num,
    double qk_scale, int64_t kv_head_num, int64_t mask_type, const aclTensor *attn_out,
    const aclTensor *lse, uint64_t *workspace, aclOpExecutor **executor_address) {
  ExpectPlace("query", query, 0);
  ExpectPlace("key", key, 1);
  ExpectPlace("value", value, 2);
  ExpectPlace("key_share", key_share, 3);
  ExpectPlace("value_share", value_share, 4);
  Expect("attention_mask", attention_mask == nullptr);
  ExpectPlace("block_tables", block_tables, 6);
  ExpectPlace("share_block_tables", share_block_tables, 7);
  ExpectPlace("seq_len", seq_len, 8);
  ExpectPlace("kv_seq_len", kv_seq_len, 9);
  ExpectPlace("kv_share_map", kv_share_map, 10);
  ExpectPlace("kv_share_len", kv_share_len, 11);
  Expect("head_num", head_num == ints[0]);
  Expect("qk_scale", qk_scale == scale);
  Expect("kv_head_num", kv_head_num == ints[1]);
  Expect("mask_type", mask_type == ints[2]);
  ExpectResults(attn_out, lse, workspace, executor_address);
  return kStatus;
}

aclnnStatus aclnnPrefixEncoderGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value,
    const aclTensor *block_tables, const aclTensor *mask, const aclTensor *slopes,
    const aclIntArray *seq_len, const aclIntArray *kv_seq_len, int64_t mask_type, int64_t head_num,
    int64_t kv_head_num, double qk_scale, const aclTensor *attn_out, const aclTensor *lse,
    uint64_t *workspace, aclOpExecutor **executor_address) {
  ExpectPlace("query", query, 0);
  ExpectPlace("key", key, 1);
  ExpectPlace("value", value, 2);
  ExpectPlace("block_tables", block_tables, 3);
  Expect("mask", mask == nullptr);
  ExpectPlace("slopes", slopes, 5);
  ExpectPlace("seq_len", seq_len, 6);
  ExpectPlace("kv_seq_len", kv_seq_len, 7);
  Expect("mask_type", mask_type == ints[0]);
  Expect("head_num", head_num == ints[1]);
  Expect("kv_head_num", kv_head_num == ints[2]);
  Expect("qk_scale", qk_scale == scale);
  ExpectResults(attn_out, lse, workspace, executor_address);
  return kStatus;
}
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const bool is_relay = std::strcmp(argv[2], "relay_attention") == 0;
  const char *name =
      is_relay ? "aclnnRelayAttentionGetWorkSpaceSize" : "aclnnPrefixEncoderGetWorkSpaceSize";
  void *library = dlopen(argv[1], RTLD_NOW);
  void *symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  std::vector<void *> inputs;
  const auto add_places = [&inputs](int count) {
    for (int i = 0; i < count; ++i) inputs.push_back(&places[inputs.size()]);
  };
  if (is_relay) {
    add_places(12);
    inputs[5] = nullptr;
    for (void *attribute : std::vector<void *>{&ints[0], &scale, &ints[1], &ints[2]}) {
      inputs.push_back(attribute);
    }
  } else {
    add_places(8);
    inputs[4] = nullptr;
    for (void *attribute : std::vector<void *>{&ints[0], &ints[1], &ints[2], &scale}) {
      inputs.push_back(attribute);
    }
  }
  using Callback =
      int(void *, std::vector<void *>, std::vector<void *>, uint64_t *, aclOpExecutor **);
  void *function = is_relay ? reinterpret_cast<void *>(&aclnnRelayAttentionGetWorkspaceSize)
                            : reinterpret_cast<void *>(&aclnnPrefixEncoderGetWorkspaceSize);
  const int status = reinterpret_cast<Callback *>(symbol)(
      function, inputs, {&places[kOutputs], &places[kOutputs + 1]}, &workspace_bytes, &executor);
  Expect("status", status == kStatus);
  Expect("call", is_called);
  std::printf("%d wrong\n", num_wrong);
  return num_wrong == 0 ? 0 : 1;
}
