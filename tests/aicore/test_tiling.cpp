// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plans of both operators, without CANN and without the emulation: complete cover, no overlap,
// balance, capacity, and the errors.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <type_traits>

#include "plan_items.h"
#include "tiling_problems.h"

namespace mindspore_relay::aicore {
namespace {

using HostRelay = RelayProblem<const int64_t *>;
using HostPrefix = PrefixProblem<const int64_t *>;
using Unit = std::tuple<int32_t, int32_t, int32_t>;  // source, tile, kv head

// Every key of every unit is in exactly one item; the units are found without the plan.
template <typename Problem>
void ExpectCompleteCover(Problem *problem, const AttentionTiling &tiling) {
  for (int32_t axis = 0; axis < kNumAxes; ++axis) {
    for (int32_t core = 0; core < tiling.num_cores; ++core) {
      EXPECT_FALSE(IsBefore(tiling.starts[axis][core + 1], tiling.starts[axis][core]));
    }
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
  for (int32_t source = 0; source < problem->AxisBegin(kNumAxes); ++source) {
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

// Every row of every member is in one run of one tile, at the packed row that it has in query.
template <typename Problem, typename Tile>
void ExpectRowsCovered(Problem *problem, const AttentionTiling &tiling, int64_t num_partial_rows,
                       const std::set<std::pair<int32_t, int64_t>> &expected) {
  std::set<std::pair<int32_t, int64_t>> seen;  // source, packed row
  for (const PlacedItem &placed : ItemsOf(problem, tiling)) {
    problem->EnterSource(placed.item.source);
    Tile tile;
    problem->FillTile(placed.item, placed.core * kNumAxes + placed.axis, &tile);
    RowRun run;
    for (int32_t row = 0; row < placed.item.num_rows; row += run.num_rows) {
      run = problem->RunAt(tile, row, placed.item.num_rows);
      ASSERT_GT(run.num_rows, 0);
      for (int32_t i = 0; i < run.num_rows; ++i) {
        const bool is_new =
            seen.insert({placed.item.source, run.packed_row + i * run.packed_step}).second;
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
                                            heads.kv_head_num,
                                            Pick(random, {16, 64, 80, 128, 256}));
}

std::unique_ptr<PrefixTestProblem> RandomPrefix(Random *random) {
  std::vector<int64_t> seq_len, kv_seq_len;
  const int64_t batch = Uniform(random, 1, 12);
  for (int64_t b = 0; b < batch; ++b) {
    seq_len.push_back(Pick(random, {0, 1, 5, 127, 128, 300, 1000}));
    kv_seq_len.push_back(seq_len.back() + Pick(random, {0, 1, 100, 1024, 3000}));
  }
  const Heads heads = PickHeads(random);
  return std::make_unique<PrefixTestProblem>(seq_len, kv_seq_len, heads.head_num, heads.kv_head_num,
                                             Pick(random, {16, 64, 80, 128, 256}));
}

struct RelayPlan {
  RelayAttentionTiling tiling;
  HostRelay problem;
  int64_t workspace_bytes = 0;

  RelayPlan(const RelayTestProblem &test, const Platform &platform) {
    std::string error;
    EXPECT_TRUE(
        ComputeRelayAttentionTiling(test.shape, platform, &tiling, &workspace_bytes, &error))
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

template <typename Problem>
WorkSummary SummarizeAll(Problem *problem, const AttentionTiling &tiling, int32_t key_granule) {
  WorkSummary all;
  for (int32_t axis = 0; axis < kNumAxes; ++axis) {
    const WorkSummary work = SummarizeWork(problem, CostModel(tiling.head_size), axis, key_granule);
    all.total_cost += work.total_cost;
    all.min_budget = std::max(all.min_budget, work.min_budget);
  }
  return all;
}

// A core's share is at least five of the dearest items that cannot be cut: only such a problem can
// surely be balanced within 1.15.
template <typename Problem>
bool CanBeBalanced(Problem *problem, const AttentionTiling &tiling, int32_t key_granule) {
  const WorkSummary work = SummarizeAll(problem, tiling, key_granule);
  return work.total_cost >= 5 * work.min_budget * kPlatform24.num_cores;
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

// Whatever their size: what is left are a few tiles that cannot be dealt evenly to the cores.
TEST(Plan, BalancesNearlyAllRandomProblems) {
  Random random(5);
  int num_problems = 0;
  int num_balanced = 0;
  for (int i = 0; i < 200; ++i) {
    const auto relay = RandomRelay(&random);
    RelayPlan relay_plan(*relay, kPlatform24);
    const auto prefix = RandomPrefix(&random);
    PrefixPlan prefix_plan(*prefix, kPlatform24);
    num_problems += 2;
    num_balanced += Imbalance(&relay_plan.problem, relay_plan.tiling.attention) <= 1.15;
    num_balanced += Imbalance(&prefix_plan.problem, prefix_plan.tiling.attention) <= 1.15;
  }
  EXPECT_GE(num_balanced, num_problems * 97 / 100);
}

// Short work, too: the dearest core has at most one piece more than an equal share.
TEST(Plan, NoCoreOfAnyRandomProblemHasMuchMoreThanItsShare) {
  Random random(4);
  for (int i = 0; i < 500; ++i) {
    const auto test = RandomRelay(&random);
    RelayPlan plan(*test, kPlatform24);
    const AttentionTiling &tiling = plan.tiling.attention;
    const WorkSummary work = SummarizeAll(&plan.problem, tiling, kFractal);
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
  EXPECT_LE(sizeof(RelayAttentionTiling), 4096u);
  EXPECT_LE(sizeof(PrefixEncoderTiling), 4096u);
}

}  // namespace
}  // namespace mindspore_relay::aicore
