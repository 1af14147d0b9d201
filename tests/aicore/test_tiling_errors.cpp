// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What the plans of both operators refuse: every message names operator, argument, rule and value.

#include <gtest/gtest.h>

#include "tiling_problems.h"

namespace mindspore_relay::aicore {
namespace {

std::string RelayError(const RelayAttentionShape &shape) {
  RelayAttentionTiling tiling;
  int64_t workspace_bytes = 0;
  std::string error;
  EXPECT_FALSE(ComputeRelayAttentionTiling(shape, kPlatform24, &tiling, &workspace_bytes, &error));
  return error;
}

std::string PrefixError(const PrefixEncoderShape &shape) {
  PrefixEncoderTiling tiling;
  int64_t workspace_bytes = 0;
  std::string error;
  EXPECT_FALSE(ComputePrefixEncoderTiling(shape, kPlatform24, &tiling, &workspace_bytes, &error));
  return error;
}

void ExpectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks \"" << part << "\"";
}

class RelayErrors : public ::testing::Test {
 protected:
  RelayTestProblem test_{{5, 7}, {0, -1}, {20}, 8, 2, 64};
};

TEST_F(RelayErrors, Heads) {
  test_.shape.kv_head_num = 3;
  ExpectContains(RelayError(test_.shape), "head_num=8, kv_head_num=3");
  test_.shape.head_num = 0;
  ExpectContains(RelayError(test_.shape), "head_num must be in [1, 65535], got 0");
}

TEST_F(RelayErrors, Query) {
  test_.shape.query = {2, 8, 2, 64};
  ExpectContains(RelayError(test_.shape), "query must have the shape");
  test_.shape.query = {2, 7, 64};
  ExpectContains(RelayError(test_.shape), "with head_num=8, got [2, 7, 64]");
}

TEST_F(RelayErrors, HeadSize) {
  for (const int64_t head_size : {0, 8, 24, 272}) {
    test_.shape.query = {2, 8, head_size};
    ExpectContains(RelayError(test_.shape), "got " + std::to_string(head_size));
  }
}

TEST_F(RelayErrors, MaskType) {
  test_.shape.mask_type = 1;
  ExpectContains(RelayError(test_.shape), "mask_type must be 0 (undefined), got 1");
}

TEST_F(RelayErrors, PrefixLongerThanRequest) {
  test_.kv_seq_len[0] = 19;
  ExpectContains(RelayError(test_.shape), "kv_seq_len[0]=19 is smaller than its shared prefix");
}

TEST_F(RelayErrors, GroupOutOfRange) {
  test_.kv_share_map[1] = 1;
  ExpectContains(RelayError(test_.shape), "kv_share_map[1] must be in [-1, 1), got 1");
  test_.kv_share_map[1] = -2;
  ExpectContains(RelayError(test_.shape), "got -2");
}

TEST_F(RelayErrors, SeqLenOtherThanOne) {
  test_.seq_len[1] = 2;
  ExpectContains(RelayError(test_.shape), "seq_len[1] must be 1 in a decode step, got 2");
}

TEST_F(RelayErrors, NegativeShareLen) {
  test_.kv_share_len[0] = -1;
  ExpectContains(RelayError(test_.shape), "kv_share_len[0] must not be negative, got -1");
}

TEST_F(RelayErrors, MoreKeysThanRows) {
  test_.shape.key[1] = test_.shape.value[1] = {6, 2, 64};
  ExpectContains(RelayError(test_.shape), "key[1] needs 7 keys, but its tensor has 6 rows");
  test_.shape.key_share[0] = test_.shape.value_share[0] = {19, 2, 64};
  ExpectContains(RelayError(test_.shape), "key_share[0] needs 20 keys, but its tensor has 19 rows");
}

TEST_F(RelayErrors, StackedCapacity) {
  test_.shape.key = test_.shape.value = {{2, 6, 128}};
  ExpectContains(RelayError(test_.shape), "key[1] needs 7 keys, but its tensor has 6 rows");
}

TEST_F(RelayErrors, ListLength) {
  test_.shape.key.pop_back();
  ExpectContains(RelayError(test_.shape), "key has 1 tensors and its value counterpart 2");
  test_.shape.value.pop_back();
  ExpectContains(RelayError(test_.shape), "key must be a list of 2 tensors, got 1");
}

TEST_F(RelayErrors, KeyShape) {
  test_.shape.key[1] = test_.shape.value[1] = {7, 2, 48};
  ExpectContains(RelayError(test_.shape),
                 "key[1] must have 2 heads of 64 per token, got [7, 2, 48]");
  test_.shape.value[1] = {7, 128};
  ExpectContains(RelayError(test_.shape), "must have the same shape on Ascend, got [7, 2, 48] and");
}

TEST_F(RelayErrors, MissingShares) {
  test_.shape.key_share = test_.shape.value_share = {};
  ExpectContains(RelayError(test_.shape), "key_share must be a list of 1 tensors, got 0");
}

// No groups: what key_share is does not matter.
TEST(RelayPlan, WithoutGroupsSharesAreNotLookedAt) {
  RelayTestProblem test({5, 7}, {-1, -1}, {}, 8, 2, 64);
  test.shape.key_share = {{9, 16, 128}};
  RelayAttentionTiling tiling;
  int64_t workspace_bytes = 0;
  std::string error;
  EXPECT_TRUE(
      ComputeRelayAttentionTiling(test.shape, kPlatform24, &tiling, &workspace_bytes, &error))
      << error;
}

class PagedRelayErrors : public RelayErrors {
 protected:
  PagedRelayErrors() {
    test_.shape.key = test_.shape.value = {{9, 16, 128}};
    test_.shape.block_tables = {2, 1};
  }
};

TEST_F(PagedRelayErrors, BlockSize) {
  for (const int64_t block_size : {24, 1024}) {
    test_.shape.key = test_.shape.value = {{9, block_size, 128}};
    ExpectContains(RelayError(test_.shape),
                   "block_size must be a multiple of 16 up to 512 on Ascend, "
                   "got " +
                       std::to_string(block_size));
  }
}

TEST_F(PagedRelayErrors, Cache) {
  test_.shape.key = test_.shape.value = {{9, 16, 2, 48}};
  ExpectContains(RelayError(test_.shape), "key must be a cache of 2 heads of 64 per token");
  test_.shape.key = test_.shape.value = {{9, 16, 128}, {9, 16, 128}};
  ExpectContains(RelayError(test_.shape), "key must be one cache if it has a block table, got 2");
}

TEST_F(PagedRelayErrors, Table) {
  test_.shape.block_tables = {3, 1};
  ExpectContains(RelayError(test_.shape), "the block table of key must have 2 rows, got [3, 1]");
  test_.shape.block_tables = {2, 0};
  ExpectContains(RelayError(test_.shape), "key[0] has 5 keys and needs 1 blocks of 16");
}

TEST_F(PagedRelayErrors, SharedInCache) {
  test_.shape.key_share = test_.shape.value_share = {};
  test_.shape.share_block_tables = {1, 1};
  ExpectContains(RelayError(test_.shape), "key_share[0] has 20 keys and needs 2 blocks of 16");
}

class PrefixErrors : public ::testing::Test {
 protected:
  PrefixErrors() { test_.shape.block_tables = {2, 2}; }
  PrefixTestProblem test_{{5, 7}, {100, 200}, 8, 2, 64};
};

TEST_F(PrefixErrors, Heads) {
  test_.shape.kv_head_num = 5;
  ExpectContains(PrefixError(test_.shape), "head_num=8, kv_head_num=5");
}

TEST_F(PrefixErrors, BlockSize) {
  for (const int64_t block_size : {0, 1, 8, 24, 528}) {
    test_.shape.key = test_.shape.value = {9, block_size, 2, 64};
    ExpectContains(PrefixError(test_.shape), "got " + std::to_string(block_size));
  }
}

TEST_F(PrefixErrors, Cache) {
  test_.shape.value = {9, 128, 128};
  ExpectContains(PrefixError(test_.shape), "key and value must have the same shape on Ascend");
  test_.shape.key = test_.shape.value = {9, 128, 2, 48};
  ExpectContains(PrefixError(test_.shape), "key must be a cache of 2 heads of 64 per token");
  test_.shape.key = test_.shape.value = {9, 128, 128};
  test_.shape.block_tables = {1, 2};
  ExpectContains(PrefixError(test_.shape), "must have 2 rows, got [1, 2]");
}

TEST_F(PrefixErrors, Lengths) {
  test_.seq_len[0] = 101;
  ExpectContains(PrefixError(test_.shape), "seq_len[0] must be in [0, kv_seq_len[0]=100], got 101");
  test_.seq_len[0] = 4;
  ExpectContains(PrefixError(test_.shape), "query must have sum(seq_len)=11 rows, got 12");
}

TEST_F(PrefixErrors, TableTooNarrow) {
  test_.shape.block_tables = {2, 1};
  ExpectContains(PrefixError(test_.shape), "kv_seq_len[1] has 200 keys and needs 2 blocks of 128");
}

TEST_F(PrefixErrors, MaskType) {
  for (const int64_t mask_type : {0, 1, 2, 6, 8, 10}) {
    test_.shape.mask_type = mask_type;
    ExpectContains(PrefixError(test_.shape), "got " + std::to_string(mask_type));
  }
}

TEST_F(PrefixErrors, CausalTakesNeitherMaskNorSlopes) {
  test_.shape.slopes = {8};
  ExpectContains(PrefixError(test_.shape), "takes no slopes");
  test_.shape.mask = {256, 256};
  ExpectContains(PrefixError(test_.shape), "takes no mask, got one of the shape [256, 256]");
}

TEST_F(PrefixErrors, CompressedMask) {
  for (const int64_t mask_type : {3, 4, 5}) {
    test_.shape.mask_type = mask_type;
    test_.shape.mask = {};
    test_.shape.slopes = {8};
    ExpectContains(PrefixError(test_.shape), "needs a mask of the shape [256, 256], got none");
    test_.shape.mask = {256, 128};
    ExpectContains(PrefixError(test_.shape), "got [256, 128]");
    test_.shape.mask = {256, 256};
    test_.shape.slopes = {7};
    ExpectContains(PrefixError(test_.shape),
                   "slopes must have the shape [head_num] = [8], got [7]");
    test_.shape.slopes = {};
    ExpectContains(PrefixError(test_.shape), "got none");
  }
}

TEST_F(PrefixErrors, Table) {
  test_.shape.mask_type = 3;
  for (const std::vector<int64_t> &mask :
       std::vector<std::vector<int64_t>>{{7, 200, 128}, {8, 199, 128}, {8, 200, 127}}) {
    test_.shape.mask = mask;
    ExpectContains(PrefixError(test_.shape), "a 3-D mask must have the shape");
  }
  test_.shape.mask = {8, 200, 128};
  test_.shape.slopes = {8};
  ExpectContains(PrefixError(test_.shape), "takes no slopes");
  test_.shape.mask_type = 4;
  ExpectContains(PrefixError(test_.shape), "a 3-D mask needs mask_type 3, got 4");
}

}  // namespace
}  // namespace mindspore_relay::aicore
