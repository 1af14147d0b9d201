// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/plan.h"

#include <algorithm>

#include "attention/hidden_values.h"
#include "attention/work_sizes.h"
#include "common/int_math.h"

namespace mindspore_relay {
namespace {

constexpr int64_t kAlignBytes = 64;

int64_t NumSpans(const Unit &unit) { return CeilDiv(unit.num_keys, kSpanKeys); }

// Sizes and costs of a problem that nobody can run stay at the largest number, so that all that
// follows from them is large too: descriptions cost nothing, and a caller may describe 2^31 heads.
int64_t Add(int64_t a, int64_t b) {
  int64_t sum;
  return AddFits(a, b, &sum) ? sum : INT64_MAX;
}
int64_t Multiply(int64_t a, int64_t b) {
  int64_t product;
  return MultiplyFits(a, b, &product) ? product : INT64_MAX;
}

// Work of a unit over all kv heads, in rows attending one key.
int64_t UnitCost(const Plan &plan, const Unit &unit) {
  const int64_t head_rows = RowsPerKvHead(plan, unit) + kTileRowsOverhead;
  return Multiply(unit.num_keys, head_rows * plan.heads.kv_head_num);
}

int64_t TotalCost(const Plan &plan) {
  int64_t total = 0;
  for (const Unit &unit : plan.units) total = Add(total, UnitCost(plan, unit));
  return total;
}

void ResetPlan(const HeadParams &heads, const RowTensors &rows, const TileKernels &kernels,
               Plan *plan) {
  plan->heads = heads;
  plan->rows = rows;
  plan->bias = BiasParams();
  plan->kernels = &kernels;
  plan->dtype_kernels = &KernelsFor(kernels, heads.dtype);
  plan->acc_stride = RoundUp(heads.value_head_size, kAccumulatorPad);
  plan->units.clear();
  plan->partial_pieces.clear();
  plan->final_pieces.clear();
  plan->members.clear();
  plan->member_begin.clear();
  plan->group_path.clear();
  plan->prior_unit.clear();
  plan->prior_member.clear();
  plan->slots_bytes = 0;
}

// How the kv heads and spans of a unit are cut.
struct Cut {
  int32_t heads;     // kv heads per piece
  bool is_per_span;  // each span is a piece with a slot of its own
};

// Kv heads whose state fits the budget together. All of them when rows are few: a token's heads lie
// side by side in memory, and reading them in order is what DRAM likes best.
int32_t HeadsThatFit(const Plan &plan, const Unit &unit) {
  const int64_t state_bytes =
      RowsPerKvHead(plan, unit) * plan.acc_stride * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = kStateBudgetBytes / std::max<int64_t>(1, state_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(fitting, 1, plan.heads.kv_head_num));
}

// Kv heads that lie so many bytes side by side in each token, or all.
int32_t HeadsToRead(const Plan &plan, int64_t bytes) {
  const int64_t head_bytes = plan.heads.head_size * DTypeBytes(plan.heads.dtype);
  return static_cast<int32_t>(
      std::min<int64_t>(CeilDiv(bytes, head_bytes), plan.heads.kv_head_num));
}

// pieces: how many the unit should be cut into to be a fair share of the work. prefer_spans:
// whether to cut by spans before heads (partial results are small, or needed anyway).
Cut ChooseCut(const Plan &plan, const Unit &unit, int64_t pieces, bool prefer_spans) {
  const int32_t kv_heads = plan.heads.kv_head_num;
  const int32_t fitting = HeadsThatFit(plan, unit);
  const int64_t num_spans = NumSpans(unit);
  if (CeilDiv(kv_heads, fitting) >= pieces) return {fitting, false};
  if (!prefer_spans && (kv_heads >= pieces || num_spans <= 1)) {
    return {static_cast<int32_t>(std::max<int64_t>(1, kv_heads / pieces)), false};
  }
  const int64_t head_pieces = CeilDiv(pieces, std::max<int64_t>(1, num_spans));
  const int32_t heads = static_cast<int32_t>(std::max<int64_t>(1, kv_heads / head_pieces));
  return {std::min(fitting, heads), num_spans > 1};
}

// In decode memory is the limit: a piece has as many kv heads as are read in one go, unless threads
// would have nothing to do.
void WidenForReading(const Plan &plan, const Unit &unit, int32_t num_threads, Cut *cut) {
  const int64_t num_slices = cut->is_per_span ? NumSpans(unit) : 1;
  const int64_t for_all_threads = num_slices * plan.heads.kv_head_num / num_threads;
  const int64_t heads = std::min(
      {int64_t{HeadsToRead(plan, kReadBytes)}, int64_t{HeadsThatFit(plan, unit)}, for_all_threads});
  cut->heads = std::max(cut->heads, static_cast<int32_t>(heads));
}

// Whether the unit's spans divide among several threads with hardly any of them idle.
bool DoSpansFill(const Unit &unit, int32_t num_threads) {
  const int64_t num_spans = NumSpans(unit);
  const int64_t num_turns = CeilDiv(num_spans, num_threads);
  return num_threads > 1 && num_turns * num_threads * (1 - kMostIdle) <= num_spans;
}

// End of a piece of `count` kv heads that begins at `head`.
int32_t HeadEnd(const Plan &plan, int32_t head, int32_t count) {
  return head + std::min(count, plan.heads.kv_head_num - head);
}

// Gives the unit slots and the pieces that fill them.
void AddPartialPieces(const Cut &cut, int32_t unit_index, Plan *plan) {
  Unit &unit = plan->units[unit_index];
  const int64_t num_spans = NumSpans(unit);
  unit.num_slots = static_cast<int32_t>(cut.is_per_span ? num_spans : 1);
  unit.slots_offset_bytes = plan->slots_bytes;
  const int64_t unit_bytes = Multiply(unit.num_slots, MakeSlotLayout(*plan, unit).bytes);
  plan->slots_bytes = Add(plan->slots_bytes, unit_bytes);
  const int64_t spans_per_piece = cut.is_per_span ? 1 : num_spans;
  for (int32_t slot = 0; slot < unit.num_slots; ++slot) {
    const int64_t span = slot * spans_per_piece;
    int32_t head_end = 0;
    for (int32_t head = 0; head < plan->heads.kv_head_num; head = head_end) {
      head_end = HeadEnd(*plan, head, cut.heads);
      plan->partial_pieces.push_back(
          {unit_index, slot, head, head_end, span, span + spans_per_piece});
    }
  }
}

void AddFinalPieces(int32_t heads_per_piece, FinalPiece piece, Plan *plan) {
  for (int32_t head = 0; head < plan->heads.kv_head_num; head = piece.head_end) {
    piece.head_begin = head;
    piece.head_end = HeadEnd(*plan, head, heads_per_piece);
    plan->final_pieces.push_back(piece);
  }
}

// The most that any piece of a plan has.
struct LargestPieces {
  int64_t rows = 0;       // of one kv head
  int64_t head_rows = 0;  // of all its kv heads together
  int64_t packed_query_bytes = 0;

  void Count(const Plan &plan, const Unit &unit, int64_t heads) {
    const int64_t unit_rows = RowsPerKvHead(plan, unit);
    const int64_t head_bytes = plan.dtype_kernels->packed_query_bytes(
        static_cast<int32_t>(unit_rows), plan.heads.head_size);
    rows = std::max(rows, unit_rows);
    head_rows = std::max(head_rows, heads * unit_rows);
    packed_query_bytes = std::max(packed_query_bytes, heads * head_bytes);
  }
};

// Offsets of the scratch arrays. docs/c_and_pytorch.md says how large it all can be.
ScratchLayout MakeScratchLayout(const Plan &plan, const LargestPieces &largest) {
  ScratchLayout layout;
  int64_t end = 0;
  const auto take = [&end](int64_t bytes) {
    const int64_t offset = end;
    end += RoundUp(bytes, kAlignBytes);
    return offset;
  };
  const int64_t float_bytes = static_cast<int64_t>(sizeof(float));
  layout.packed_query = take(largest.packed_query_bytes);
  layout.total_acc = take(largest.head_rows * plan.acc_stride * float_bytes);
  layout.total_max = take(largest.head_rows * float_bytes);
  layout.total_sum = take(largest.head_rows * float_bytes);
  layout.span_acc = take(largest.head_rows * plan.acc_stride * float_bytes);
  layout.span_max = take(largest.head_rows * float_bytes);
  layout.span_sum = take(largest.head_rows * float_bytes);
  layout.row_pointers = take(largest.rows * static_cast<int64_t>(sizeof(void *)));
  layout.visible_keys = take(largest.rows * static_cast<int64_t>(sizeof(int32_t)));
  layout.slope = take(largest.head_rows * float_bytes);
  layout.distance = take(largest.rows * float_bytes);
  const bool has_diagonal = !plan.units.empty() && plan.units[0].first_position != kNoDiagonal;
  layout.hidden_values = take(has_diagonal ? HiddenValuesBytes(plan.heads) : 0);
  layout.kernels =
      take(plan.dtype_kernels->scratch_bytes(plan.heads.head_size, plan.heads.value_head_size));
  layout.bytes = end;
  return layout;
}

// Workers, scratch and the order of phase 2, once all pieces are known.
void FinishPlan(int64_t total_cost, int32_t num_threads, Plan *plan) {
  LargestPieces largest;
  for (const PartialPiece &piece : plan->partial_pieces) {
    largest.Count(*plan, plan->units[piece.unit], piece.head_end - piece.head_begin);
  }
  for (const FinalPiece &piece : plan->final_pieces) {
    largest.Count(*plan, plan->units[piece.unit], piece.head_end - piece.head_begin);
  }
  plan->scratch = MakeScratchLayout(*plan, largest);
  const int64_t most_pieces =
      static_cast<int64_t>(std::max(plan->partial_pieces.size(), plan->final_pieces.size()));
  const int64_t macs = Multiply(total_cost, plan->heads.head_size + plan->heads.value_head_size);
  const int64_t useful = macs < kMinParallelMacs ? 1 : std::max<int64_t>(1, most_pieces);
  plan->num_workers = static_cast<int32_t>(std::min<int64_t>(num_threads, useful));
  plan->workspace_bytes = Add(plan->slots_bytes, Multiply(plan->num_workers, plan->scratch.bytes));
  // Dear pieces first: the last ones to end are then cheap. Equal ones keep the order of memory.
  std::sort(plan->final_pieces.begin(), plan->final_pieces.end(),
            [](const FinalPiece &a, const FinalPiece &b) {
              if (a.cost != b.cost) return a.cost > b.cost;
              if (a.unit != b.unit) return a.unit < b.unit;
              return a.head_begin < b.head_begin;
            });
}

// Cost of a piece when so many pieces per thread share the total.
int64_t FairCost(int64_t total_cost, int32_t num_threads, int64_t pieces_per_thread) {
  if (num_threads == 1) return std::max<int64_t>(1, total_cost);
  return std::max<int64_t>(1, total_cost / (num_threads * pieces_per_thread));
}

// What phase 2 does for request b: its own keys, and its prefix where that has no slots.
int64_t FinalCost(const Plan &plan, int32_t num_prefix_units, int32_t b) {
  const int32_t prior = plan.prior_unit[b];
  const int64_t own = UnitCost(plan, plan.units[num_prefix_units + b]);
  const bool is_prior_read = prior >= 0 && plan.units[prior].num_slots == 0;
  return is_prior_read ? Add(own, UnitCost(plan, plan.units[prior])) : own;
}

// members, member_begin: requests sorted by group, in order within each.
void GroupMembers(const RelayAttentionProblem &problem, Plan *plan) {
  const size_t num_groups = problem.group_keys.size();
  plan->member_begin.assign(num_groups + 1, 0);
  for (int32_t group : problem.group) {
    if (group >= 0) ++plan->member_begin[group + 1];
  }
  for (size_t g = 0; g < num_groups; ++g) plan->member_begin[g + 1] += plan->member_begin[g];
  plan->members.resize(plan->member_begin[num_groups]);
  for (size_t b = 0; b < problem.group.size(); ++b) {
    const int32_t group = problem.group[b];
    if (group >= 0) plan->members[plan->member_begin[group]++] = static_cast<int32_t>(b);
  }
  // Each begin has moved to the next group's: move them back.
  for (size_t g = num_groups; g > 0; --g) plan->member_begin[g] = plan->member_begin[g - 1];
  plan->member_begin[0] = 0;
}

// Requests of a group that attend its prefix together, at most.
int32_t MostMembers(const HeadParams &heads) {
  return std::max(1, kMaxUnitRows / heads.heads_per_kv_head);
}

// How many times more units than kMaxUnitRows asks for: where one kv head and one span are all that
// could be cut, a group's requests are divided among the threads. They read the prefix once each.
int64_t UnitFactor(const RelayAttentionProblem &problem, const Plan &plan, int32_t num_threads) {
  int64_t num_pieces = 0;
  for (size_t g = 0; g < problem.group_keys.size(); ++g) {
    const int64_t num_members = plan.member_begin[g + 1] - plan.member_begin[g];
    const int64_t num_keys = problem.group_keys[g].num_keys;
    const int64_t num_spans = CeilDiv(num_keys, kSpanKeys);
    if (num_keys == 0 || num_members == 0) continue;
    const bool is_relay = plan.group_path[g] == Path::kRelay;
    const int64_t num_units =
        is_relay ? CeilDiv(num_members, MostMembers(problem.heads)) : num_members;
    num_pieces = Add(num_pieces, Multiply(num_units, num_spans * problem.heads.kv_head_num));
  }
  return CeilDiv(num_threads, std::max<int64_t>(1, num_pieces));
}

bool HasPackedKeys(const RelayAttentionProblem &problem, size_t group) {
  return group < problem.packed_keys.size() && problem.packed_keys[group].is_packed;
}

// Units of the prefixes: blocks of a group's requests (relay), or one per request (plain). Groups
// that nobody reads, and empty prefixes, get none.
void AddPrefixUnits(const RelayAttentionProblem &problem, int32_t num_threads, Plan *plan) {
  plan->prior_unit.assign(problem.group.size(), -1);
  plan->prior_member.assign(problem.group.size(), 0);
  for (size_t g = 0; g < problem.group_keys.size(); ++g) {
    const int32_t num_members = plan->member_begin[g + 1] - plan->member_begin[g];
    const int64_t num_keys = problem.group_keys[g].num_keys;
    const GroupSize size = {num_members, num_keys, HasPackedKeys(problem, g)};
    plan->group_path.push_back(ChoosePath(problem.path, problem.heads, size, num_threads));
  }
  const int64_t factor = UnitFactor(problem, *plan, num_threads);
  for (size_t g = 0; g < problem.group_keys.size(); ++g) {
    const int32_t begin = plan->member_begin[g], end = plan->member_begin[g + 1];
    if (problem.group_keys[g].num_keys == 0 || begin == end) continue;
    const bool is_relay = plan->group_path[g] == Path::kRelay;
    const KvSource &source =
        is_relay && HasPackedKeys(problem, g) ? problem.packed_keys[g] : problem.group_keys[g];
    int32_t step = 1;
    if (is_relay) {
      const int64_t num_units = CeilDiv(end - begin, MostMembers(problem.heads)) * factor;
      step = static_cast<int32_t>(CeilDiv(end - begin, num_units));
    }
    for (int32_t first = begin; first < end; first += step) {
      Unit unit;
      unit.source = &source;
      unit.members = plan->members.data() + first;
      unit.num_members = std::min(step, end - first);
      unit.num_keys = source.num_keys;
      for (int32_t i = 0; i < unit.num_members; ++i) {
        plan->prior_unit[unit.members[i]] = static_cast<int32_t>(plan->units.size());
        plan->prior_member[unit.members[i]] = i;
      }
      plan->units.push_back(unit);
    }
  }
}

}  // namespace

SlotLayout MakeSlotLayout(const Plan &plan, const Unit &unit) {
  const int64_t head_rows = RowsPerKvHead(plan, unit) * plan.heads.kv_head_num;
  SlotLayout layout;
  layout.row_max_offset_elements = head_rows * plan.acc_stride;
  layout.row_sum_offset_elements = layout.row_max_offset_elements + head_rows;
  const int64_t elements = layout.row_sum_offset_elements + head_rows;
  layout.bytes = RoundUp(elements * static_cast<int64_t>(sizeof(float)), kAlignBytes);
  return layout;
}

// In rows attending one key: relay prepares each tile of the prefix once (packed: never) instead of
// once per member, joins each member's rows once more, and has a phase of its own, at whose end
// threads wait for each other.
Path ChoosePath(Path wanted, const HeadParams &heads, const GroupSize &group, int32_t num_threads) {
  if (wanted != Path::kAuto) return wanted;
  const int64_t num_prepared = group.is_packed ? group.num_members : group.num_members - 1;
  const int64_t saved = Multiply(num_prepared, group.num_keys * kTileRowsOverhead);
  const int64_t joined = Multiply(group.num_members, heads.heads_per_kv_head * kJoinKeys);
  const int64_t head_macs = int64_t{heads.head_num} * (heads.head_size + heads.value_head_size);
  const int64_t macs = Multiply(Multiply(group.num_members, group.num_keys), head_macs);
  const bool is_shared = num_threads > 1 && macs >= kMinParallelMacs;
  const int64_t phase = is_shared ? kPhaseKeys / heads.kv_head_num : 0;
  return saved > Add(joined, phase) ? Path::kRelay : Path::kPlain;
}

void PlanRelayAttention(const RelayAttentionProblem &problem, const TileKernels &kernels,
                        int32_t num_threads, Plan *plan) {
  ResetPlan(problem.heads, problem.rows, kernels, plan);
  GroupMembers(problem, plan);
  AddPrefixUnits(problem, num_threads, plan);
  const int32_t num_prefix_units = static_cast<int32_t>(plan->units.size());
  const int32_t batch = static_cast<int32_t>(problem.group.size());
  for (int32_t b = 0; b < batch; ++b) {
    Unit unit;
    unit.source = &problem.private_keys[b];
    unit.first_token = b;
    unit.num_members = 1;
    unit.num_keys = unit.source->num_keys;
    plan->units.push_back(unit);
  }
  const int64_t total_cost = TotalCost(*plan);
  int64_t fair_cost = FairCost(total_cost, num_threads, kPiecesPerThread);
  const int32_t kv_heads = problem.heads.kv_head_num;
  for (int32_t u = 0; u < num_prefix_units; ++u) {
    const Unit &unit = plan->units[u];
    const int64_t pieces = CeilDiv(UnitCost(*plan, unit), fair_cost);
    Cut cut = ChooseCut(*plan, unit, pieces, /*prefer_spans=*/true);
    WidenForReading(*plan, unit, num_threads, &cut);
    // A prefix that one request reads alone is attended in phase 2, before the request's own keys,
    // if its kv heads keep the threads busy: one phase ends sooner than two. Unless its spans do:
    // whole tokens are read faster than parts of them.
    const bool is_alone = unit.num_members == 1;
    const int64_t most_pieces = kv_heads / HeadsToRead(*plan, kMinReadBytes);
    const bool do_heads_suffice = most_pieces >= std::min<int64_t>(pieces, num_threads);
    if (!is_alone || !do_heads_suffice || DoSpansFill(unit, num_threads)) {
      AddPartialPieces(cut, u, plan);
    }
  }
  int64_t final_cost = 0;
  for (int32_t b = 0; b < batch; ++b) {
    final_cost = Add(final_cost, FinalCost(*plan, num_prefix_units, b));
  }
  if (batch <= num_threads) {  // at most one request for each thread
    fair_cost = std::min(fair_cost, FairCost(final_cost, num_threads, kFinalPiecesPerThread));
  }
  for (int32_t b = 0; b < batch; ++b) {
    const int32_t u = num_prefix_units + b;
    const int32_t prior = plan->prior_unit[b];
    const int64_t cost = FinalCost(*plan, num_prefix_units, b);
    const int64_t pieces = std::max<int64_t>(1, CeilDiv(cost, fair_cost));
    Cut cut = ChooseCut(*plan, plan->units[u], pieces, /*prefer_spans=*/false);
    WidenForReading(*plan, plan->units[u], num_threads, &cut);
    if (cut.is_per_span) AddPartialPieces(cut, u, plan);
    AddFinalPieces(cut.heads, {prior, plan->prior_member[b], u, 0, 0, cost}, plan);
  }
  FinishPlan(total_cost, num_threads, plan);
}

void PlanPrefixEncoder(const PrefixEncoderProblem &problem, const TileKernels &kernels,
                       int32_t num_threads, Plan *plan) {
  ResetPlan(problem.heads, problem.rows, kernels, plan);
  plan->bias = problem.bias;
  const int64_t tokens_per_unit =
      std::max(1, plan->dtype_kernels->query_tile_rows / problem.heads.heads_per_kv_head);
  for (const PrefixRequest &request : problem.requests) {
    const int64_t prefix_len = request.keys.num_keys - request.seq_len;
    for (int64_t first = 0; first < request.seq_len; first += tokens_per_unit) {
      Unit unit;
      unit.source = &request.keys;
      unit.first_token = request.first_token + first;
      unit.num_members = static_cast<int32_t>(std::min(tokens_per_unit, request.seq_len - first));
      unit.first_position = prefix_len + first;
      unit.num_keys = unit.first_position + unit.num_members;
      plan->units.push_back(unit);
    }
  }
  const int64_t total_cost = TotalCost(*plan);
  const int64_t fair_cost = FairCost(total_cost, num_threads, kPiecesPerThread);
  for (int32_t u = 0; u < static_cast<int32_t>(plan->units.size()); ++u) {
    const int64_t cost = UnitCost(*plan, plan->units[u]);
    const Cut cut =
        ChooseCut(*plan, plan->units[u], CeilDiv(cost, fair_cost), /*prefer_spans=*/false);
    if (cut.is_per_span) AddPartialPieces(cut, u, plan);
    AddFinalPieces(cut.heads, {-1, 0, u, 0, 0, cost}, plan);
  }
  FinishPlan(total_cost, num_threads, plan);
}

}  // namespace mindspore_relay
