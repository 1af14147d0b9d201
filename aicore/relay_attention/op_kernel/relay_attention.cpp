// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// RelayAttention on AICore, one fused launch: every core attends to its items, then all vector
// cores merge the rows that more than one item has seen.

#include "kernel_operator.h"
// After kernel_operator.h, which the headers below rely on.
#include "../../common/cube_core.h"
#include "../../common/number_mode.h"
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
template <typename T>
struct NoBias {
  __aicore__ inline void Apply(const LocalTensor<float> & /*scores*/, const RelayTile & /*tile*/,
                               const ScoreStrip & /*strip*/) {}
  __aicore__ inline bool HidesKeys(const RelayTile & /*tile*/, const ScoreStrip & /*strip*/) const {
    return false;
  }
  __aicore__ inline void KeepHiddenOut(const LocalTensor<float> & /*step_out*/,
                                       const AscendC::GlobalTensor<T> & /*probs*/,
                                       const RelayTile & /*tile*/, const ScoreStrip & /*strip*/) {}
};

// Merges the parts of the rows that this vector core is dealt: strips of kStripRows heads of a
// request.
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
    const int32_t strips = CeilDiv(tiling_->attention.head_num, kStripRows);
    const int32_t num_tasks = tiling_->attention.batch_size * strips;
    const int32_t num_vector_cores = 2 * tiling_->attention.num_cores;
    for (auto task = static_cast<int32_t>(AscendC::GetBlockIdx()); task < num_tasks;
         task += num_vector_cores) {
      MergeStrip(task / strips, task % strips * kStripRows);
    }
    merge_.WaitAllBuffers();
  }

 private:
  // The part of a request's keys that one source holds.
  struct Part {
    int32_t source;
    int32_t first_row;  // row of a kv head's first query head among the rows of the source
    bool has_keys;
  };

  // Heads [first_head, first_head + kStripRows) of a request.
  __aicore__ inline void MergeStrip(int32_t request, int32_t first_head) {
    const int32_t group = work_->Group(request);
    const int32_t heads = tiling_->attention.heads_per_kv_head;
    const int32_t end = Min(first_head + kStripRows, tiling_->attention.head_num);
    Part shared = {group, 0, work_->SharedKeys(request) > 0};
    const Part own = {tiling_->num_groups + request, 0, work_->PrivateKeys(request) > 0};
    CollectCuts(shared, own);
    // Counting the members before this request is only worth it if a tile of theirs was cut.
    if (IsCut(group, kAny, kAny)) shared.first_row = work_->CountMembers(group, request) * heads;

    int32_t num_rows = 0;
    for (int32_t head = first_head; head < end; head += num_rows) {
      const int32_t kv_head = head / heads;
      const int32_t in_head = head % heads;
      bool is_cut = false;
      if (IsHeadCut(group, own, kv_head)) {
        num_rows = Min(end - head, heads - in_head);
        num_rows = Min(num_rows, RowsLeftInTile(shared.first_row + in_head));
        num_rows = Min(num_rows, RowsLeftInTile(own.first_row + in_head));
        is_cut = IsCut(group, TileOf(shared, in_head), kv_head) ||
                 IsCut(own.source, TileOf(own, in_head), kv_head);
      } else {
        // Kv heads in one piece are merged together: their rows lie side by side.
        int32_t stop = (kv_head + 1) * heads;
        while (stop < end && !IsHeadCut(group, own, stop / heads)) stop += heads;
        num_rows = Min(stop, end) - head;
      }
      // A row of one part that is in one piece was written by its item.
      if (work_->HasOnePart(request) && !is_cut) continue;
      RowRun run;
      run.num_rows = num_rows;
      run.packed_row = int64_t{request} * tiling_->attention.head_num + head;
      run.packed_step = 1;
      merge_.Begin(num_rows);
      AddPieces(shared, kv_head, in_head, run.packed_row);
      AddPieces(own, kv_head, in_head, run.packed_row);
      merge_.End();
      output_->StoreFinal(run, 0);
      output_->ReleaseStrip();
    }
  }

  static constexpr int32_t kAny = -1;

  __aicore__ inline int32_t RowsLeftInTile(int32_t row) const {
    return kTileRows - row % kTileRows;
  }
  __aicore__ inline int32_t TileOf(const Part &part, int32_t in_head) const {
    return (part.first_row + in_head) / kTileRows;
  }

  // Where the range with the given slot starts.
  __aicore__ inline const WorkPosition &StartOf(int32_t slot) const {
    return tiling_->attention.starts[slot % kNumAxes][slot / kNumAxes];
  }

  // The ranges that start inside a unit of one of the two sources.
  __aicore__ inline void CollectCuts(const Part &shared, const Part &own) {
    num_cuts_ = 0;
    for (int32_t slot = kNumAxes; slot < tiling_->attention.num_cores * kNumAxes; ++slot) {
      const Part &part = slot % kNumAxes == 0 ? shared : own;
      const WorkPosition &start = StartOf(slot);
      // An idle core starts where the next one does.
      const bool is_idle = !IsBefore(start, StartOf(slot + kNumAxes));
      if (part.has_keys && !is_idle && start.source == part.source && start.key > 0) {
        cut_slots_[num_cuts_++] = slot;
      }
    }
  }

  // One of them starts inside such a unit; tile and kv_head may be kAny.
  __aicore__ inline bool IsCut(int32_t source, int32_t tile, int32_t kv_head) const {
    for (int32_t cut = 0; cut < num_cuts_; ++cut) {
      const WorkPosition &start = StartOf(cut_slots_[cut]);
      if (start.source == source && (tile == kAny || start.tile == tile) &&
          (kv_head == kAny || start.kv_head == kv_head)) {
        return true;
      }
    }
    return false;
  }
  __aicore__ inline bool IsHeadCut(int32_t group, const Part &own, int32_t kv_head) const {
    return IsCut(group, kAny, kv_head) || IsCut(own.source, kAny, kv_head);
  }

  __aicore__ inline void AddPieces(const Part &part, int32_t kv_head, int32_t in_head,
                                   int64_t packed_row) {
    if (!part.has_keys) return;
    merge_.AddPart(work_->MainRow(part.source, packed_row));
    const WorkPosition unit = {part.source, TileOf(part, in_head), kv_head, 0};
    for (int32_t cut = 0; cut < num_cuts_; ++cut) {
      if (!IsSameUnit(StartOf(cut_slots_[cut]), unit)) continue;
      merge_.AddPart(work_->SplitRow(cut_slots_[cut], (part.first_row + in_head) % kTileRows));
    }
  }

  RowOutput<T> *output_ = nullptr;
  const RelayAttentionTiling *tiling_ = nullptr;
  const RelayWork *work_ = nullptr;
  RowMerge<T> merge_;
  int32_t num_cuts_ = 0;
  int32_t cut_slots_[kMaxCores * kNumAxes];
};

}  // namespace mindspore_relay::aicore

// The operator compiler sets the dtype; without it, as for a syntax check, this is the float16
// form.
#ifndef DTYPE_QUERY
#define DTYPE_QUERY half
#endif

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
  KeepInfinityAndNan();

  RelayWork work;
  work.Init(&tiling_data, MakeGmInts(kv_seq_len), MakeGmInts(kv_share_map),
            MakeGmInts(kv_share_len));
  AscendC::TPipe pipe;
  if ASCEND_IS_AIC {
    RelayIo<T> io;
    io.Init(tiling_data, key, value, key_share, value_share, block_tables, share_block_tables);
    CubeCore<T, RelayWork, RelayTile, RelayIo<T>> cube_core;
    cube_core.Init(&pipe, tiling_data.attention, &work, io, query, user_workspace);
    // The queues of the pipe are not used: give its events back before ours are set.
    pipe.Destroy();
    cube_core.Run();
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
    NoBias<T> bias;
    VectorCore<T, RelayWork, RelayTile, NoBias<T>> vector_core;
    vector_core.Init(&ub, &output, tiling_data.attention, &work, &bias, user_workspace);
    vector_core.Run();
    AscendC::SyncAll<false>();
    RelayMerge<T> merge;
    merge.Init(&ub, &output, tiling_data, &work);
    merge.Run();
    output.WaitAllBuffers();
  }
}
