/* Copyright 2026 The mindspore_relay Authors
 * SPDX-License-Identifier: Apache-2.0 */

/* The C interface of mindspore_relay: RelayAttention and PrefixEncoder on the CPU.
 *
 * Two phases, as in the operator documents:
 *   1. Ms...GetWorkspaceSize checks every argument, plans the work, and says how many bytes of
 *      workspace phase 2 needs.
 *   2. Ms... runs the plan. It allocates nothing on the heap and can be repeated.
 * MsRelayReshapeAndCache, MsRelayPackShare and MsRelayMergeAttentionStates are one call.
 *
 * Memory. Every tensor is in host memory, and none is copied: what is handed to phase 1 is read and
 * written by phase 2 and must live until the last run. What is read when:
 *   phase 1 only   descriptions (MsRelayTensor, MsRelayTensorList, MsRelayOptions) and the values
 * of seq_len, kv_seq_len, kv_share_map, kv_share_len: they may be freed after it each run query,
 * key, value, key_share, value_share: their content may change between runs both block_tables,
 * share_block_tables, mask, slopes: checked in phase 1, read by runs; they must not change while
 * the plan is in use Outputs must not overlap inputs, unless a function says so.
 *
 * Threads. A context may be used by any number of threads at once. An operation belongs to one
 * thread at a time; different operations may be planned and run at once. Outputs of calls that run
 * at once must not overlap.
 *
 * Errors. Functions answer with a status, and the text of a failure names operator, argument, rule
 * and value. It is kept per thread (MsRelayLastError) and per context (MsRelayContextLastError). No
 * exception, abort, exit or print leaves the library. A pointer that may be NULL is said to be so;
 * NULL for another is an error, not a crash.
 *
 * Range. Attention sums values weighted by probabilities in float32 and divides by the sum of the
 * probabilities at the end only: where the magnitude of the values times the number of keys passes
 * 3.4e38, the sum may overflow to infinity.
 *
 * Growth. A program built with this header runs with every later library of the same major version.
 * Structs begin with their size, struct_bytes, and grow at their end; fields that a caller does not
 * know are at their default, 0. A field that the library does not know is an error unless it is 0.
 * Zero a struct before filling it: MsRelayTensor t = {0}.
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
  MS_RELAY_INTERNAL = 4,   /* a defect of the library */
  MS_RELAY_INTERRUPTED = 5 /* the caller's own wish: MsRelayOperationSetInterrupt */
} MsRelayStatus;

typedef enum MsRelayDType {
  MS_RELAY_FLOAT32 = 1,
  MS_RELAY_FLOAT16 = 2,
  MS_RELAY_BFLOAT16 = 3,
  MS_RELAY_INT32 = 4,
  MS_RELAY_UINT32 = 5,
  MS_RELAY_UINT8 = 6
} MsRelayDType;

/* Values of the documents. Another public header numbers the ALiBi masks one higher: the content of
 * the mask is checked against its type, so that a caller with those numbers gets an error and not
 * another bias. */
typedef enum MsRelayMaskType {
  MS_RELAY_MASK_UNDEFINED = 0, /* RelayAttention: no mask */
  MS_RELAY_MASK_NORM = 1,      /* of the document's enum; not supported by any operator here */
  /* bias slope * (p - j); with a 3-D mask: the finished bias of the mask */
  MS_RELAY_MASK_ALIBI_COMPRESS = 3,
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
 * (so key and value may be views of one tensor). Strides of dimensions of one element are ignored.
 */
typedef struct MsRelayTensor {
  uint32_t struct_bytes; /* sizeof(MsRelayTensor) of the caller */
  int32_t dtype;         /* MsRelayDType */
  int32_t rank;          /* 1 .. MS_RELAY_MAX_RANK */
  uint32_t reserved;     /* 0 */
  void *data;            /* aligned to its elements; may be NULL when there are none */
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
  const MsRelayTensor *tensors; /* [num_tensors]; elements have the size that they say */
} MsRelayTensorList;

typedef struct MsRelayContext MsRelayContext;
typedef struct MsRelayOperation MsRelayOperation;

/* What the documents' argument lists have no place for. */
typedef struct MsRelayOptions {
  uint32_t struct_bytes; /* sizeof(MsRelayOptions) of the caller */
  int32_t path;          /* MsRelayPath; RelayAttention only */

  /* Output or NULL: float32 [nTokens, head_num], natural log of the softmax denominator, -inf for a
   * row without a visible key. */
  const MsRelayTensor *lse;

  /* RelayAttention in the paged form, else NULL: int32 [batch, max_blocks] of the private keys, and
   * int32 [num_groups, max_blocks] of the groups. Entries that no length needs are not read. */
  const MsRelayTensor *block_tables;
  const MsRelayTensor *share_block_tables;

  /* RelayAttention, or NULL: a list of num_groups tensors made by MsRelayPackShare, each of its
   * group's keys, values and kv_share_len; uint8 [0] for a group that is not packed. What is read
   * by relay is then read from there. Checked in phase 1, read by runs: they must not change while
   * the plan is in use, and must be made anew when the keys or values do. */
  const MsRelayTensorList *packed_share;
} MsRelayOptions;

/* "0.1.0". Static storage, as all strings here unless said otherwise. */
MS_RELAY_API const char *MsRelayVersion(void);

/* Name of a status, "unknown" for a value outside the enum. */
MS_RELAY_API const char *MsRelayStatusName(int32_t status);

/* Text of the calling thread's last failure, "" if there was none; valid until its next failure. */
MS_RELAY_API const char *MsRelayLastError(void);

/* Text of the last failure of a call with this context, in whatever thread, "" if there was none.
 * Copies at most text_bytes - 1 bytes of it to text and ends them with 0; text may be NULL when
 * text_bytes is 0. Returns the length of the whole text, which is below 1024. */
MS_RELAY_API uint64_t MsRelayContextLastError(const MsRelayContext *context, char *text,
                                              uint64_t text_bytes);

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

/* Ends the pool's threads, which otherwise sleep while nothing is to be done, and returns when they
 * are gone. Waits for an operator that they work on. The next operator starts threads again. */
MS_RELAY_API MsRelayStatus MsRelayStopThreads(void);

/* Settings and the last error that calls share. Functions that take a context accept NULL:
 * defaults, and no last error but the thread's. Contexts and operations may be destroyed in any
 * order. */
MS_RELAY_API MsRelayStatus MsRelayCreateContext(MsRelayContext **context);
MS_RELAY_API void MsRelayDestroyContext(MsRelayContext *context); /* NULL is allowed */

/* Most threads that operations planned from now on with this context use; 0, the default: as many
 * as the pool has. */
MS_RELAY_API MsRelayStatus MsRelayContextSetNumThreads(MsRelayContext *context,
                                                       int32_t num_threads);

/* An operation holds a plan. Phase 1 creates one when it gets none; creating it here first allows
 * to set options. It is freed by MsRelayDestroyOperation only. */
MS_RELAY_API MsRelayStatus MsRelayCreateOperation(MsRelayOperation **op, MsRelayContext *context);
MS_RELAY_API void MsRelayDestroyOperation(MsRelayOperation *op); /* NULL is allowed */

/* Options of every later phase 1 of the operation, until they are set again. */
MS_RELAY_API MsRelayStatus MsRelayOperationSetOptions(MsRelayOperation *op,
                                                      const MsRelayOptions *options);

/* Lets phase 2 of the operation be ended early, until it is set again; NULL: not, the default. The
 * thread that runs the operation calls is_interrupted(argument) about ten times a second, however
 * many threads share the work; when it answers other than 0, phase 2 ends within a tenth of a
 * second or so with MS_RELAY_INTERRUPTED. What the outputs then hold is of no use; the plan stays
 * and may be run again. is_interrupted must return (no exception, no longjmp); it may use other
 * operations. */
MS_RELAY_API MsRelayStatus MsRelayOperationSetInterrupt(MsRelayOperation *op,
                                                        int32_t (*is_interrupted)(void *argument),
                                                        void *argument);

/* Path that the plan of a RelayAttention takes for a group: *path is MS_RELAY_PATH_RELAY or
 * MS_RELAY_PATH_PLAIN. */
MS_RELAY_API MsRelayStatus MsRelayOperationGetPath(const MsRelayOperation *op, int64_t group,
                                                   int32_t *path);

/* PrefixEncoder, phase 1: prefill over a paged cache that holds the new keys and older ones.
 *
 *   query            [nTokens, head_num * head_size] or [nTokens, head_num, head_size]; float16,
 *                    bfloat16 or float32; the requests one after the other
 *   key, value       [num_blocks, block_size, kv_head_num * head_size] or
 *                    [num_blocks, block_size, kv_head_num, head_size], both in one form; query's
 *                    dtype; block_size 1 .. 512; value may have a head size of its own
 *   block_tables     int32 [batch, max_blocks]; entries past ceil(kv_seq_len / block_size) are not
 *                    read
 *   mask             NULL for CAUSAL; else [256, 256], or for ALIBI_COMPRESS also
 *                    [head_num, rows, 128] with rows >= the longest kv_seq_len; query's dtype
 *   seq_len          int32 or uint32 [batch]: new tokens of each request; the sum is nTokens
 *   kv_seq_len       int32 or uint32 [batch]: keys of each request, new ones included
 *   slopes           float32 [head_num] with a [256, 256] mask; else NULL
 *   mask_type        MsRelayMaskType: one of the ALIBI types or CAUSAL
 *   head_num         query heads
 *   kv_head_num      key and value heads; divides head_num, which is at most 65536 times as many;
 *                    0 means head_num
 *   qk_scale         factor on query . key
 *   attn_out         output: query's shape with value's head size, query's dtype
 *   workspace_bytes  output: what phase 2 needs; 0 after a failure
 *   op               *op is NULL: an operation is created (after a failure it stays NULL); or an
 *                    operation: it is planned anew, its options stay (after a failure nothing is
 *                    planned)
 *   context          or NULL
 *
 * Query row i of a request is at position p = kv_seq_len - seq_len + i and sees the keys j <= p. A
 * head size is a multiple of 8, at most 576. */
MS_RELAY_API MsRelayStatus MsRelayPrefixEncoderGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensor *key, const MsRelayTensor *value,
    const MsRelayTensor *block_tables, const MsRelayTensor *mask, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *slopes, int mask_type, int32_t head_num,
    int32_t kv_head_num, float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes,
    MsRelayOperation **op, MsRelayContext *context);

/* PrefixEncoder, phase 2. May be called any number of times after phase 1.
 *
 *   workspace        64-byte aligned; its content does not matter; NULL when phase 1 answered 0
 *   workspace_bytes  size of workspace, at least what phase 1 answered
 *   op               planned by MsRelayPrefixEncoderGetWorkspaceSize
 *   context          or NULL; need not be that of phase 1 */
MS_RELAY_API MsRelayStatus MsRelayPrefixEncoder(void *workspace, uint64_t workspace_bytes,
                                                MsRelayOperation *op, MsRelayContext *context);

/* RelayAttention, phase 1: one decode step, in which the requests of a group read their shared
 * prefix once.
 *
 *   query            [batch, head_num * head_size] or [batch, head_num, head_size]; float16,
 *                    bfloat16 or float32; one row per request
 *   key, value       private keys, query's dtype. List of batch tensors [S1, kv_head_num,
 * head_size] or [S1, kv_head_num * head_size]; or stacked [batch, S1max, ...]; or, with
 *                    block_tables in MsRelayOptions, paged [num_blocks, block_size, ...]. value may
 *                    have a head size of its own
 *   key_share,       keys of the groups, in the same ways: list of num_groups tensors [S2, ...],
 *   value_share      stacked [num_groups, S2max, ...], or with share_block_tables paged. NULL or
 *                    empty: no groups, or with share_block_tables: in the caches key and value
 *   attention_mask   reserved: may be NULL, its content is ignored
 *   seq_len          int32 [batch], all 1; NULL: the same
 *   kv_seq_len       int32 [batch]: keys that a request sees, shared and private together
 *   kv_share_map     int32 [batch]: the request's group, -1 for none; NULL without groups
 *   kv_share_len     int32 [num_groups]: keys of each group; NULL without groups
 *   mask_type        MS_RELAY_MASK_UNDEFINED
 *   attn_out         output: query's shape with value's head size, query's dtype; 0 for a request
 *                    without keys
 *   head_num, kv_head_num, qk_scale, workspace_bytes, op, context: as above
 *
 * Rows of a tensor past the length that belongs to it are not read. */
MS_RELAY_API MsRelayStatus MsRelayAttentionGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensorList *key, const MsRelayTensorList *value,
    const MsRelayTensorList *key_share, const MsRelayTensorList *value_share,
    const MsRelayTensor *attention_mask, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *kv_share_map,
    const MsRelayTensor *kv_share_len, int mask_type, int32_t head_num, int32_t kv_head_num,
    float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes, MsRelayOperation **op,
    MsRelayContext *context);

/* RelayAttention, phase 2: as MsRelayPrefixEncoder. */
MS_RELAY_API MsRelayStatus MsRelayAttention(void *workspace, uint64_t workspace_bytes,
                                            MsRelayOperation *op, MsRelayContext *context);

/* Writes new keys and values into a paged cache, in place.
 *
 *   key, value       [nTokens, kv_head_num, head_size] or [nTokens, kv_head_num * head_size];
 *                    float16, bfloat16 or float32
 *   key_cache,       output: [num_blocks, block_size, kv_head_num, head_size] or
 *   value_cache      [num_blocks, block_size, kv_head_num * head_size]; any of the three dtypes,
 *                    to which values are rounded
 *   slot_mapping     int32 [nTokens]: block * block_size + offset; -1: the token is not written
 *   context          or NULL
 *
 * All slots are checked before the first write. Where a slot occurs twice, the later token stays.
 */
MS_RELAY_API MsRelayStatus MsRelayReshapeAndCache(
    const MsRelayTensor *key, const MsRelayTensor *value, MsRelayTensor *key_cache,
    MsRelayTensor *value_cache, const MsRelayTensor *slot_mapping, MsRelayContext *context);

/* Bytes of a prefix packed by MsRelayPackShare with the instruction set in use.
 *
 *   dtype            MsRelayDType of its keys and values
 *   kv_head_num, head_size, value_head_size
 *   kv_share_len     keys of the prefix
 *   packed_bytes     output: 64 where packing would gain nothing; else about the bytes of the keys
 *                    and values
 *   context          or NULL */
MS_RELAY_API MsRelayStatus MsRelayPackShareGetSize(int32_t dtype, int32_t kv_head_num,
                                                   int32_t head_size, int32_t value_head_size,
                                                   int64_t kv_share_len, uint64_t *packed_bytes,
                                                   MsRelayContext *context);

/* Packs the keys and values of a prefix into the form that the instruction set in use computes
 * with: done once, it spares each step that work (MsRelayOptions, packed_share). The result of
 * RelayAttention is the same to the bit. bfloat16 with AMX, and with AVX-512 BF16 on AMD, gain by
 * it; for everything else nothing is packed, and the bytes say so.
 *
 *   key_share,       [S2, kv_head_num, head_size] or [S2, kv_head_num * head_size]; or, with
 *   value_share      share_block_table, paged [num_blocks, block_size, ...]
 *   share_block_table  int32 [max_blocks], or NULL: not paged
 *   kv_head_num      key and value heads
 *   kv_share_len     keys of the prefix
 *   packed           output: uint8 [packed_bytes] or more, read soonest where it is 64-byte
 * aligned. It may be copied, also into a file, but serves the same instruction set and version only
 *   context          or NULL */
MS_RELAY_API MsRelayStatus MsRelayPackShare(const MsRelayTensor *key_share,
                                            const MsRelayTensor *value_share,
                                            const MsRelayTensor *share_block_table,
                                            int32_t kv_head_num, int64_t kv_share_len,
                                            MsRelayTensor *packed, MsRelayContext *context);

/* Joins the results of attention over two disjoint sets of keys into that over all of them.
 *
 *   out_a, out_b     [n, head_num, D] or [n, head_num * D]; one of float16, bfloat16 and float32
 *   lse_a, lse_b     float32 [n, head_num], natural log; -inf: no keys; +inf is treated the same
 *   out              output: like out_a; may be out_a or out_b
 *   lse              output or NULL: like lse_a; may be lse_a or lse_b
 *   context          or NULL
 *
 * Both parts empty: 0 and -inf. */
MS_RELAY_API MsRelayStatus MsRelayMergeAttentionStates(
    const MsRelayTensor *out_a, const MsRelayTensor *lse_a, const MsRelayTensor *out_b,
    const MsRelayTensor *lse_b, MsRelayTensor *out, MsRelayTensor *lse, MsRelayContext *context);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINDSPORE_RELAY_MINDSPORE_RELAY_H_ */
