// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Attention by tiles.
//
//   for each span of the unit's keys          its sum begins anew and is folded into the total
//     for each tile of keys
//       for each kv head of the piece         a token's kv heads lie side by side: read in order
//         state <- state joined with (qk_scale * query . key^T + bias, value)      the tile kernels
//
// Bytes read from memory: each key and value of the unit once, however many rows attend them. The
// plain form of decode reads a shared prefix once per request: with b requests, relay saves (b - 1)
// / b of its bytes.
#include "attention/attend.h"

#include <algorithm>
#include <vector>

#include "attention/hidden_values.h"
#include "attention/mask.h"
#include "attention/softmax_state.h"
#include "attention/work_sizes.h"
#include "cpu/threads.h"

namespace mindspore_relay {
namespace {

// State of several kv heads' rows: [heads][rows].
struct HeadStates {
  float *acc;
  float *row_max;
  float *row_sum;
  int64_t acc_stride;
  int64_t rows;  // per kv head

  TileState Rows(int64_t head_index, int64_t first_row) const {
    const int64_t row = head_index * rows + first_row;
    return {acc + row * acc_stride, row_max + row, row_sum + row, acc_stride};
  }
  TileState Head(int64_t head_index) const { return Rows(head_index, 0); }
};

// A worker's view of its scratch.
struct Scratch {
  char *base;
  const ScratchLayout *layout;

  template <typename T>
  T *At(int64_t offset) const {
    return reinterpret_cast<T *>(base + offset);
  }
  MaskRows Mask() const {
    return {At<int32_t>(layout->visible_keys), At<float>(layout->distance),
            At<const void *>(layout->row_pointers)};
  }
};

HeadStates TotalStates(const Plan &plan, const Scratch &scratch, int64_t rows) {
  return {scratch.At<float>(scratch.layout->total_acc),
          scratch.At<float>(scratch.layout->total_max),
          scratch.At<float>(scratch.layout->total_sum), plan.acc_stride, rows};
}

HeadStates SpanStates(const Plan &plan, const Scratch &scratch, int64_t rows) {
  return {scratch.At<float>(scratch.layout->span_acc), scratch.At<float>(scratch.layout->span_max),
          scratch.At<float>(scratch.layout->span_sum), plan.acc_stride, rows};
}

// All kv heads of one of the unit's slots.
HeadStates SlotStates(const Plan &plan, const Unit &unit, int32_t slot, char *workspace) {
  const SlotLayout layout = MakeSlotLayout(plan, unit);
  float *data =
      reinterpret_cast<float *>(workspace + unit.slots_offset_bytes + slot * layout.bytes);
  return {data, data + layout.row_max_offset_elements, data + layout.row_sum_offset_elements,
          plan.acc_stride, RowsPerKvHead(plan, unit)};
}

struct HeadRange {
  int32_t begin;
  int32_t end;
  int32_t size() const { return end - begin; }
};

int64_t PackedHeadBytes(const Plan &plan, int64_t rows) {
  return plan.dtype_kernels->packed_query_bytes(static_cast<int32_t>(rows), plan.heads.head_size);
}

// Packs the query rows, and fills the slopes, of a piece's kv heads.
void PrepareRows(const Plan &plan, const Unit &unit, HeadRange heads, const Scratch &scratch) {
  const int32_t heads_per_kv_head = plan.heads.heads_per_kv_head;
  const int64_t rows = RowsPerKvHead(plan, unit);
  const void **row_pointers = scratch.At<const void *>(scratch.layout->row_pointers);
  for (int32_t head = heads.begin; head < heads.end; ++head) {
    for (int64_t member = 0; member < unit.num_members; ++member) {
      for (int32_t i = 0; i < heads_per_kv_head; ++i) {
        row_pointers[member * heads_per_kv_head + i] =
            plan.rows.query.At(unit.Token(member), int64_t{head} * heads_per_kv_head + i);
      }
    }
    const int64_t index = head - heads.begin;
    plan.dtype_kernels->pack_query(
        row_pointers, static_cast<int32_t>(rows), plan.heads.head_size,
        scratch.At<char>(scratch.layout->packed_query + index * PackedHeadBytes(plan, rows)));
    FillSlopes(plan, unit, head, scratch.At<float>(scratch.layout->slope) + index * rows);
  }
}

// Keys of the unit's tile that begins at key_begin; 0 behind the last. As many as the kernels take
// at once, but one kKeyTile where a diagonal passes or a table of biases ends, and none of the next
// span.
int32_t TileKeys(const Plan &plan, const Unit &unit, int64_t key_begin) {
  const int64_t span_end = (key_begin / kSpanKeys + 1) * kSpanKeys;
  const bool are_many_rows = RowsPerKvHead(plan, unit) > plan.dtype_kernels->rows_for_max_keys;
  int64_t most = are_many_rows ? plan.dtype_kernels->max_keys : kKeyTile;
  most = std::min(most, span_end - key_begin);
  if (unit.first_position != kNoDiagonal) {
    const int64_t seen_by_all = (unit.first_position + 1 - key_begin) / kKeyTile * kKeyTile;
    most = plan.bias.table != nullptr ? kKeyTile : std::clamp<int64_t>(seen_by_all, kKeyTile, most);
  }
  return static_cast<int32_t>(std::clamp<int64_t>(unit.num_keys - key_begin, 0, most));
}

// Keys that a worker reads next: those of a unit from key_begin on, of some kv heads. Only their
// first tile counts. unit == nullptr: it is not known.
struct NextKeys {
  const Unit *unit;
  int64_t key_begin;
  HeadRange heads;
};

// What to fetch of the next tile in the turn `index` of `count` turns, which is how many kv heads
// of this tile are attended meanwhile: a share of the tokens, with all of the next tile's heads, so
// that memory is read in order. Where heads do not lie side by side: one head of all tokens.
PrefetchRows ShareOfRows(const KvSide &side, const void *const *rows, int32_t num_rows,
                         HeadRange heads, int32_t index, int32_t count) {
  const int32_t head_bytes = static_cast<int32_t>(side.head_bytes);
  if (side.head_stride_bytes != head_bytes) {
    if (index >= heads.size()) return {};
    return {rows, (heads.begin + index) * side.head_stride_bytes, head_bytes, num_rows};
  }
  const int32_t begin = index * num_rows / count;
  const int32_t end = (index + 1) * num_rows / count;
  return {rows + begin, heads.begin * side.head_stride_bytes, heads.size() * head_bytes,
          end - begin};
}

// One call of the tile kernels. Values behind a row's diagonal must not reach it, not even as
// 0 x NaN.
void AttendTile(const Plan &plan, const Scratch &scratch, AttendArgs *args) {
  const int32_t *visible_keys = args->mask.visible_keys;
  if (visible_keys == nullptr) return plan.dtype_kernels->attend(*args);
  const int32_t first_hidden = visible_keys[0];  // the first row stands first: it sees the fewest
  const KvTile tile = args->tile;
  const void *rows[kKeyTile];
  const bool is_cleaned =
      CleanHiddenValues(plan.heads, tile, first_hidden,
                        scratch.At<char>(scratch.layout->hidden_values), rows, &args->tile);
  plan.dtype_kernels->attend(*args);
  if (!is_cleaned) return;
  args->tile = tile;
  AddSeenValues(plan.heads, tile, first_hidden, visible_keys, args->num_rows, args->state);
}

// states <- states joined with one span of the unit's keys; `behind` are read after it. PrepareRows
// has run for the same unit and heads.
void AttendSpan(const Plan &plan, const Unit &unit, HeadRange heads, int64_t span,
                const NextKeys &behind, const Scratch &scratch, const HeadStates &states) {
  const int64_t end = std::min(unit.num_keys, (span + 1) * kSpanKeys);
  AttendArgs args = {};
  args.num_rows = static_cast<int32_t>(states.rows);
  args.head_size = plan.heads.head_size;
  args.value_head_size = plan.heads.value_head_size;
  args.qk_scale = plan.heads.qk_scale;
  args.scratch = scratch.At<char>(scratch.layout->kernels);
  const MaskRows mask_rows = scratch.Mask();
  KvTileRows rows[2];  // of this tile and of the next, which is fetched meanwhile
  int32_t turn = 0;
  const auto load = [&](const NextKeys &keys) {
    turn = 1 - turn;
    if (keys.unit == nullptr) return KvTile{};
    return LoadKvTile(*keys.unit->source, keys.key_begin,
                      TileKeys(plan, *keys.unit, keys.key_begin), &rows[turn]);
  };
  const int64_t begin = span * kSpanKeys;
  KvTile next = load({&unit, begin, heads});
  for (int64_t key_begin = begin; key_begin < end; key_begin += args.tile.num_keys) {
    args.tile = next;
    const int64_t next_begin = key_begin + args.tile.num_keys;
    const NextKeys next_keys = next_begin < end ? NextKeys{&unit, next_begin, heads} : behind;
    next = load(next_keys);
    args.mask = MakeTileMask(plan, unit, key_begin, args.tile.num_keys, mask_rows);
    for (int32_t head = heads.begin; head < heads.end; ++head) {
      const int32_t index = head - heads.begin;
      SelectKvHead(*unit.source, head, &args.tile);
      if (next.num_keys > 0) {
        const KvSource &source = *next_keys.unit->source;
        args.next_keys = ShareOfRows(source.key, next.key_rows, NumRows(next), next_keys.heads,
                                     index, heads.size());
        args.next_values = ShareOfRows(source.value, next.value_rows, NumRows(next),
                                       next_keys.heads, index, heads.size());
      } else {
        args.next_keys = args.next_values = {};
      }
      SelectMaskHead(plan, unit, key_begin, head,
                     scratch.At<float>(scratch.layout->slope) + index * states.rows, mask_rows,
                     &args.mask);
      args.query = scratch.At<char>(scratch.layout->packed_query +
                                    index * PackedHeadBytes(plan, states.rows));
      args.state = states.Head(index);
      AttendTile(plan, scratch, &args);
    }
  }
}

// states <- states joined with spans [span_begin, span_end), folded in order; `behind` are read
// after them. is_empty: states hold no key yet, and the first span is attended in place (a fold
// into an empty total is a copy).
void AttendSpans(const Plan &plan, const Unit &unit, HeadRange heads, int64_t span_begin,
                 int64_t span_end, bool is_empty, const NextKeys &behind, const Scratch &scratch,
                 const HeadStates &states) {
  PrepareRows(plan, unit, heads, scratch);
  const HeadStates span_states = SpanStates(plan, scratch, states.rows);
  for (int64_t span = span_begin; span < span_end && !Interrupted(); ++span) {
    const NextKeys next_span = {&unit, (span + 1) * kSpanKeys, heads};
    const NextKeys &next = span + 1 < span_end ? next_span : behind;
    if (is_empty) {
      AttendSpan(plan, unit, heads, span, next, scratch, states);
      is_empty = false;
      continue;
    }
    const int64_t head_rows = heads.size() * states.rows;
    ResetState(span_states.Head(0), head_rows);
    AttendSpan(plan, unit, heads, span, next, scratch, span_states);
    FoldState(*plan.kernels, states.Head(0), span_states.Head(0), head_rows,
              plan.heads.value_head_size);
  }
}

// The first keys that a piece reads; none where it only folds slots.
NextKeys FirstKeys(const Plan &plan, const PartialPiece &piece) {
  return {
      &plan.units[piece.unit], piece.span_begin * kSpanKeys, {piece.head_begin, piece.head_end}};
}
NextKeys FirstKeys(const Plan &plan, const FinalPiece &piece) {
  const HeadRange heads = {piece.head_begin, piece.head_end};
  for (const int32_t index : {piece.prior_unit, piece.unit}) {
    if (index < 0) continue;
    const Unit &unit = plan.units[index];
    if (unit.num_slots == 0 && unit.num_keys > 0) return {&unit, 0, heads};
  }
  return {nullptr, 0, heads};
}

void RunPartialPiece(const Plan &plan, const PartialPiece &piece, const NextKeys &behind,
                     char *workspace, const Scratch &scratch) {
  const Unit &unit = plan.units[piece.unit];
  HeadStates states = SlotStates(plan, unit, piece.slot, workspace);
  const TileState first = states.Head(piece.head_begin);
  states = {first.acc, first.row_max, first.row_sum, states.acc_stride, states.rows};
  const HeadRange heads = {piece.head_begin, piece.head_end};
  ResetState(states.Head(0), heads.size() * states.rows);
  AttendSpans(plan, unit, heads, piece.span_begin, piece.span_end, /*is_empty=*/true, behind,
              scratch, states);
}

// total <- total joined with a unit: its slots when it has some, else its keys; `behind` are read
// after these.
void JoinUnit(const Plan &plan, const Unit &unit, int32_t first_member, HeadRange heads,
              bool is_empty, const NextKeys &behind, char *workspace, const Scratch &scratch,
              const HeadStates &total) {
  if (unit.num_slots == 0) {
    AttendSpans(plan, unit, heads, 0, (unit.num_keys + kSpanKeys - 1) / kSpanKeys, is_empty, behind,
                scratch, total);
    return;
  }
  const int64_t first_row = int64_t{first_member} * plan.heads.heads_per_kv_head;
  for (int32_t slot = 0; slot < unit.num_slots; ++slot) {
    const HeadStates part = SlotStates(plan, unit, slot, workspace);
    for (int32_t head = heads.begin; head < heads.end; ++head) {
      FoldState(*plan.kernels, total.Head(head - heads.begin), part.Rows(head, first_row),
                total.rows, plan.heads.value_head_size);
    }
  }
}

void WriteRows(const Plan &plan, const Unit &unit, HeadRange heads, const HeadStates &total) {
  const int32_t heads_per_kv_head = plan.heads.heads_per_kv_head;
  for (int32_t head = heads.begin; head < heads.end; ++head) {
    const TileState state = total.Head(head - heads.begin);
    for (int64_t row = 0; row < total.rows; ++row) {
      const int64_t token = unit.Token(row / heads_per_kv_head);
      const int64_t query_head = int64_t{head} * heads_per_kv_head + row % heads_per_kv_head;
      float *lse = plan.rows.lse.data == nullptr
                       ? nullptr
                       : reinterpret_cast<float *>(plan.rows.lse.At(token, query_head));
      FinishRow(*plan.dtype_kernels, state.acc + row * state.acc_stride, state.row_max[row],
                state.row_sum[row], plan.heads.value_head_size, plan.rows.out.At(token, query_head),
                lse);
    }
  }
}

void RunFinalPiece(const Plan &plan, const FinalPiece &piece, const NextKeys &behind,
                   char *workspace, const Scratch &scratch) {
  const Unit &unit = plan.units[piece.unit];
  const HeadRange heads = {piece.head_begin, piece.head_end};
  const HeadStates total = TotalStates(plan, scratch, RowsPerKvHead(plan, unit));
  ResetState(total.Head(0), heads.size() * total.rows);
  const bool has_prior = piece.prior_unit >= 0;
  if (has_prior) {
    const bool is_unit_read = unit.num_slots == 0 && unit.num_keys > 0;
    JoinUnit(plan, plan.units[piece.prior_unit], piece.prior_member, heads, /*is_empty=*/true,
             is_unit_read ? NextKeys{&unit, 0, heads} : behind, workspace, scratch, total);
  }
  JoinUnit(plan, unit, 0, heads, /*is_empty=*/!has_prior, behind, workspace, scratch, total);
  WriteRows(plan, unit, heads, total);
}

struct RunContext {
  const Plan &plan;
  char *workspace;

  Scratch WorkerScratch(int32_t worker) const {
    return {workspace + plan.slots_bytes + worker * plan.scratch.bytes, &plan.scratch};
  }
};

void RunPartialTask(void *opaque, const TaskTurn &turn) {
  const RunContext &run = *static_cast<RunContext *>(opaque);
  const std::vector<PartialPiece> &pieces = run.plan.partial_pieces;
  const std::vector<FinalPiece> &finals = run.plan.final_pieces;
  // The last pieces of phase 1 are followed by the first of phase 2.
  const NextKeys behind = turn.next >= 0 ? FirstKeys(run.plan, pieces[turn.next])
                                         : FirstKeys(run.plan, finals[turn.worker % finals.size()]);
  RunPartialPiece(run.plan, pieces[turn.index], behind, run.workspace,
                  run.WorkerScratch(turn.worker));
}

void RunFinalTask(void *opaque, const TaskTurn &turn) {
  const RunContext &run = *static_cast<RunContext *>(opaque);
  const std::vector<FinalPiece> &pieces = run.plan.final_pieces;
  const NextKeys behind =
      turn.next >= 0 ? FirstKeys(run.plan, pieces[turn.next]) : NextKeys{nullptr, 0, {0, 0}};
  RunFinalPiece(run.plan, pieces[turn.index], behind, run.workspace,
                run.WorkerScratch(turn.worker));
}

}  // namespace

void RunPlan(const Plan &plan, void *workspace) {
  RunContext run = {plan, static_cast<char *>(workspace)};
  ParallelFor(static_cast<int64_t>(plan.partial_pieces.size()), plan.num_workers, RunPartialTask,
              &run, /*is_followed=*/true);
  ParallelFor(static_cast<int64_t>(plan.final_pieces.size()), plan.num_workers, RunFinalTask, &run);
}

}  // namespace mindspore_relay
