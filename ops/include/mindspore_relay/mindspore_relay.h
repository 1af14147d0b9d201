/* Copyright 2026 The mindspore_relay Authors
 * SPDX-License-Identifier: Apache-2.0 */

/* The C interface of mindspore_relay: RelayAttention and PrefixEncoder on the CPU.
 *
 * Two phases, as in the operator documents:
 *   1. Ms...GetWorkspaceSize checks every argument, plans the work and says how many bytes of
 * workspace phase 2 needs.
 *   2. Ms... runs the plan. It allocates nothing on the heap and can be repeated.
 *
 * Memory. Nothing is copied: tensors handed to phase 1 are read and written in phase 2 and must
 * live until the last run. Tensor descriptions (MsRelayTensor, MsRelayTensorList, MsRelayOptions),
 * the values of the host tensors seq_len, kv_seq_len, kv_share_map, kv_share_len, and of slopes and
 * mask when they are checked, are read in phase 1; the entries of block_tables are checked in phase
 * 1 and read again in phase 2, so they must not change between. Every tensor is in host memory.
 *
 * Threads. A context is only read by runs and may be used by any number of threads at once, except
 * for its last error, which is per thread. An operation belongs to one thread at a time. Different
 * operations may run at once.
 *
 * Errors. Every function answers with a status; no exception, abort, exit or print leaves the
 * library. The text of the last failure of the calling thread: MsRelayLastError().
 *
 * Meaning of the operators: shapes and rules stand at each function; definitions as in the
 * documents "RelayAttentionOperation" and "PrefixEncoder" of the Ascend Transformer Boost
 * reference, and Zhu et al., "RelayAttention for Efficient Large Language Model Serving with Long
 * System Prompts" (2024). */
#ifndef MINDSPORE_RELAY_MINDSPORE_RELAY_H_
#define MINDSPORE_RELAY_MINDSPORE_RELAY_H_

#include <stdint.h>

#if defined(__GNUC__)
#define MS_RELAY_API __attribute__((visibility("default")))
#else
#define MS_RELAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. A library of the same major version, and the same or a later minor one,
 * serves it. */
#define MS_RELAY_VERSION_MAJOR 0
#define MS_RELAY_VERSION_MINOR 1
#define MS_RELAY_VERSION_PATCH 0

typedef enum MsRelayStatus {
  MS_RELAY_OK = 0,
  MS_RELAY_INVALID_ARGUMENT = 1, /* an argument breaks a rule */
  MS_RELAY_UNSUPPORTED = 2,      /* legal, but not offered here (a dtype, a head size, an ISA) */
  MS_RELAY_OUT_OF_MEMORY = 3,
  MS_RELAY_INTERNAL = 4 /* a defect of the library */
} MsRelayStatus;

typedef enum MsRelayDType {
  MS_RELAY_FLOAT32 = 1,
  MS_RELAY_FLOAT16 = 2,
  MS_RELAY_BFLOAT16 = 3,
  MS_RELAY_INT32 = 4,
  MS_RELAY_UINT32 = 5
} MsRelayDType;

/* Values of the documents. Another public header numbers the ALiBi masks one higher: the content of
 * the mask is checked against its type, so that a caller with those numbers gets an error and not
 * another bias. */
typedef enum MsRelayMaskType {
  MS_RELAY_MASK_UNDEFINED = 0, /* RelayAttention: no mask */
  MS_RELAY_MASK_NORM = 1,      /* of the document's enum; not supported by any operator here */
  MS_RELAY_MASK_ALIBI_COMPRESS =
      3, /* bias slope * (p - j); with a 3-D mask: the finished bias of the mask */
  MS_RELAY_MASK_ALIBI_COMPRESS_SQRT = 4,       /* bias slope * sqrt(p - j) */
  MS_RELAY_MASK_ALIBI_COMPRESS_LEFT_ALIGN = 5, /* bias slope * j */
  MS_RELAY_MASK_CAUSAL = 9                     /* no bias */
} MsRelayMaskType;

/* How RelayAttention reads the shared prefix of a group. Every path gives the same bits. */
typedef enum MsRelayPath {
  MS_RELAY_PATH_AUTO = 0,  /* chosen per group by bytes saved against merge cost */
  MS_RELAY_PATH_RELAY = 1, /* once per step, for all requests of the group together */
  MS_RELAY_PATH_PLAIN = 2  /* once per request */
} MsRelayPath;

#define MS_RELAY_MAX_RANK 6

/* A tensor in host memory. The last dimension must have stride 1; the others may have any stride
 * (so key and value may be views of one tensor). data may be NULL when the tensor has no element.
 */
typedef struct MsRelayTensor {
  uint32_t struct_bytes; /* sizeof(MsRelayTensor) of the caller */
  int32_t dtype;         /* MsRelayDType */
  int32_t rank;          /* 1 .. MS_RELAY_MAX_RANK */
  uint32_t reserved;     /* 0 */
  void *data;
  int64_t shape[MS_RELAY_MAX_RANK];
  int64_t strides[MS_RELAY_MAX_RANK]; /* elements */
} MsRelayTensor;

/* A list of tensors, one per request (key, value) or per group (key_share, value_share); or, with
 * is_stacked = 1, one tensor that holds all of them along its first dimension; or, with block
 * tables in MsRelayOptions, one tensor that is a paged cache. */
typedef struct MsRelayTensorList {
  uint32_t struct_bytes; /* sizeof(MsRelayTensorList) of the caller */
  int32_t is_stacked;
  int64_t num_tensors;
  const MsRelayTensor *tensors; /* [num_tensors] */
} MsRelayTensorList;

typedef struct MsRelayContext MsRelayContext;
typedef struct MsRelayOperation MsRelayOperation;

/* What the documents' argument lists have no place for. Applies to the next phase 1 of the
 * operation. */
typedef struct MsRelayOptions {
  uint32_t struct_bytes;    /* sizeof(MsRelayOptions) of the caller */
  int32_t path;             /* MsRelayPath; RelayAttention only */
  const MsRelayTensor *lse; /* output or NULL: float32 [nTokens, head_num], natural log of the
                               softmax denominator, -inf for a row without a visible key */
  const MsRelayTensor
      *block_tables; /* RelayAttention, paged form: int32 [batch, max_blocks] of the private keys */
  const MsRelayTensor *share_block_tables; /* RelayAttention, paged form: int32 [num_groups,
                                              max_blocks] of the groups */
} MsRelayOptions;

/* "0.1.0". Static storage, as all strings here unless said otherwise. */
MS_RELAY_API const char *MsRelayVersion(void);

/* Name of a status, "unknown" for a value outside the enum. */
MS_RELAY_API const char *MsRelayStatusName(int32_t status);

/* Text of the calling thread's last failure, "" if there was none; valid until the thread's next
 * call. */
MS_RELAY_API const char *MsRelayLastError(void);

/* Instruction set in use, and those that this machine can run, comma separated, best first.
 * MINDSPORE_RELAY_ISA in the environment forces one. When it names one that cannot be used,
 * MsRelayIsaName answers "" and every operator an error. */
MS_RELAY_API const char *MsRelayIsaName(void);
MS_RELAY_API const char *MsRelayIsaList(void);

/* Chooses the instruction set of later calls by name; INVALID_ARGUMENT when this machine cannot run
 * it. */
MS_RELAY_API MsRelayStatus MsRelaySetIsa(const char *isa);

/* Threads of the process-wide pool, the caller's included. Default: the CPUs this process may use,
 * or MINDSPORE_RELAY_NUM_THREADS. 1 .. 1024. Results do not depend on it. */
MS_RELAY_API int32_t MsRelayGetNumThreads(void);
MS_RELAY_API MsRelayStatus MsRelaySetNumThreads(int32_t num_threads);

MS_RELAY_API MsRelayStatus MsRelayCreateContext(MsRelayContext **context);
MS_RELAY_API void MsRelayDestroyContext(MsRelayContext *context); /* NULL is allowed */

/* Most threads that runs with this context use; 0: as many as the pool has. */
MS_RELAY_API MsRelayStatus MsRelayContextSetNumThreads(MsRelayContext *context,
                                                       int32_t num_threads);

MS_RELAY_API MsRelayStatus MsRelayCreateOperation(MsRelayOperation **op, MsRelayContext *context);
MS_RELAY_API MsRelayStatus MsRelayOperationSetOptions(MsRelayOperation *op,
                                                      const MsRelayOptions *options);
MS_RELAY_API void MsRelayDestroyOperation(MsRelayOperation *op); /* NULL is allowed */

/* Path (MsRelayPath) that the operation's plan takes for a group. */
MS_RELAY_API MsRelayStatus MsRelayOperationGetPath(const MsRelayOperation *op, int64_t group,
                                                   int32_t *path);

/* PrefixEncoder, phase 1. *op: NULL (an operation is created) or an existing one (planned anew,
 * options kept). query         [nTokens, head_num * head_size] or [nTokens, head_num, head_size];
 * nTokens = sum of seq_len key, value    [num_blocks, block_size, kv_head_num * head_size] or
 * [num_blocks, block_size, kv_head_num, head_size]; value's head size may differ block_tables int32
 * [batch, max_blocks]; entries past ceil(kv_seq_len / block_size) are not read mask          NULL
 * for CAUSAL; else [256, 256], or for ALIBI_COMPRESS [head_num, rows, 128], in query's dtype
 *   seq_len       int32 or uint32 [batch]: new tokens of each request
 *   kv_seq_len    int32 or uint32 [batch]: keys of each request, new ones included
 *   slopes        float32 [head_num] with a [256, 256] mask; else NULL
 *   kv_head_num   0 means head_num
 *   attn_out      query's shape with value's head size, in query's dtype
 * Query row i of a request is at position p = kv_seq_len - seq_len + i and sees the keys j <= p.
 * On failure *workspace_bytes is 0; a NULL *op stays NULL, an existing operation stays but has
 * nothing planned. context may be NULL: defaults. */
MS_RELAY_API MsRelayStatus MsRelayPrefixEncoderGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensor *key, const MsRelayTensor *value,
    const MsRelayTensor *block_tables, const MsRelayTensor *mask, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *slopes, int mask_type, int32_t head_num,
    int32_t kv_head_num, float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes,
    MsRelayOperation **op, MsRelayContext *context);

/* Phase 2. workspace: at least workspace_bytes bytes, 64-byte aligned; NULL is allowed when phase 1
 * answered 0. */
MS_RELAY_API MsRelayStatus MsRelayPrefixEncoder(void *workspace, uint64_t workspace_bytes,
                                                MsRelayOperation *op, MsRelayContext *context);

/* RelayAttention, phase 1: one decode step.
 *   query         [batch, head_num * head_size] or [batch, head_num, head_size]
 *   key, value    list of batch tensors [S1, kv_head_num, head_size] or [S1, kv_head_num *
 * head_size]; or stacked [batch, S1max, ...]; or, with options.block_tables, paged [num_blocks,
 * block_size, ...] key_share,    list of num_groups tensors [S2, kv_head_num, head_size] or [S2,
 * kv_head_num * head_size]; or stacked value_share   [num_groups, S2max, ...]; or, with
 * options.share_block_tables, a paged cache, NULL: that of key, value. NULL or empty: no groups
 *   attention_mask reserved: may be NULL, content ignored
 *   seq_len       int32 [batch], all 1; NULL: the same
 *   kv_seq_len    int32 [batch]: keys that a request sees, shared and private together
 *   kv_share_map  int32 [batch]: the request's group, -1 for none
 *   kv_share_len  int32 [num_groups]: keys of each group; NULL without groups
 *   mask_type     MS_RELAY_MASK_UNDEFINED
 *   attn_out      query's shape with value's head size, in query's dtype
 * On failure *workspace_bytes is 0; a NULL *op stays NULL, an existing operation stays but has
 * nothing planned. context may be NULL: defaults. */
MS_RELAY_API MsRelayStatus MsRelayAttentionGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensorList *key, const MsRelayTensorList *value,
    const MsRelayTensorList *key_share, const MsRelayTensorList *value_share,
    const MsRelayTensor *attention_mask, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *kv_share_map,
    const MsRelayTensor *kv_share_len, int mask_type, int32_t head_num, int32_t kv_head_num,
    float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes, MsRelayOperation **op,
    MsRelayContext *context);

MS_RELAY_API MsRelayStatus MsRelayAttention(void *workspace, uint64_t workspace_bytes,
                                            MsRelayOperation *op, MsRelayContext *context);

/* Writes new keys and values into a paged cache, in place.
 *   key, value    [nTokens, kv_head_num, head_size] or [nTokens, kv_head_num * head_size], any
 * floating dtype key_cache,    [num_blocks, block_size, kv_head_num, head_size] or [num_blocks,
 * block_size, kv_head_num * head_size], any value_cache   floating dtype; values are rounded to it
 *   slot_mapping  int32 [nTokens]: block * block_size + offset; -1: the token is not written
 * All slots are checked before the first write. When a slot occurs twice, the later token is kept.
 */
MS_RELAY_API MsRelayStatus MsRelayReshapeAndCache(
    const MsRelayTensor *key, const MsRelayTensor *value, MsRelayTensor *key_cache,
    MsRelayTensor *value_cache, const MsRelayTensor *slot_mapping, MsRelayContext *context);

/* Joins two attention results over disjoint keys by their natural-log lse.
 *   out_a, out_b, out  [n, head_num, D] or [n, head_num * D], one floating dtype
 *   lse_a, lse_b, lse  float32 [n, head_num]; -inf: no keys; +inf is treated as no keys; lse may be
 * NULL Both parts empty: 0 and -inf. out may be out_a or out_b. */
MS_RELAY_API MsRelayStatus MsRelayMergeAttentionStates(
    const MsRelayTensor *out_a, const MsRelayTensor *lse_a, const MsRelayTensor *out_b,
    const MsRelayTensor *lse_b, MsRelayTensor *out, MsRelayTensor *lse, MsRelayContext *context);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINDSPORE_RELAY_MINDSPORE_RELAY_H_ */
