// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// PrefixEncoder on AICore, one fused launch: every core attends to its items, then all vector cores
// merge the tiles whose keys were cut between cores.

#include "kernel_operator.h"
// After kernel_operator.h, which the headers below rely on.
#include "../../common/cube_core.h"
#include "../../common/number_mode.h"
#include "../../common/row_merge.h"
#include "prefix_bias.h"

namespace mindspore_relay::aicore {

using PrefixWork = PrefixProblem<GmInts>;

// Merges the units that were cut. Core c has the piece in the middle or at the end of a cut unit if
// it starts behind key 0; the core before the first such core has the unit's first piece.
template <typename T>
class PrefixMerge {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, RowOutput<T> *output,
                              const PrefixEncoderTiling &tiling, PrefixWork *work) {
    output_ = output;
    tiling_ = &tiling;
    work_ = work;
    merge_.Init(ub, output, tiling.attention.head_size);
  }

  __aicore__ inline void Run() {
    merge_.FreeAllBuffers();
    for (int32_t core = 1; core < tiling_->attention.num_cores; ++core) {
      const WorkPosition &start = tiling_->attention.starts[0][core];
      const bool continues = tiling_->attention.starts[0][core - 1].key > 0 &&
                             IsSameUnit(start, tiling_->attention.starts[0][core - 1]);
      if (start.key > 0 && !continues) MergeUnit(core);
    }
    merge_.WaitAllBuffers();
  }

 private:
  // first_split: the first core that starts inside the unit.
  __aicore__ inline void MergeUnit(int32_t first_split) {
    const WorkPosition &start = tiling_->attention.starts[0][first_split];
    work_->EnterSource(start.source);
    WorkItem item;
    item.source = start.source;
    item.tile = start.tile;
    item.kv_head = start.kv_head;
    item.num_rows = work_->NumRows(start.tile);
    item.key_begin = 0;
    item.unit_keys = work_->NumKeys(start.tile);
    item.key_end = item.unit_keys;
    PrefixTile tile;
    work_->FillTile(item, first_split * kNumAxes, &tile);
    for (int32_t row = 0; row < item.num_rows; row += kStripRows, ++strip_) {
      if (strip_ % (2 * tiling_->attention.num_cores) == AscendC::GetBlockIdx()) {
        MergeStrip(tile, first_split, row);
      }
    }
  }

  __aicore__ inline void MergeStrip(const PrefixTile &tile, int32_t first_split, int32_t row) {
    const int32_t num_rows = Min(kStripRows, tile.item.num_rows - row);
    merge_.Begin(num_rows);
    merge_.AddPart(work_->SplitRow(first_split - 1, false, row));
    const WorkPosition &unit = tiling_->attention.starts[0][first_split];
    for (int32_t core = first_split; core < tiling_->attention.num_cores; ++core) {
      const WorkPosition &start = tiling_->attention.starts[0][core];
      if (!IsSameUnit(start, unit)) break;
      merge_.AddPart(work_->SplitRow(core, true, row));
    }
    merge_.End();
    RowRun run;
    for (int32_t done = 0; done < num_rows; done += run.num_rows) {
      run = work_->RunAt(tile, row + done, row + num_rows);
      output_->StoreFinal(run, done);
    }
    output_->ReleaseStrip();
  }

  RowOutput<T> *output_ = nullptr;
  const PrefixEncoderTiling *tiling_ = nullptr;
  PrefixWork *work_ = nullptr;
  RowMerge<T> merge_;
  int32_t strip_ = 0;  // strips of all cut units so far, dealt in turn to the vector cores
};

}  // namespace mindspore_relay::aicore

// The operator compiler sets the dtype; without it, as for a syntax check, this is the float16
// form.
#ifndef DTYPE_QUERY
#define DTYPE_QUERY half
#endif

extern "C" __global__ __aicore__ void prefix_encoder(GM_ADDR query, GM_ADDR key, GM_ADDR value,
                                                     GM_ADDR block_tables, GM_ADDR mask,
                                                     GM_ADDR slopes, GM_ADDR seq_len,
                                                     GM_ADDR kv_seq_len, GM_ADDR attn_out,
                                                     GM_ADDR lse, GM_ADDR workspace,
                                                     GM_ADDR tiling) {
  using namespace mindspore_relay::aicore;  // NOLINT: only names of this kernel
  using T = DTYPE_QUERY;
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(mindspore_relay::aicore::PrefixEncoderTiling);
  GET_TILING_DATA_WITH_STRUCT(mindspore_relay::aicore::PrefixEncoderTiling, tiling_data, tiling);
  GM_ADDR user_workspace = AscendC::GetUserWorkspace(workspace);
  KeepInfinityAndNan();

  PrefixWork work;
  work.Init(&tiling_data, MakeGmInts(seq_len), MakeGmInts(kv_seq_len));
  PrefixIo<T> io;
  io.Init(tiling_data, key, value, block_tables);
  AscendC::TPipe pipe;
  if ASCEND_IS_AIC {
    CubeCore<T, PrefixWork, PrefixTile, PrefixIo<T>> cube_core;
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
    PrefixBias<T> bias;
    bias.Init(&ub, tiling_data, io, mask, slopes);
    VectorCore<T, PrefixWork, PrefixTile, PrefixBias<T>> vector_core;
    vector_core.Init(&ub, &output, tiling_data.attention, &work, &bias, user_workspace);
    vector_core.Run();
    AscendC::SyncAll<false>();
    PrefixMerge<T> merge;
    merge.Init(&ub, &output, tiling_data, &work);
    merge.Run();
    output.WaitAllBuffers();
  }
}
