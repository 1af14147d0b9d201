// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/packed_share.h"

#include <cinttypes>
#include <cstring>

#include "common/int_math.h"
#include "cpu/threads.h"

namespace mindspore_relay {
namespace {

constexpr char kPackOp[] = "pack_share";
constexpr char kRelayOp[] = "relay_attention";

constexpr char kMagic[8] = {'M', 'S', 'R', 'e', 'l', 'a', 'y', 'P'};
constexpr int32_t kVersion = 1;

// The layout of kernels that take rows only: a header, and nothing behind it.
constexpr char kNoLayout[] = "none";

struct PackedHeader {
  char magic[8];
  char layout[16];  // PackTileKernels::layout, ends with 0
  int32_t version;
  int32_t dtype;
  int32_t kv_head_num;
  int32_t head_size;
  int32_t value_head_size;
  int32_t reserved_4;
  int64_t num_keys;
  char reserved_8[8];
};
// As many bytes as a line, so that tiles lie on lines where the tensor does.
constexpr int64_t kHeaderBytes = 64;
static_assert(sizeof(PackedHeader) == kHeaderBytes);

const PackTileKernels *PackerOf(const HeadParams &heads, const TileKernels &kernels) {
  return KernelsFor(kernels, heads.dtype).pack_tile;
}

const char *LayoutOf(const HeadParams &heads, const TileKernels &kernels) {
  const PackTileKernels *packer = PackerOf(heads, kernels);
  return packer == nullptr ? kNoLayout : packer->layout;
}

// Bytes of a tile, all kv heads.
int64_t TileBytes(const HeadParams &heads, const PackTileKernels &packer) {
  const int64_t head_bytes =
      packer.key_bytes(heads.head_size) + packer.value_bytes(heads.value_head_size);
  return heads.kv_head_num * head_bytes;
}

// Where the tiles of a packed prefix lie, from its first one on.
KvSource PackedSource(const HeadParams &heads, const PackTileKernels &packer, int64_t num_keys,
                      const char *tiles) {
  KvSource source;
  source.is_packed = true;
  source.num_keys = num_keys;
  source.key.data = tiles;
  source.key.head_bytes = packer.key_bytes(heads.head_size);
  source.value.data = tiles + source.key.head_bytes;
  source.value.head_bytes = packer.value_bytes(heads.value_head_size);
  for (KvSide *side : {&source.key, &source.value}) {
    side->head_stride_bytes = source.key.head_bytes + source.value.head_bytes;
    side->token_stride_bytes = TileBytes(heads, packer);
  }
  return source;
}

// INT64_MAX when they do not fit.
int64_t TilesBytes(const HeadParams &heads, const TileKernels &kernels, int64_t num_keys) {
  const PackTileKernels *packer = PackerOf(heads, kernels);
  if (packer == nullptr) return 0;
  int64_t bytes;
  const int64_t num_tiles = CeilDiv(num_keys, kKeyTile);
  return MultiplyFits(num_tiles, TileBytes(heads, *packer), &bytes) ? bytes : INT64_MAX;
}

struct PackContext {
  const PackShareProblem *problem;
  const PackTileKernels *packer;
  char *tiles;
};

void PackTask(void *opaque, const TaskTurn &turn) {
  const PackContext &context = *static_cast<PackContext *>(opaque);
  const HeadParams &heads = context.problem->heads;
  const KvSource &source = context.problem->source;
  const KvSource packed =
      PackedSource(heads, *context.packer, source.num_keys, /*tiles=*/context.tiles);
  const int64_t key_begin = turn.index * kKeyTile;
  const int64_t num_keys =
      source.num_keys - key_begin < kKeyTile ? source.num_keys - key_begin : kKeyTile;
  KvTileRows rows;
  KvTile tile = LoadKvTile(source, key_begin, static_cast<int32_t>(num_keys), &rows);
  for (int32_t head = 0; head < heads.kv_head_num; ++head) {
    SelectKvHead(source, head, &tile);
    char *const keys = context.tiles + turn.index * packed.key.token_stride_bytes +
                       head * packed.key.head_stride_bytes;
    context.packer->pack_keys(tile, heads.head_size, keys);
    context.packer->pack_values(tile, heads.value_head_size, keys + packed.key.head_bytes);
  }
}

Status CheckKvHeads(int32_t kv_head_num) {
  if (kv_head_num >= 1) return OkStatus();
  return InvalidArgument("%s: kv_head_num must be greater than 0, got kv_head_num=%d", kPackOp,
                         kv_head_num);
}

Status CheckShareLen(int64_t kv_share_len) {
  if (kv_share_len >= 0) return OkStatus();
  return InvalidArgument("%s: kv_share_len must not be negative, got kv_share_len=%" PRId64,
                         kPackOp, kv_share_len);
}

// Keys and values of the prefix: rows, or blocks of caches.
Status CheckShareTensors(const PackShareArgs &args, PackShareProblem *problem) {
  HeadParams *heads = &problem->heads;
  const TensorView &key = args.key_share;
  const TensorView &value = args.value_share;
  const bool is_paged = args.share_block_table.is_present();
  const int32_t num_leading = is_paged ? 2 : 1;
  MS_RELAY_RETURN_IF_ERROR(
      CheckKvTensor({kPackOp, "key_share", -1, num_leading, heads->dtype, heads->kv_head_num}, key,
                    &heads->head_size, &problem->source.key));
  MS_RELAY_RETURN_IF_ERROR(
      CheckKvTensor({kPackOp, "value_share", -1, num_leading, heads->dtype, heads->kv_head_num},
                    value, &heads->value_head_size, &problem->source.value));
  if (key.rank != value.rank) {
    return InvalidArgument(
        "%s: key_share and value_share must have the same number of dimensions, got shapes %s and "
        "%s",
        kPackOp, ShapeText(key).text, ShapeText(value).text);
  }
  problem->source.num_keys = args.kv_share_len;
  if (is_paged) {
    MS_RELAY_RETURN_IF_ERROR(CheckCachePair(kPackOp, "key_share", key, value));
    problem->source.block_size = static_cast<int32_t>(key.shape[1]);
    MS_RELAY_RETURN_IF_ERROR(
        CheckDType(kPackOp, "share_block_table", args.share_block_table, DType::kInt32));
    if (args.share_block_table.rank != 1) {
      return InvalidArgument("%s: share_block_table must have 1 dimension, got shape %s", kPackOp,
                             ShapeText(args.share_block_table).text);
    }
    TensorView tables = args.share_block_table;  // as a table of one row
    tables.rank = 2;
    tables.shape[1] = tables.shape[0];
    tables.shape[0] = 1;
    tables.strides[0] = tables.shape[1];
    tables.strides[1] = 1;
    return CheckBlockTable({kPackOp, "share_block_table", "group", key.shape[0], key.shape[1]},
                           tables, 0, args.kv_share_len, &problem->source.block_table);
  }
  if (key.shape[0] != value.shape[0]) {
    return InvalidArgument(
        "%s: key_share and value_share must have the same number of rows, got shapes %s and %s",
        kPackOp, ShapeText(key).text, ShapeText(value).text);
  }
  if (args.kv_share_len > key.shape[0]) {
    return InvalidArgument("%s: key_share must have a row for each of kv_share_len=%" PRId64
                           " keys, got shape %s",
                           kPackOp, args.kv_share_len, ShapeText(key).text);
  }
  return OkStatus();
}

// One group's packed prefix.
struct PackedGroup {
  int64_t group;
  const TensorView &packed;
  const HeadParams &heads;
  const KvSource &keys;  // the same prefix, not packed
};

// The layout that a header names, without what no text holds: its bytes may be anything.
struct LayoutText {
  explicit LayoutText(const PackedHeader &header) {
    std::memcpy(text, header.layout, sizeof(header.layout));
    text[sizeof(header.layout)] = '\0';
    for (char *c = text; *c != '\0'; ++c) {
      if (*c < ' ' || *c > '~') *c = '?';
    }
  }
  char text[sizeof(PackedHeader::layout) + 1];
};

Status CheckHeader(const PackedGroup &group, const char *layout, const PackedHeader &header) {
  const HeadParams &heads = group.heads;
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kVersion) {
    return InvalidArgument(
        "%s: packed_share must be made by pack_share of this version, got other "
        "bytes at packed_share[%" PRId64 "]",
        kRelayOp, group.group);
  }
  if (std::strncmp(header.layout, layout, sizeof(header.layout)) != 0) {
    return InvalidArgument(
        "%s: packed_share must be packed for the kernels in use, whose layout "
        "is %s, got layout %s at packed_share[%" PRId64 "]; pack the prefix again",
        kRelayOp, layout, LayoutText(header).text, group.group);
  }
  if (header.dtype != static_cast<int32_t>(heads.dtype) ||
      header.kv_head_num != heads.kv_head_num || header.head_size != heads.head_size ||
      header.value_head_size != heads.value_head_size) {
    return InvalidArgument(
        "%s: packed_share must be packed with dtype %s, kv_head_num=%d, head_size=%d and value's "
        "head_size=%d, got %s, %d, %d and %d at packed_share[%" PRId64 "]",
        kRelayOp, DTypeName(heads.dtype), heads.kv_head_num, heads.head_size, heads.value_head_size,
        DTypeName(static_cast<DType>(header.dtype)), header.kv_head_num, header.head_size,
        header.value_head_size, group.group);
  }
  if (header.num_keys != group.keys.num_keys) {
    return InvalidArgument("%s: packed_share must be packed with kv_share_len[%" PRId64 "]=%" PRId64
                           ", got kv_share_len=%" PRId64 " at packed_share[%" PRId64 "]",
                           kRelayOp, group.group, group.keys.num_keys, header.num_keys,
                           group.group);
  }
  return OkStatus();
}

Status CheckPackedTensor(const char *op, const char *name, const TensorView &packed) {
  MS_RELAY_RETURN_IF_ERROR(CheckDType(op, name, packed, DType::kUInt8));
  if (packed.rank == 1) return OkStatus();
  return InvalidArgument("%s: %s must have 1 dimension, got shape %s", op, name,
                         ShapeText(packed).text);
}

Status CheckPackedGroup(const PackedGroup &group, const TileKernels &kernels, KvSource *source) {
  const TensorView &packed = group.packed;
  MS_RELAY_RETURN_IF_ERROR(CheckPackedTensor(kRelayOp, "packed_share", packed));
  const int64_t num_bytes = packed.shape[0];
  if (num_bytes == 0) return OkStatus();  // this group is not packed
  PackedHeader header = {};
  if (num_bytes >= kHeaderBytes) std::memcpy(&header, packed.data, kHeaderBytes);
  MS_RELAY_RETURN_IF_ERROR(CheckHeader(group, LayoutOf(group.heads, kernels), header));
  const PackTileKernels *packer = PackerOf(group.heads, kernels);
  if (packer == nullptr || header.num_keys == 0) return OkStatus();  // nothing behind the header
  if (TilesBytes(group.heads, kernels, header.num_keys) > num_bytes - kHeaderBytes) {
    return InvalidArgument("%s: packed_share must be whole, got %" PRId64
                           " bytes at packed_share[%" PRId64 "]",
                           kRelayOp, num_bytes, group.group);
  }
  *source = PackedSource(group.heads, *packer, header.num_keys, packed.bytes() + kHeaderBytes);
  return OkStatus();
}

}  // namespace

Status CheckPackedBytes(const HeadParams &heads, int64_t num_keys, const TileKernels &kernels,
                        int64_t *num_bytes) {
  if (!IsFloating(heads.dtype)) {
    return InvalidArgument("%s: dtype must be float16, bfloat16 or float32, got %s", kPackOp,
                           DTypeName(heads.dtype));
  }
  MS_RELAY_RETURN_IF_ERROR(CheckKvHeads(heads.kv_head_num));
  MS_RELAY_RETURN_IF_ERROR(CheckHeadSize(kPackOp, "key_share", heads.head_size));
  MS_RELAY_RETURN_IF_ERROR(CheckHeadSize(kPackOp, "value_share", heads.value_head_size));
  MS_RELAY_RETURN_IF_ERROR(CheckShareLen(num_keys));
  if (!AddFits(TilesBytes(heads, kernels, num_keys), kHeaderBytes, num_bytes)) {
    return InvalidArgument(
        "%s: a packed prefix must have less than 2^63 bytes, got kv_share_len=%" PRId64
        " and kv_head_num=%d",
        kPackOp, num_keys, heads.kv_head_num);
  }
  return OkStatus();
}

Status CheckPackShare(const PackShareArgs &args, const TileKernels &kernels,
                      PackShareProblem *problem) {
  *problem = PackShareProblem();
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kPackOp, "key_share", args.key_share));
  problem->heads.dtype = args.key_share.dtype;
  problem->heads.kv_head_num = args.kv_head_num;
  if (!IsFloating(args.key_share.dtype)) {
    return InvalidArgument("%s: key_share must have dtype float16, bfloat16 or float32, got %s",
                           kPackOp, DTypeName(args.key_share.dtype));
  }
  MS_RELAY_RETURN_IF_ERROR(CheckKvHeads(args.kv_head_num));
  MS_RELAY_RETURN_IF_ERROR(CheckShareLen(args.kv_share_len));
  MS_RELAY_RETURN_IF_ERROR(CheckShareTensors(args, problem));
  int64_t num_bytes = 0;
  MS_RELAY_RETURN_IF_ERROR(
      CheckPackedBytes(problem->heads, args.kv_share_len, kernels, &num_bytes));
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kPackOp, "packed", args.packed));
  MS_RELAY_RETURN_IF_ERROR(CheckPackedTensor(kPackOp, "packed", args.packed));
  if (args.packed.shape[0] < num_bytes) {
    return InvalidArgument("%s: packed must have at least %" PRId64 " bytes, got shape %s", kPackOp,
                           num_bytes, ShapeText(args.packed).text);
  }
  return OkStatus();
}

void RunPackShare(const PackShareProblem &problem, const TileKernels &kernels, int32_t num_threads,
                  char *packed) {
  const HeadParams &heads = problem.heads;
  PackedHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::strncpy(header.layout, LayoutOf(heads, kernels), sizeof(header.layout) - 1);
  header.version = kVersion;
  header.dtype = static_cast<int32_t>(heads.dtype);
  header.kv_head_num = heads.kv_head_num;
  header.head_size = heads.head_size;
  header.value_head_size = heads.value_head_size;
  header.num_keys = problem.source.num_keys;
  const PackTileKernels *packer = PackerOf(heads, kernels);
  if (packer != nullptr) {
    PackContext context = {&problem, packer, packed + kHeaderBytes};
    ParallelFor(CeilDiv(problem.source.num_keys, kKeyTile), num_threads, PackTask, &context);
  }
  std::memcpy(packed, &header, sizeof(header));
}

Status CheckPackedShare(const RelayAttentionArgs &args, const TileKernels &kernels,
                        RelayAttentionProblem *problem) {
  problem->packed_keys.clear();
  const KvListArgs &list = args.packed_share;
  if (list.num_tensors == 0) return OkStatus();
  const int64_t num_groups = static_cast<int64_t>(problem->group_keys.size());
  if (list.num_tensors != num_groups || list.is_stacked) {
    return InvalidArgument("%s: packed_share must be a list of one tensor for each of %" PRId64
                           " groups, got %" PRId64 "%s",
                           kRelayOp, num_groups, list.num_tensors,
                           list.is_stacked ? " (stacked)" : "");
  }
  problem->packed_keys.resize(static_cast<size_t>(num_groups));
  for (int64_t g = 0; g < num_groups; ++g) {
    MS_RELAY_RETURN_IF_ERROR(
        CheckPackedGroup({g, list.tensors[g], problem->heads, problem->group_keys[g]}, kernels,
                         &problem->packed_keys[g]));
  }
  return OkStatus();
}

}  // namespace mindspore_relay
