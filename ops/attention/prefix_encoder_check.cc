// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The rules of PrefixEncoder, but for those of the mask (alibi_mask_check.cc).
#include <algorithm>
#include <cinttypes>

#include "attention/attention_check.h"

namespace mindspore_relay {
namespace {

constexpr char kOp[] = "prefix_encoder";

Status CheckMaskType(int32_t mask_type) {
  switch (static_cast<MaskType>(mask_type)) {
    case MaskType::kAlibiCompress:
    case MaskType::kAlibiCompressSqrt:
    case MaskType::kAlibiCompressLeftAlign:
    case MaskType::kCausal:
      return OkStatus();
    case MaskType::kUndefined:
    case MaskType::kNorm:
      break;
  }
  return Unsupported(
      "%s: mask_type must be ALIBI_COMPRESS (3), ALIBI_COMPRESS_SQRT (4), "
      "ALIBI_COMPRESS_LEFT_ALIGN (5) or "
      "CAUSAL (9), got mask_type=%d%s",
      kOp, mask_type,
      mask_type == 6 ? "; another public header numbers these masks one higher, its 6 is 5 here"
                     : "");
}

Status CheckRequest(const PrefixEncoderArgs &args, int64_t b, int64_t first_token,
                    PrefixRequest *request) {
  const int64_t seq_len = LengthAt(args.seq_len, b);
  const int64_t kv_seq_len = LengthAt(args.kv_seq_len, b);
  if (seq_len < 0 || kv_seq_len < 0) {
    return InvalidArgument("%s: lengths must not be negative, got seq_len[%" PRId64 "]=%" PRId64
                           ", kv_seq_len[%" PRId64 "]=%" PRId64,
                           kOp, b, seq_len, b, kv_seq_len);
  }
  if (seq_len > kv_seq_len) {
    return InvalidArgument("%s: seq_len[%" PRId64 "]=%" PRId64
                           " is greater than kv_seq_len[%" PRId64 "]=%" PRId64
                           "; kv_seq_len counts cached and new keys together",
                           kOp, b, seq_len, b, kv_seq_len);
  }
  request->first_token = first_token;
  request->seq_len = seq_len;
  request->keys.num_keys = kv_seq_len;
  if (seq_len == 0) return OkStatus();  // no rows: the keys are not read
  return CheckBlockTable({kOp, "block_tables", "request", args.key.shape[0], args.key.shape[1]},
                         args.block_tables, b, kv_seq_len, &request->keys.block_table);
}

// The cache -> keys, without table and length.
Status CheckCache(const PrefixEncoderArgs &args, HeadParams *heads, KvSource *keys) {
  MS_RELAY_RETURN_IF_ERROR(CheckKvTensor({kOp, "key", -1, 2, heads->dtype, heads->kv_head_num},
                                         args.key, &heads->head_size, &keys->key));
  MS_RELAY_RETURN_IF_ERROR(CheckKvTensor({kOp, "value", -1, 2, heads->dtype, heads->kv_head_num},
                                         args.value, &heads->value_head_size, &keys->value));
  MS_RELAY_RETURN_IF_ERROR(CheckCachePair(kOp, "key", args.key, args.value));
  keys->block_size = static_cast<int32_t>(args.key.shape[1]);
  return OkStatus();
}

}  // namespace

Status CheckPrefixEncoder(const PrefixEncoderArgs &args, PrefixEncoderProblem *problem) {
  MS_RELAY_RETURN_IF_ERROR(CheckMaskType(args.mask_type));
  HeadParams *heads = &problem->heads;
  *heads = HeadParams();
  MS_RELAY_RETURN_IF_ERROR(
      CheckHeadCounts(kOp, args.head_num, args.kv_head_num, args.qk_scale, heads));
  MS_RELAY_RETURN_IF_ERROR(CheckQuery(kOp, args.query, heads, &problem->rows.query));
  KvSource keys;
  MS_RELAY_RETURN_IF_ERROR(CheckCache(args, heads, &keys));

  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kOp, "block_tables", args.block_tables));
  MS_RELAY_RETURN_IF_ERROR(CheckBlockTableShape(kOp, "block_tables", args.block_tables));
  const int64_t batch = args.block_tables.shape[0];
  MS_RELAY_RETURN_IF_ERROR(
      CheckLengths({kOp, "seq_len", batch, "rows of block_tables", true}, args.seq_len));
  MS_RELAY_RETURN_IF_ERROR(
      CheckLengths({kOp, "kv_seq_len", batch, "rows of block_tables", true}, args.kv_seq_len));
  PrefixRequest request;
  request.keys = keys;
  problem->requests.assign(static_cast<size_t>(batch), request);
  int64_t num_tokens = 0;
  int64_t max_kv_seq_len = 0;
  for (int64_t b = 0; b < batch; ++b) {
    MS_RELAY_RETURN_IF_ERROR(CheckRequest(args, b, num_tokens, &problem->requests[b]));
    num_tokens += problem->requests[b].seq_len;
    max_kv_seq_len = std::max(max_kv_seq_len, problem->requests[b].keys.num_keys);
  }
  if (num_tokens != args.query.shape[0]) {
    return InvalidArgument(
        "%s: the sum of seq_len must be query's number of tokens, got sum %" PRId64 " and query %s",
        kOp, num_tokens, ShapeText(args.query).text);
  }
  problem->bias = BiasParams();
  problem->bias.mask_type = static_cast<MaskType>(args.mask_type);
  MS_RELAY_RETURN_IF_ERROR(CheckAlibi(args, max_kv_seq_len, &problem->bias));
  return CheckOutputs(kOp, args.query, args.out, args.lse, *heads, &problem->rows);
}

}  // namespace mindspore_relay
