// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// RelayAttention on AICore, one fused launch: every core attends to its items, then all vector
// cores merge the rows that more than one item has seen.

#include "kernel_operator.h"
// After kernel_operator.h, which the headers below rely on.
#include "../../common/cube_core.h"
#include "../../common/row_merge.h"
#include "../../common/vector_core.h"
#include "../relay_problem.h"

namespace mindspore_relay::aicore {

using RelayWork = RelayProblem<GmInts>;

template <typename T>
class RelayIo {
 public:
  __aicore__ inline void Init(const RelayAttentionTiling &tiling, GM_ADDR key, GM_ADDR value,
                              GM_ADDR key_share, GM_ADDR value_share, GM_ADDR block_tables,
                              GM_ADDR share_block_tables) {
    num_groups_ = tiling.num_groups;
    const bool in_cache = tiling.is_shared_in_cache != 0;
    key_.Init(key, block_tables, tiling.private_kv, tiling.attention);
    value_.Init(value, block_tables, tiling.private_kv, tiling.attention);
    key_share_.Init(in_cache ? key : key_share, share_block_tables, tiling.shared_kv,
                    tiling.attention);
    value_share_.Init(in_cache ? value : value_share, share_block_tables, tiling.shared_kv,
                      tiling.attention);
  }

  __aicore__ inline KvSource<T> Keys(const RelayTile &tile) const {
    return Source(key_share_, key_, tile.item);
  }
  __aicore__ inline KvSource<T> Values(const RelayTile &tile) const {
    return Source(value_share_, value_, tile.item);
  }

 private:
  __aicore__ inline KvSource<T> Source(const KvInput<T> &shared, const KvInput<T> &own,
                                       const WorkItem &item) const {
    return item.source < num_groups_ ? shared.Source(item.source, item.kv_head)
                                     : own.Source(item.source - num_groups_, item.kv_head);
  }

  int32_t num_groups_ = 0;
  KvInput<T> key_;
  KvInput<T> value_;
  KvInput<T> key_share_;
  KvInput<T> value_share_;
};

// Every key of an item is visible to all its rows.
struct NoBias {
  __aicore__ inline void Apply(const LocalTensor<float> & /*scores*/, const RelayTile & /*tile*/,
                               const ScoreStrip & /*strip*/) {}
};

// Merges the parts of the rows that this vector core is dealt.
template <typename T>
class RelayMerge {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, RowOutput<T> *output,
                              const RelayAttentionTiling &tiling, const RelayWork *work) {
    output_ = output;
    tiling_ = &tiling;
    work_ = work;
    merge_.Init(ub, output, tiling.attention.head_size);
  }

  __aicore__ inline void Run() {
    merge_.FreeAllBuffers();
    const int32_t num_tasks = tiling_->attention.batch_size * tiling_->attention.kv_head_num;
    const int32_t num_vector_cores = 2 * tiling_->attention.num_cores;
    for (auto task = static_cast<int32_t>(AscendC::GetBlockIdx()); task < num_tasks;
         task += num_vector_cores) {
      MergeHeads(task / tiling_->attention.kv_head_num, task % tiling_->attention.kv_head_num);
    }
    merge_.WaitAllBuffers();
  }

 private:
  // The part of a request's keys that one source holds.
  struct Part {
    int32_t source;
    int32_t first_row;  // row of the request's first head among the rows of the source
    bool has_keys;
  };

  __aicore__ inline void MergeHeads(int32_t request, int32_t kv_head) {
    const int32_t group = work_->Group(request);
    const int32_t heads = tiling_->attention.heads_per_kv_head;
    Part shared = {group, 0, work_->SharedKeys(request) > 0};
    const Part own = {tiling_->num_groups + request, 0, work_->PrivateKeys(request) > 0};
    // Counting the members before this request is only worth it if a tile of theirs was cut.
    const bool is_group_cut = shared.has_keys && IsCut(group, kAnyTile, kv_head);
    if (is_group_cut) shared.first_row = work_->CountMembers(group, request) * heads;

    int32_t num_rows = 0;
    for (int32_t head = 0; head < heads; head += num_rows) {
      num_rows = Min(kStripRows, heads - head);
      num_rows = Min(num_rows, RowsLeftInTile(shared.first_row + head));
      num_rows = Min(num_rows, RowsLeftInTile(own.first_row + head));
      const bool is_cut = (is_group_cut && IsCut(group, TileOf(shared, head), kv_head)) ||
                          (own.has_keys && IsCut(own.source, TileOf(own, head), kv_head));
      // A row of one part that is in one piece was written by its item.
      if (work_->HasOnePart(request) && !is_cut) continue;
      RowRun run;
      run.num_rows = num_rows;
      run.packed_row = int64_t{request} * tiling_->attention.head_num + kv_head * heads + head;
      run.packed_step = 1;
      merge_.Begin(num_rows);
      AddPieces(shared, kv_head, head, run.packed_row);
      AddPieces(own, kv_head, head, run.packed_row);
      merge_.End();
      output_->StoreFinal(run, 0);
      output_->ReleaseStrip();
    }
  }

  static constexpr int32_t kAnyTile = -1;

  __aicore__ inline int32_t RowsLeftInTile(int32_t row) const {
    return kTileRows - row % kTileRows;
  }
  __aicore__ inline int32_t TileOf(const Part &part, int32_t head) const {
    return (part.first_row + head) / kTileRows;
  }

  // Some core starts inside the unit.
  __aicore__ inline bool IsCut(int32_t source, int32_t tile, int32_t kv_head) const {
    for (int32_t core = 1; core < tiling_->attention.num_cores; ++core) {
      const WorkPosition &start = tiling_->attention.starts[core];
      if (start.source == source && (tile == kAnyTile || start.tile == tile) &&
          start.kv_head == kv_head && start.key > 0) {
        return true;
      }
    }
    return false;
  }

  __aicore__ inline void AddPieces(const Part &part, int32_t kv_head, int32_t head,
                                   int64_t packed_row) {
    if (!part.has_keys) return;
    merge_.AddPart(work_->MainRow(part.source, packed_row));
    const WorkPosition unit = {part.source, TileOf(part, head), kv_head, 0};
    for (int32_t core = 1; core < tiling_->attention.num_cores; ++core) {
      const WorkPosition &start = tiling_->attention.starts[core];
      if (start.key == 0 || !IsSameUnit(start, unit)) continue;
      merge_.AddPart(work_->SplitRow(core, (part.first_row + head) % kTileRows));
    }
  }

  RowOutput<T> *output_ = nullptr;
  const RelayAttentionTiling *tiling_ = nullptr;
  const RelayWork *work_ = nullptr;
  RowMerge<T> merge_;
};

}  // namespace mindspore_relay::aicore

extern "C" __global__ __aicore__ void relay_attention(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR key_share, GM_ADDR value_share,
    GM_ADDR attention_mask, GM_ADDR block_tables, GM_ADDR share_block_tables, GM_ADDR seq_len,
    GM_ADDR kv_seq_len, GM_ADDR kv_share_map, GM_ADDR kv_share_len, GM_ADDR attn_out, GM_ADDR lse,
    GM_ADDR workspace, GM_ADDR tiling) {
  using namespace mindspore_relay::aicore;  // NOLINT: only names of this kernel
  using T = DTYPE_QUERY;
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(mindspore_relay::aicore::RelayAttentionTiling);
  GET_TILING_DATA_WITH_STRUCT(mindspore_relay::aicore::RelayAttentionTiling, tiling_data, tiling);
  GM_ADDR user_workspace = AscendC::GetUserWorkspace(workspace);

  RelayWork work;
  work.Init(&tiling_data, MakeGmInts(kv_seq_len), MakeGmInts(kv_share_map),
            MakeGmInts(kv_share_len));
  AscendC::TPipe pipe;
  if ASCEND_IS_AIC {
    RelayIo<T> io;
    io.Init(tiling_data, key, value, key_share, value_share, block_tables, share_block_tables);
    CubeCore<T, RelayWork, RelayTile, RelayIo<T>> cube;
    cube.Init(&pipe, tiling_data.attention, &work, io, query, user_workspace);
    // The queues of the pipe are not used: give its events back before ours are set.
    pipe.Destroy();
    cube.Run();
    AscendC::SyncAll<false>();
  }
  if ASCEND_IS_AIV {
    UbBuffers<T> ub;
    ub.Init(&pipe, tiling_data.attention.head_size, tiling_data.attention.step_keys);
    pipe.Destroy();
    ub.ClearRowStatistics();
    RowOutput<T> output;
    output.Init(&ub, tiling_data.attention, attn_out, lse, user_workspace);
    output.FreeAllBuffers();
    NoBias bias;
    VectorCore<T, RelayWork, RelayTile, NoBias> vector;
    vector.Init(&ub, &output, tiling_data.attention, &work, &bias, user_workspace);
    vector.Run();
    AscendC::SyncAll<false>();
    RelayMerge<T> merge;
    merge.Init(&ub, &output, tiling_data, &work);
    merge.Run();
    output.WaitAllBuffers();
  }
}
