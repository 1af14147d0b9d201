// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plan of a call: which rows attend which keys together, in which pieces, and where partial
// results lie. Pure: it reads a problem and writes a Plan; nothing is computed, no tensor is
// touched.
//
// Words:
//   unit    rows that attend the same keys: the requests of a group with its prefix (relay), one
//           request with its private keys, a query tile of a prefill request with its cached keys
//   span    kSpanKeys keys of a unit's part, summed on their own
//   slot    a partial result of all rows and kv heads of a unit, in the workspace
//   piece   what one thread does at once: a unit, some kv heads, some spans
//   final   the rows whose results are finished together: slots and spans of at most two units,
//           folded in key order
//
// Phase 1 fills slots, phase 2 finishes rows: it folds slots, attends the spans of units without
// slots in place, divides and writes. Partial results thus only exist where several threads, or
// requests and their group, must meet.
#ifndef MINDSPORE_RELAY_ATTENTION_PLAN_H_
#define MINDSPORE_RELAY_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "attention/params.h"

namespace mindspore_relay {

// Position of a unit whose rows see all its keys.
constexpr int64_t kNoDiagonal = -1;

struct Unit {
  const KvSource *source = nullptr;
  const int32_t *members =
      nullptr;  // [num_members] query tokens; nullptr: first_token, first_token + 1, ...
  int64_t first_token = 0;
  int32_t num_members = 0;
  int64_t num_keys = 0;  // keys that any row sees
  int64_t first_position =
      kNoDiagonal;        // position of the first member; member i sees keys <= first_position + i
  int32_t num_slots = 0;  // 0: attended in phase 2; 1: all spans folded; else one per span
  int64_t slots_offset_bytes = 0;  // in the workspace

  int64_t Token(int64_t member) const {
    return members != nullptr ? members[member] : first_token + member;
  }
};

struct PartialPiece {  // phase 1
  int32_t unit;
  int32_t slot;
  int32_t head_begin, head_end;  // kv heads
  int64_t span_begin, span_end;
};

struct FinalPiece {      // phase 2
  int32_t prior_unit;    // unit whose keys come first, or -1
  int32_t prior_member;  // first row's member in it
  int32_t unit;          // the rows' own unit
  int32_t head_begin, head_end;
  int64_t cost;
};

// Where a worker keeps what it works on. Offsets in bytes from its scratch; every array is 64-byte
// aligned.
struct ScratchLayout {
  int64_t packed_query = 0;  // [heads of a piece] blocks of packed_query_bytes(rows)
  int64_t total_acc = 0, total_max = 0, total_sum = 0;  // [heads][rows][acc_stride], [heads][rows]
  int64_t span_acc = 0, span_max = 0, span_sum = 0;     // likewise
  int64_t row_pointers = 0;                             // const void *[rows]
  int64_t visible_keys = 0;                             // int32_t [rows]
  int64_t slope = 0;                                    // float [heads][rows]
  int64_t distance = 0;                                 // float [rows]
  int64_t hidden_values = 0;                            // hidden_values.h; prefill only
  int64_t kernels = 0;                                  // scratch of the tile kernels
  int64_t bytes = 0;
};

struct Plan {
  HeadParams heads;
  RowTensors rows;
  BiasParams bias;  // PrefixEncoder only
  const TileKernels *kernels = nullptr;
  const DTypeKernels *dtype_kernels = nullptr;
  int64_t acc_stride = 0;  // elements
  std::vector<Unit> units;
  std::vector<PartialPiece> partial_pieces;
  std::vector<FinalPiece> final_pieces;
  std::vector<int32_t> members;       // requests, group by group
  std::vector<int32_t> member_begin;  // [num_groups + 1], into members
  std::vector<Path> group_path;       // [num_groups]: kRelay or kPlain
  // [batch]: unit and member of the request's prefix, for the planner.
  std::vector<int32_t> prior_unit;
  std::vector<int32_t> prior_member;
  ScratchLayout scratch;
  int64_t slots_bytes = 0;
  int32_t num_workers = 1;
  int64_t workspace_bytes = 0;  // slots_bytes + num_workers * scratch.bytes
};

// The problem must live and stay unchanged as long as the plan is used: units point into it. Memory
// of an earlier plan in *plan is used again. num_threads >= 1.
void PlanRelayAttention(const RelayAttentionProblem &problem, const TileKernels &kernels,
                        int32_t num_threads, Plan *plan);
void PlanPrefixEncoder(const PrefixEncoderProblem &problem, const TileKernels &kernels,
                       int32_t num_threads, Plan *plan);

// A group, as far as its path depends on it.
struct GroupSize {
  int64_t num_members;  // requests
  int64_t num_keys;     // shared keys
  bool is_packed;
};

// Relay or plain for a group: the cheaper one, as far as kTileRowsOverhead, kJoinKeys and
// kPhaseKeys tell. Threads share a phase only if it has some work (kMinParallelMacs).
Path ChoosePath(Path wanted, const HeadParams &heads, const GroupSize &group, int32_t num_threads);

// Bytes and element offsets of a unit's slots, shared with the code that fills and folds them.
//   acc [kv_head_num][rows][acc_stride], then row_max [kv_head_num][rows], then row_sum
//   [kv_head_num][rows]
struct SlotLayout {
  int64_t row_max_offset_elements;
  int64_t row_sum_offset_elements;
  int64_t bytes;
};
SlotLayout MakeSlotLayout(const Plan &plan, const Unit &unit);

inline int64_t RowsPerKvHead(const Plan &plan, const Unit &unit) {
  return int64_t{unit.num_members} * plan.heads.heads_per_kv_head;
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_PLAN_H_
