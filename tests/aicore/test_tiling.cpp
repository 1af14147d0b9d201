// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plans of both operators, without CANN and without the emulation: complete cover, no overlap,
// balance, capacity, and the errors.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <type_traits>

#include "tiling_problems.h"

namespace mindspore_relay::aicore {
namespace {

using HostRelay = RelayProblem<const int64_t *>;
using HostPrefix = PrefixProblem<const int64_t *>;
using Unit = std::tuple<int32_t, int32_t, int32_t>;  // source, tile, kv head

struct PlacedItem {
  int32_t core;
  WorkItem item;
};

template <typename Problem>
std::vector<PlacedItem> ItemsOf(Problem *problem, const AttentionTiling &tiling) {
  std::vector<PlacedItem> items;
  for (int32_t core = 0; core < tiling.num_cores; ++core) {
    WorkCursor<Problem> cursor;
    cursor.Start(problem, tiling.starts[core], tiling.starts[core + 1]);
    WorkItem item;
    while (cursor.Next(&item)) items.push_back({core, item});
  }
  return items;
}

// Every key of every unit is in exactly one item; the units are found without the plan.
template <typename Problem>
void ExpectCompleteCover(Problem *problem, const AttentionTiling &tiling) {
  // The merge of cut units relies on it that no core is idle.
  for (int32_t core = 1; core < tiling.num_cores; ++core) {
    EXPECT_TRUE(IsBefore(tiling.starts[core - 1], tiling.starts[core])) << "core " << core;
  }
  std::map<Unit, int32_t> next_key;
  for (const PlacedItem &placed : ItemsOf(problem, tiling)) {
    const WorkItem &item = placed.item;
    int32_t &next = next_key[{item.source, item.tile, item.kv_head}];
    EXPECT_EQ(item.key_begin, next) << "gap or overlap in source " << item.source;
    EXPECT_GT(item.key_end, item.key_begin);
    next = item.key_end;
  }
  size_t num_units = 0;
  for (int32_t source = 0; source < problem->num_sources(); ++source) {
    problem->EnterSource(source);
    for (int32_t tile = 0; tile < problem->NumTiles(); ++tile) {
      if (problem->NumKeys(tile) == 0) continue;
      for (int32_t head = 0; head < problem->kv_head_num(); ++head, ++num_units) {
        const auto found = next_key.find({source, tile, head});
        ASSERT_NE(found, next_key.end()) << "unit without an item";
        EXPECT_EQ(found->second, problem->NumKeys(tile));
      }
    }
  }
  EXPECT_EQ(next_key.size(), num_units);
}

// Largest cost of a core over the mean.
template <typename Problem>
double Imbalance(Problem *problem, const AttentionTiling &tiling) {
  const CostModel model(tiling.head_size);
  std::vector<int64_t> cost(static_cast<size_t>(tiling.num_cores), 0);
  int64_t total = 0;
  for (const PlacedItem &placed : ItemsOf(problem, tiling)) {
    const int32_t rows = placed.item.num_rows;
    const int64_t item_cost = model.ItemCost(rows) + (placed.item.key_end - placed.item.key_begin) *
                                                         model.KeyCost(rows);
    cost[static_cast<size_t>(placed.core)] += item_cost;
    total += item_cost;
  }
  const int64_t largest = *std::max_element(cost.begin(), cost.end());
  return static_cast<double>(largest) * tiling.num_cores / static_cast<double>(total);
}

// Every row of every member is in one run of one tile, at the packed row that it has in query.
template <typename Problem, typename Tile>
void ExpectRowsCovered(Problem *problem, const AttentionTiling &tiling, int64_t num_partial_rows,
                       const std::set<std::pair<int32_t, int64_t>> &expected) {
  std::set<std::pair<int32_t, int64_t>> seen;  // source, packed row
  for (const PlacedItem &placed : ItemsOf(problem, tiling)) {
    problem->EnterSource(placed.item.source);
    Tile tile;
    problem->FillTile(placed.item, placed.core, &tile);
    RowRun run;
    for (int32_t row = 0; row < placed.item.num_rows; row += run.num_rows) {
      run = problem->RunAt(tile, row, placed.item.num_rows);
      ASSERT_GT(run.num_rows, 0);
      for (int32_t i = 0; i < run.num_rows; ++i) {
        const bool is_new = seen.insert({placed.item.source, run.packed_row + i * run.packed_step})
                                .second;
        EXPECT_EQ(is_new, placed.item.key_begin == 0) << "row twice, or not in the first piece";
      }
      if (run.is_final) {
        EXPECT_TRUE(IsWholeUnit(placed.item));
      } else {
        EXPECT_GE(run.partial_row, 0);
        EXPECT_LE(run.partial_row + run.num_rows, num_partial_rows);
      }
    }
  }
  EXPECT_EQ(seen, expected);
}

std::unique_ptr<RelayTestProblem> RandomRelay(Random *random) {
  const int64_t batch = Uniform(random, 1, 70);
  const int64_t groups = Uniform(random, 0, 4);
  std::vector<int64_t> share_len, share_map, private_len;
  for (int64_t g = 0; g < groups; ++g) share_len.push_back(Pick(random, {0, 33, 700, 2048, 4000}));
  for (int64_t b = 0; b < batch; ++b) {
    share_map.push_back(Uniform(random, -1, groups - 1));
    private_len.push_back(Pick(random, {0, 1, 17, 128, 300, 1000}));
  }
  const Heads heads = PickHeads(random);
  return std::make_unique<RelayTestProblem>(private_len, share_map, share_len, heads.head_num,
                                            heads.kv_head_num, Pick(random, {16, 64, 80, 128, 256}));
}

std::unique_ptr<PrefixTestProblem> RandomPrefix(Random *random) {
  std::vector<int64_t> seq_len, kv_seq_len;
  const int64_t batch = Uniform(random, 1, 12);
  for (int64_t b = 0; b < batch; ++b) {
    seq_len.push_back(Pick(random, {0, 1, 5, 127, 128, 300, 1000}));
    kv_seq_len.push_back(seq_len.back() + Pick(random, {0, 1, 100, 1024, 3000}));
  }
  const Heads heads = PickHeads(random);
  return std::make_unique<PrefixTestProblem>(seq_len, kv_seq_len, heads.head_num,
                                             heads.kv_head_num,
                                             Pick(random, {16, 64, 80, 128, 256}));
}

struct RelayPlan {
  RelayAttentionTiling tiling;
  HostRelay problem;
  int64_t workspace_bytes = 0;

  RelayPlan(const RelayTestProblem &test, const Platform &platform) {
    std::string error;
    EXPECT_TRUE(ComputeRelayAttentionTiling(test.shape, platform, &tiling, &workspace_bytes, &error))
        << error;
    problem.Init(&tiling, test.kv_seq_len.data(), test.kv_share_map.data(),
                 test.kv_share_len.data());
  }
};

struct PrefixPlan {
  PrefixEncoderTiling tiling;
  HostPrefix problem;
  int64_t workspace_bytes = 0;

  PrefixPlan(const PrefixTestProblem &test, const Platform &platform) {
    std::string error;
    EXPECT_TRUE(ComputePrefixEncoderTiling(test.shape, platform, &tiling, &workspace_bytes, &error))
        << error;
    problem.Init(&tiling, test.seq_len.data(), test.kv_seq_len.data());
  }
};

TEST(RelayPlan, CoversEveryKeyAndRowOfRandomProblemsOnce) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const auto test = RandomRelay(&random);
    RelayPlan plan(*test, {static_cast<int32_t>(Pick(&random, {1, 4, 20, 24})), 0});
    ExpectCompleteCover(&plan.problem, plan.tiling.attention);
    std::set<std::pair<int32_t, int64_t>> rows;
    for (int32_t b = 0; b < test->shape.query[0]; ++b) {
      for (int64_t head = 0; head < test->shape.head_num; ++head) {
        const int64_t row = b * test->shape.head_num + head;
        if (plan.problem.SharedKeys(b) > 0) rows.insert({plan.problem.Group(b), row});
        if (plan.problem.PrivateKeys(b) > 0) {
          rows.insert({static_cast<int32_t>(test->shape.num_groups) + b, row});
        }
      }
    }
    ExpectRowsCovered<HostRelay, RelayTile>(&plan.problem, plan.tiling.attention,
                                            plan.problem.NumPartialRows(), rows);
    if (HasFailure()) FAIL() << "problem " << i;
  }
}

TEST(PrefixPlan, CoversEveryKeyAndRowOfRandomProblemsOnce) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const auto test = RandomPrefix(&random);
    if (i % 3 == 0) {
      test->shape.mask_type = static_cast<int64_t>(PrefixMaskType::kAlibiCompress);
      test->shape.mask = {test->shape.head_num, 4096, kTableColumns};
    }
    PrefixPlan plan(*test, {static_cast<int32_t>(Pick(&random, {1, 4, 20, 24})), 0});
    ExpectCompleteCover(&plan.problem, plan.tiling.attention);
    std::set<std::pair<int32_t, int64_t>> rows;
    int64_t row = 0;
    for (int32_t b = 0; b < test->shape.batch_size; ++b) {
      const int64_t end = row + test->seq_len[static_cast<size_t>(b)] * test->shape.head_num;
      for (; row < end; ++row) rows.insert({b, row});
    }
    ExpectRowsCovered<HostPrefix, PrefixTile>(&plan.problem, plan.tiling.attention,
                                              plan.problem.NumPartialRows(), rows);
    if (i % 3 == 0) {
      for (const PlacedItem &placed : ItemsOf(&plan.problem, plan.tiling.attention)) {
        EXPECT_EQ(placed.item.key_begin % kTableColumns, 0);
      }
    }
    if (HasFailure()) FAIL() << "problem " << i;
  }
}

// A core's share is at least eight of the dearest items that cannot be cut: only such a problem can
// be balanced within 1.15 by any plan.
template <typename Problem>
bool CanBeBalanced(Problem *problem, const AttentionTiling &tiling, int32_t key_granule) {
  const WorkSummary work = SummarizeWork(problem, CostModel(tiling.head_size), key_granule);
  return work.total_cost >= 8 * work.min_budget * kPlatform24.num_cores;
}

TEST(Plan, BalancesTwoHundredRandomProblems) {
  Random random(3);
  int num_balanced = 0;
  for (int i = 0; num_balanced < 200; ++i) {
    ASSERT_LT(i, 1000) << "too few problems are large enough";
    const auto relay = RandomRelay(&random);
    RelayPlan relay_plan(*relay, kPlatform24);
    if (CanBeBalanced(&relay_plan.problem, relay_plan.tiling.attention, kFractal)) {
      ++num_balanced;
      EXPECT_EQ(relay_plan.tiling.attention.num_cores, 24);
      EXPECT_LE(Imbalance(&relay_plan.problem, relay_plan.tiling.attention), 1.15) << "relay " << i;
    }
    const auto prefix = RandomPrefix(&random);
    PrefixPlan prefix_plan(*prefix, kPlatform24);
    if (CanBeBalanced(&prefix_plan.problem, prefix_plan.tiling.attention, kFractal)) {
      ++num_balanced;
      EXPECT_EQ(prefix_plan.tiling.attention.num_cores, 24);
      EXPECT_LE(Imbalance(&prefix_plan.problem, prefix_plan.tiling.attention), 1.15)
          << "prefix " << i;
    }
  }
}

// Short work, too: the dearest core has at most one piece more than an equal share.
TEST(Plan, NoCoreOfAnyRandomProblemHasMuchMoreThanItsShare) {
  Random random(4);
  for (int i = 0; i < 500; ++i) {
    const auto test = RandomRelay(&random);
    RelayPlan plan(*test, kPlatform24);
    const AttentionTiling &tiling = plan.tiling.attention;
    const WorkSummary work = SummarizeWork(&plan.problem, CostModel(tiling.head_size), kFractal);
    if (work.total_cost == 0) continue;
    const double share = static_cast<double>(work.total_cost) / tiling.num_cores;
    EXPECT_LE(Imbalance(&plan.problem, tiling) * share, 1.15 * (share + work.min_budget)) << i;
  }
}

TEST(RelayPlan, KeepsEveryCoreBusyAtBatchOneAndOneKvHead) {
  const RelayTestProblem test({0}, {0}, {8192}, 8, 1, 128);
  RelayPlan plan(test, kPlatform24);
  EXPECT_EQ(plan.tiling.attention.num_cores, 24);
  std::set<int32_t> busy;
  for (const PlacedItem &placed : ItemsOf(&plan.problem, plan.tiling.attention)) {
    busy.insert(placed.core);
  }
  EXPECT_EQ(busy.size(), 24u);
  EXPECT_LE(Imbalance(&plan.problem, plan.tiling.attention), 1.15);
}

// Keys of the shared parts that the items read, in units of the groups' lengths.
TEST(RelayPlan, ReadsAGroupOncePerTileOfRows) {
  for (const int64_t members : {1, 25, 32, 33, 100}) {
    const RelayTestProblem test(std::vector<int64_t>(static_cast<size_t>(members), 128),
                                std::vector<int64_t>(static_cast<size_t>(members), 0), {2048}, 20,
                                4, 128);
    RelayPlan plan(test, kPlatform24);
    int64_t keys = 0;
    for (const PlacedItem &placed : ItemsOf(&plan.problem, plan.tiling.attention)) {
      if (plan.problem.IsShared(placed.item.source)) {
        keys += placed.item.key_end - placed.item.key_begin;
      }
    }
    const int64_t tiles = (members * 5 + kTileRows - 1) / kTileRows;
    EXPECT_EQ(keys, tiles * 2048 * 4) << members << " members";
  }
}

// Causal: a tile reads no key behind its last token.
TEST(PrefixPlan, SkipsKeysThatNoRowOfATileSees) {
  const PrefixTestProblem test({1024}, {1024}, 1, 1, 64);
  PrefixPlan plan(test, kPlatform24);
  int64_t keys = 0;
  for (const PlacedItem &placed : ItemsOf(&plan.problem, plan.tiling.attention)) {
    keys += placed.item.key_end - placed.item.key_begin;
  }
  EXPECT_EQ(keys, 128 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8));
}

TEST(Plan, UsesAtMostTheCoresThereAreAndNotMoreThanHaveWork) {
  const RelayTestProblem tiny({1}, {-1}, {}, 1, 1, 16);
  EXPECT_EQ(RelayPlan(tiny, kPlatform24).tiling.attention.num_cores, 1);
  const RelayTestProblem empty({0, 0}, {-1, -1}, {}, 4, 2, 16);
  EXPECT_EQ(RelayPlan(empty, kPlatform24).tiling.attention.num_cores, 1);
  const RelayTestProblem large(std::vector<int64_t>(64, 4096), std::vector<int64_t>(64, -1), {}, 32,
                               8, 128);
  EXPECT_EQ(RelayPlan(large, {20, 0}).tiling.attention.num_cores, 20);
  EXPECT_EQ(RelayPlan(large, {1000, 0}).tiling.attention.num_cores, kMaxCores);
}

void ExpectBuffersInOrder(const AttentionTiling &tiling, int64_t partial_rows) {
  const WorkspaceMap &map = tiling.workspace;
  const int64_t ring_rows = int64_t{tiling.num_cores} * kRingSlots * kTileRows;
  EXPECT_EQ(map.scores, 0);
  EXPECT_GE(map.probs, map.scores + ring_rows * tiling.step_keys * 4);
  EXPECT_GE(map.step_out, map.probs + ring_rows * tiling.step_keys * 2);
  EXPECT_GE(map.partial_out, map.step_out + ring_rows * tiling.head_size * 4);
  EXPECT_GE(map.partial_lse, map.partial_out + partial_rows * tiling.head_size * 4);
  EXPECT_GE(map.num_bytes, map.partial_lse + partial_rows * 4);
  for (const int64_t offset : {map.probs, map.step_out, map.partial_out, map.partial_lse}) {
    EXPECT_EQ(offset % 512, 0);
  }
}

TEST(Plan, WorkspaceHoldsAllBuffersAndThePlatformsPart) {
  constexpr int64_t kSystemBytes = 16 << 20;
  const RelayTestProblem relay({100, 0, 300}, {0, -1, 0}, {500}, 32, 8, 256);
  RelayPlan relay_plan(relay, {24, kSystemBytes});
  ExpectBuffersInOrder(relay_plan.tiling.attention, relay_plan.problem.NumPartialRows());
  EXPECT_EQ(relay_plan.workspace_bytes,
            kSystemBytes + relay_plan.tiling.attention.workspace.num_bytes);
  const PrefixTestProblem prefix({300, 7}, {900, 7}, 12, 4, 80);
  PrefixPlan prefix_plan(prefix, {24, kSystemBytes});
  ExpectBuffersInOrder(prefix_plan.tiling.attention, prefix_plan.problem.NumPartialRows());
}

// What crosses from host to device as bytes.
TEST(Plan, TilingStructsArePlainAndSmall) {
  EXPECT_TRUE(std::is_trivially_copyable_v<RelayAttentionTiling>);
  EXPECT_TRUE(std::is_trivially_copyable_v<PrefixEncoderTiling>);
  // The kernel copies the struct to its stack of 32 KB.
  EXPECT_LE(sizeof(RelayAttentionTiling), 2048u);
  EXPECT_LE(sizeof(PrefixEncoderTiling), 2048u);
}

// ---- errors --------------------------------------------------------------------------------------

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
  ExpectContains(RelayError(test_.shape), "key[1] must have 2 heads of 64 per token, got [7, 2, 48]");
  test_.shape.value[1] = {7, 128};
  ExpectContains(RelayError(test_.shape), "must have the same shape on Ascend, got [7, 2, 48] and");
}

TEST_F(RelayErrors, MissingShares) {
  test_.shape.key_share = test_.shape.value_share = {};
  ExpectContains(RelayError(test_.shape), "key_share must be a list of 1 tensors, got 0");
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
    ExpectContains(RelayError(test_.shape), "block_size must be a multiple of 16 up to 512 on Ascend, "
                   "got " + std::to_string(block_size));
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
    ExpectContains(PrefixError(test_.shape), "slopes must have the shape [head_num] = [8], got [7]");
    test_.shape.slopes = {};
    ExpectContains(PrefixError(test_.shape), "got none");
  }
}

TEST_F(PrefixErrors, Table) {
  test_.shape.mask_type = 3;
  for (const std::vector<int64_t> &mask : std::vector<std::vector<int64_t>>{
           {7, 200, 128}, {8, 199, 128}, {8, 200, 127}}) {
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
