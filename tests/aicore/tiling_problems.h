// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Problems for the plan tests: what a host would hand to the tiling functions.

#ifndef MINDSPORE_RELAY_TESTS_AICORE_TILING_PROBLEMS_H_
#define MINDSPORE_RELAY_TESTS_AICORE_TILING_PROBLEMS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "prefix_encoder/op_host/prefix_encoder_tiling_core.h"
#include "relay_attention/op_host/relay_attention_tiling_core.h"

namespace mindspore_relay::aicore {

constexpr Platform kPlatform24 = {24, 0};

// A relay problem that owns its lengths. Lists with exactly as many rows as there are keys.
struct RelayTestProblem {
  std::vector<int64_t> seq_len, kv_seq_len, kv_share_map, kv_share_len;
  RelayAttentionShape shape;

  RelayTestProblem(std::vector<int64_t> private_len, std::vector<int64_t> share_map,
                   std::vector<int64_t> share_len, int64_t head_num, int64_t kv_head_num,
                   int64_t head_size)
      : seq_len(private_len.size(), 1),
        kv_seq_len(private_len),
        kv_share_map(std::move(share_map)),
        kv_share_len(std::move(share_len)) {
    for (size_t b = 0; b < kv_seq_len.size(); ++b) {
      if (kv_share_map[b] >= 0) kv_seq_len[b] += kv_share_len[static_cast<size_t>(kv_share_map[b])];
    }
    shape.query = {static_cast<int64_t>(private_len.size()), head_num * head_size};
    for (const int64_t n : private_len) shape.key.push_back({n, kv_head_num, head_size});
    for (const int64_t n : kv_share_len) shape.key_share.push_back({n, kv_head_num, head_size});
    shape.value = shape.key;
    shape.value_share = shape.key_share;
    shape.num_groups = static_cast<int64_t>(kv_share_len.size());
    shape.head_num = head_num;
    shape.kv_head_num = kv_head_num;
    Bind();
  }
  RelayTestProblem(const RelayTestProblem &) = delete;
  RelayTestProblem &operator=(const RelayTestProblem &) = delete;

  void Bind() {
    shape.seq_len = seq_len.data();
    shape.kv_seq_len = kv_seq_len.data();
    shape.kv_share_map = kv_share_map.data();
    shape.kv_share_len = kv_share_len.data();
  }
};

struct PrefixTestProblem {
  std::vector<int64_t> seq_len, kv_seq_len;
  int64_t num_tokens = 0;
  PrefixEncoderShape shape;

  PrefixTestProblem(std::vector<int64_t> seq_lens, std::vector<int64_t> kv_seq_lens,
                    int64_t head_num, int64_t kv_head_num, int64_t head_size)
      : seq_len(std::move(seq_lens)), kv_seq_len(std::move(kv_seq_lens)) {
    shape.batch_size = static_cast<int64_t>(seq_len.size());
    for (const int64_t n : seq_len) num_tokens += n;
    shape.query = {num_tokens, head_num * head_size};
    shape.key = shape.value = {4096, 128, kv_head_num, head_size};
    shape.block_tables = {shape.batch_size, 1024};
    shape.head_num = head_num;
    shape.kv_head_num = kv_head_num;
    shape.mask_type = static_cast<int64_t>(PrefixMaskType::kCausal);
    shape.seq_len = seq_len.data();
    shape.kv_seq_len = kv_seq_len.data();
  }
  PrefixTestProblem(const PrefixTestProblem &) = delete;
  PrefixTestProblem &operator=(const PrefixTestProblem &) = delete;
};

using Random = std::mt19937;

inline int64_t Uniform(Random *random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(*random);
}

// One of the values.
inline int64_t Pick(Random *random, const std::vector<int64_t> &values) {
  return values[static_cast<size_t>(Uniform(random, 0, static_cast<int64_t>(values.size()) - 1))];
}

// kv_head_num and head_num with any ratio, powers of two or not.
struct Heads {
  int64_t head_num;
  int64_t kv_head_num;
};
inline Heads PickHeads(Random *random) {
  const int64_t kv_heads = Pick(random, {1, 2, 3, 4, 8, 11});
  return {kv_heads * Pick(random, {1, 2, 3, 4, 5, 7, 8, 16}), kv_heads};
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_TESTS_AICORE_TILING_PROBLEMS_H_
