/* Copyright 2026 The mindspore_relay Authors
 * SPDX-License-Identifier: Apache-2.0 */

/* A C99 caller: results that can be worked out by hand, and every promise of mindspore_relay.h on
 * errors, structs of another size, reuse and lifetime. Built against the installed package and run
 * under valgrind by tests/test_installed_c.py. Prints "ok", or the first check that failed.
 *
 * Queries are 0: every visible key has the same weight, so the output is the mean of the visible
 * values and lse is the log of their number. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mindspore_relay/mindspore_relay.h"

#define CHECK(condition)                                                                         \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, MsRelayLastError()); \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

/* The text of the last failure holds `part`. */
#define CHECK_ERROR(part) CHECK(strstr(MsRelayLastError(), part) != NULL)

enum { kHeadSize = 8, kBlockSize = 4, kNumBlocks = 3, kSeqLen = 2, kKvSeqLen = 7 };

static MsRelayTensor MakeTensor(void *data, int32_t dtype, int32_t rank, const int64_t *shape) {
  MsRelayTensor tensor = {0};
  int64_t stride = 1;
  int32_t dim;
  tensor.struct_bytes = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = rank;
  tensor.data = data;
  for (dim = rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = shape[dim];
    tensor.strides[dim] = stride;
    stride *= shape[dim];
  }
  return tensor;
}

static int IsClose(float a, double b) { return fabs(a - b) <= 1e-6 * (1.0 + fabs(b)); }

/* One prefill request: 2 new tokens after 5 cached ones, one head, keys in blocks 2 and 0. */
typedef struct Prefill {
  float query[kSeqLen][kHeadSize];
  float cache[kNumBlocks][kBlockSize][kHeadSize]; /* value of logical token t: t */
  int32_t block_table[2];
  int32_t seq_len, kv_seq_len;
  float out[kSeqLen][kHeadSize];
  float lse[kSeqLen];
  MsRelayTensor query_tensor, cache_tensor, table_tensor, seq_tensor, kv_seq_tensor, out_tensor,
      lse_tensor;
} Prefill;

static void InitPrefill(Prefill *p) {
  static const int64_t query_shape[] = {kSeqLen, kHeadSize};
  static const int64_t cache_shape[] = {kNumBlocks, kBlockSize, kHeadSize};
  static const int64_t table_shape[] = {1, 2};
  static const int64_t batch_shape[] = {1};
  static const int64_t lse_shape[] = {kSeqLen, 1};
  int token, i;
  memset(p, 0, sizeof(*p));
  for (i = 0; i < kNumBlocks * kBlockSize * kHeadSize; ++i) ((float *)p->cache)[i] = NAN;
  p->block_table[0] = 2;
  p->block_table[1] = 0;
  for (token = 0; token < kKvSeqLen; ++token) {
    float *row = p->cache[p->block_table[token / kBlockSize]][token % kBlockSize];
    for (i = 0; i < kHeadSize; ++i) row[i] = (float)token;
  }
  p->seq_len = kSeqLen;
  p->kv_seq_len = kKvSeqLen;
  p->query_tensor = MakeTensor(p->query, MS_RELAY_FLOAT32, 2, query_shape);
  p->cache_tensor = MakeTensor(p->cache, MS_RELAY_FLOAT32, 3, cache_shape);
  p->table_tensor = MakeTensor(p->block_table, MS_RELAY_INT32, 2, table_shape);
  p->seq_tensor = MakeTensor(&p->seq_len, MS_RELAY_INT32, 1, batch_shape);
  p->kv_seq_tensor = MakeTensor(&p->kv_seq_len, MS_RELAY_UINT32, 1, batch_shape);
  p->out_tensor = MakeTensor(p->out, MS_RELAY_FLOAT32, 2, query_shape);
  p->lse_tensor = MakeTensor(p->lse, MS_RELAY_FLOAT32, 2, lse_shape);
}

static MsRelayStatus PlanPrefill(Prefill *p, uint64_t *workspace_bytes, MsRelayOperation **op,
                                 MsRelayContext *context) {
  return MsRelayPrefixEncoderGetWorkspaceSize(&p->query_tensor, &p->cache_tensor, &p->cache_tensor,
                                              &p->table_tensor, NULL, &p->seq_tensor,
                                              &p->kv_seq_tensor, NULL, MS_RELAY_MASK_CAUSAL, 1, 1,
                                              1.0f, &p->out_tensor, workspace_bytes, op, context);
}

static void *NewWorkspace(uint64_t bytes) {
  void *workspace = NULL;
  CHECK(posix_memalign(&workspace, 64, bytes + 64) == 0);
  return workspace;
}

static void CheckPrefillOutput(const Prefill *p) {
  int row, i;
  for (row = 0; row < kSeqLen; ++row) {
    const int position = kKvSeqLen - kSeqLen + row;
    for (i = 0; i < kHeadSize; ++i) CHECK(IsClose(p->out[row][i], position / 2.0));
  }
}

static void TestPrefixEncoder(void) {
  Prefill p;
  MsRelayContext *context = NULL;
  MsRelayOperation *op = NULL;
  MsRelayOptions options = {0};
  uint64_t workspace_bytes = 0;
  void *workspace;
  int run;
  InitPrefill(&p);
  CHECK(MsRelayCreateContext(&context) == MS_RELAY_OK);
  CHECK(MsRelayCreateOperation(&op, context) == MS_RELAY_OK);
  options.struct_bytes = sizeof(options);
  options.lse = &p.lse_tensor;
  CHECK(MsRelayOperationSetOptions(op, &options) == MS_RELAY_OK);
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, context) == MS_RELAY_OK);
  /* Descriptions and lengths are not read any more. */
  memset(&p.query_tensor, 0xff, sizeof(p.query_tensor));
  memset(&p.lse_tensor, 0xff, sizeof(p.lse_tensor));
  memset(&options, 0xff, sizeof(options));
  p.seq_len = p.kv_seq_len = -1;
  workspace = NewWorkspace(workspace_bytes);
  for (run = 0; run < 3; ++run) {
    memset(p.out, 0xff, sizeof(p.out));
    memset(p.lse, 0xff, sizeof(p.lse));
    memset(workspace, 0xff, workspace_bytes);
    CHECK(MsRelayPrefixEncoder(workspace, workspace_bytes, op, run == 0 ? context : NULL) ==
          MS_RELAY_OK);
    CheckPrefillOutput(&p);
    CHECK(IsClose(p.lse[0], log(6.0)) && IsClose(p.lse[1], log(7.0)));
  }
  MsRelayDestroyContext(context); /* before its operation */
  MsRelayDestroyOperation(op);
  free(workspace);
}

/* Two requests of one group: 3 shared keys; 1 and 0 private ones. Values are 1, 2, 3 and 10. */
static void TestRelayAttention(void) {
  float query[2][kHeadSize] = {{0}}, shared[3][kHeadSize], own[1][kHeadSize], out[2][kHeadSize];
  int32_t kv_seq_len[] = {4, 3}, share_map[] = {0, 0}, share_len[] = {3};
  const int64_t query_shape[] = {2, kHeadSize}, shared_shape[] = {3, kHeadSize};
  const int64_t own_shape[] = {1, kHeadSize}, none_shape[] = {0, kHeadSize}, two[] = {2};
  const int64_t one[] = {1};
  MsRelayTensor query_tensor = MakeTensor(query, MS_RELAY_FLOAT32, 2, query_shape);
  MsRelayTensor out_tensor = MakeTensor(out, MS_RELAY_FLOAT32, 2, query_shape);
  MsRelayTensor shared_tensor = MakeTensor(shared, MS_RELAY_FLOAT32, 2, shared_shape);
  MsRelayTensor own_tensors[2];
  MsRelayTensor kv_tensor = MakeTensor(kv_seq_len, MS_RELAY_INT32, 1, two);
  MsRelayTensor map_tensor = MakeTensor(share_map, MS_RELAY_INT32, 1, two);
  MsRelayTensor len_tensor = MakeTensor(share_len, MS_RELAY_INT32, 1, one);
  MsRelayTensorList list = {0}, share_list = {0};
  MsRelayOperation *op = NULL;
  uint64_t workspace_bytes;
  void *workspace;
  int32_t path = -1;
  int i, token;
  for (i = 0; i < kHeadSize; ++i) {
    for (token = 0; token < 3; ++token) shared[token][i] = (float)(token + 1);
    own[0][i] = 10.0f;
  }
  own_tensors[0] = MakeTensor(own, MS_RELAY_FLOAT32, 2, own_shape);
  own_tensors[1] = MakeTensor(NULL, MS_RELAY_FLOAT32, 2, none_shape);
  list.struct_bytes = share_list.struct_bytes = sizeof(list);
  list.num_tensors = 2;
  list.tensors = own_tensors;
  share_list.num_tensors = 1;
  share_list.tensors = &shared_tensor;
  CHECK(MsRelayAttentionGetWorkspaceSize(&query_tensor, &list, &list, &share_list, &share_list,
                                         NULL, NULL, &kv_tensor, &map_tensor, &len_tensor,
                                         MS_RELAY_MASK_UNDEFINED, 1, 0, 1.0f, &out_tensor,
                                         &workspace_bytes, &op, NULL) == MS_RELAY_OK);
  workspace = NewWorkspace(workspace_bytes);
  CHECK(MsRelayAttention(workspace, workspace_bytes, op, NULL) == MS_RELAY_OK);
  for (i = 0; i < kHeadSize; ++i) CHECK(IsClose(out[0][i], 4.0) && IsClose(out[1][i], 2.0));
  CHECK(MsRelayOperationGetPath(op, 0, &path) == MS_RELAY_OK);
  CHECK(path == MS_RELAY_PATH_RELAY || path == MS_RELAY_PATH_PLAIN);
  CHECK(MsRelayOperationGetPath(op, 1, &path) == MS_RELAY_INVALID_ARGUMENT);
  /* It is no plan of the other operator. */
  CHECK(MsRelayPrefixEncoder(workspace, workspace_bytes, op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  MsRelayDestroyOperation(op);
  free(workspace);
}

static void TestCacheAndMerge(void) {
  float key[2][kHeadSize], cache[2][kBlockSize][kHeadSize] = {{{0}}};
  float out_a[1][kHeadSize], out_b[1][kHeadSize], lse_a = 0.0f, lse_b = 0.0f;
  int32_t slots[] = {5, -1};
  const int64_t key_shape[] = {2, kHeadSize}, cache_shape[] = {2, kBlockSize, kHeadSize};
  const int64_t out_shape[] = {1, kHeadSize}, lse_shape[] = {1, 1}, two[] = {2};
  MsRelayTensor key_tensor = MakeTensor(key, MS_RELAY_FLOAT32, 2, key_shape);
  MsRelayTensor cache_tensor = MakeTensor(cache, MS_RELAY_FLOAT32, 3, cache_shape);
  MsRelayTensor slot_tensor = MakeTensor(slots, MS_RELAY_INT32, 1, two);
  MsRelayTensor a = MakeTensor(out_a, MS_RELAY_FLOAT32, 2, out_shape);
  MsRelayTensor b = MakeTensor(out_b, MS_RELAY_FLOAT32, 2, out_shape);
  MsRelayTensor lse_a_tensor = MakeTensor(&lse_a, MS_RELAY_FLOAT32, 2, lse_shape);
  MsRelayTensor lse_b_tensor = MakeTensor(&lse_b, MS_RELAY_FLOAT32, 2, lse_shape);
  int i;
  for (i = 0; i < kHeadSize; ++i) {
    key[0][i] = 1.0f;
    key[1][i] = 2.0f;
    out_a[0][i] = 1.0f;
    out_b[0][i] = 3.0f;
  }
  CHECK(MsRelayReshapeAndCache(&key_tensor, &key_tensor, &cache_tensor, &cache_tensor, &slot_tensor,
                               NULL) == MS_RELAY_OK);
  CHECK(cache[1][1][0] == 1.0f && cache[0][0][0] == 0.0f && cache[1][2][0] == 0.0f);
  CHECK(MsRelayMergeAttentionStates(&a, &lse_a_tensor, &b, &lse_b_tensor, &a, &lse_a_tensor,
                                    NULL) == MS_RELAY_OK);
  CHECK(IsClose(out_a[0][0], 2.0) && IsClose(lse_a, log(2.0)));
}

static void TestStatusNames(void) {
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_OK), "ok") == 0);
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_INVALID_ARGUMENT), "invalid argument") == 0);
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_UNSUPPORTED), "unsupported") == 0);
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_OUT_OF_MEMORY), "out of memory") == 0);
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_INTERNAL), "internal error") == 0);
  CHECK(strcmp(MsRelayStatusName(MS_RELAY_INTERRUPTED), "interrupted") == 0);
  CHECK(strcmp(MsRelayStatusName(6), "unknown") == 0);
  CHECK(strcmp(MsRelayStatusName(-1), "unknown") == 0);
}

static void TestLastError(void) {
  MsRelayContext *one = NULL, *two = NULL;
  MsRelayOperation *op = NULL;
  Prefill p;
  uint64_t workspace_bytes = 1, length;
  char text[1024], cut[8];
  CHECK(MsRelayCreateContext(&one) == MS_RELAY_OK && MsRelayCreateContext(&two) == MS_RELAY_OK);
  CHECK(MsRelayContextLastError(one, text, sizeof(text)) == 0 && text[0] == '\0');
  InitPrefill(&p);
  p.kv_seq_len = 1;
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, one) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(op == NULL && workspace_bytes == 0);
  CHECK_ERROR("prefix_encoder: ");
  CHECK_ERROR("seq_len[0]=2");
  length = MsRelayContextLastError(one, text, sizeof(text));
  CHECK(length == strlen(text) && strcmp(text, MsRelayLastError()) == 0);
  CHECK(MsRelayContextLastError(one, cut, sizeof(cut)) == length);
  CHECK(strlen(cut) == sizeof(cut) - 1 && strncmp(cut, text, sizeof(cut) - 1) == 0);
  CHECK(MsRelayContextLastError(one, NULL, 0) == length);
  CHECK(MsRelayContextLastError(two, text, sizeof(text)) == 0);
  CHECK(MsRelayContextLastError(NULL, text, sizeof(text)) == 0 && text[0] == '\0');
  /* A success leaves the text; another context's failure leaves that of this one. */
  CHECK(MsRelayContextSetNumThreads(two, -1) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayContextSetNumThreads(two, 1) == MS_RELAY_OK);
  CHECK(MsRelayContextLastError(one, NULL, 0) == length);
  CHECK_ERROR("num_threads");
  MsRelayDestroyContext(one);
  MsRelayDestroyContext(two);
}

static void TestNullIsAnError(void) {
  Prefill p;
  MsRelayOperation *op = NULL;
  MsRelayOptions options = {0};
  uint64_t workspace_bytes = 0;
  int32_t path;
  InitPrefill(&p);
  CHECK(MsRelayCreateContext(NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayContextSetNumThreads(NULL, 1) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayCreateOperation(NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayOperationSetOptions(NULL, &options) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayOperationGetPath(NULL, 0, &path) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayOperationSetInterrupt(NULL, NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelaySetIsa(NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelaySetNumThreads(0) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(PlanPrefill(&p, NULL, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(PlanPrefill(&p, &workspace_bytes, NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPrefixEncoderGetWorkspaceSize(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 9, 1,
                                             1, 1.0f, NULL, &workspace_bytes, &op,
                                             NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayAttentionGetWorkspaceSize(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         0, 1, 1, 1.0f, NULL, &workspace_bytes, &op,
                                         NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayAttentionGetWorkspaceSize(&p.query_tensor, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                         NULL, NULL, 0, 1, 1, 1.0f, NULL, &workspace_bytes, &op,
                                         NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayReshapeAndCache(NULL, NULL, NULL, NULL, NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayMergeAttentionStates(NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
        MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPrefixEncoder(NULL, 0, NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayAttention(NULL, 0, NULL, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(op == NULL);
  MsRelayDestroyContext(NULL);
  MsRelayDestroyOperation(NULL);
}

static void TestWorkspaceAndPlan(void) {
  Prefill p;
  MsRelayOperation *op = NULL;
  uint64_t workspace_bytes = 0;
  char *workspace;
  InitPrefill(&p);
  CHECK(MsRelayCreateOperation(&op, NULL) == MS_RELAY_OK);
  CHECK(MsRelayPrefixEncoder(NULL, 0, op, NULL) == MS_RELAY_INVALID_ARGUMENT); /* no plan yet */
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_OK && workspace_bytes > 0);
  workspace = (char *)NewWorkspace(workspace_bytes);
  CHECK(MsRelayPrefixEncoder(workspace, workspace_bytes - 1, op, NULL) ==
        MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPrefixEncoder(NULL, workspace_bytes, op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPrefixEncoder(workspace + 4, workspace_bytes, op, NULL) ==
        MS_RELAY_INVALID_ARGUMENT);
  CHECK_ERROR("aligned");
  CHECK(MsRelayPrefixEncoder(workspace, workspace_bytes, op, NULL) == MS_RELAY_OK);
  /* A failed phase 1 keeps the operation and leaves no plan; the next one works. */
  p.block_table[0] = kNumBlocks;
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(op != NULL && workspace_bytes == 0);
  CHECK(MsRelayPrefixEncoder(workspace, 1 << 20, op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  p.block_table[0] = 2;
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_OK);
  CHECK(MsRelayPrefixEncoder(workspace, workspace_bytes, op, NULL) == MS_RELAY_OK);
  CheckPrefillOutput(&p);
  MsRelayDestroyOperation(op);
  free(workspace);
}

/* What a caller built with a later header hands over: structs with more fields. */
typedef struct LaterTensor {
  MsRelayTensor tensor;
  int64_t new_field;
} LaterTensor;

static void TestStructsGrow(void) {
  Prefill p;
  MsRelayOperation *op = NULL;
  uint64_t workspace_bytes = 0;
  LaterTensor query = {0};
  struct {
    MsRelayOptions options;
    int64_t new_field;
  } later_options = {{0}, 0};
  InitPrefill(&p);
  query.tensor = p.query_tensor;
  query.tensor.struct_bytes = sizeof(query);
  CHECK(MsRelayPrefixEncoderGetWorkspaceSize(&query.tensor, &p.cache_tensor, &p.cache_tensor,
                                             &p.table_tensor, NULL, &p.seq_tensor, &p.kv_seq_tensor,
                                             NULL, MS_RELAY_MASK_CAUSAL, 1, 1, 1.0f, &p.out_tensor,
                                             &workspace_bytes, &op, NULL) == MS_RELAY_OK);
  query.new_field = 1; /* it asks for what the library does not know */
  CHECK(MsRelayPrefixEncoderGetWorkspaceSize(&query.tensor, &p.cache_tensor, &p.cache_tensor,
                                             &p.table_tensor, NULL, &p.seq_tensor, &p.kv_seq_tensor,
                                             NULL, MS_RELAY_MASK_CAUSAL, 1, 1, 1.0f, &p.out_tensor,
                                             &workspace_bytes, &op, NULL) == MS_RELAY_UNSUPPORTED);
  CHECK_ERROR("query sets a field at byte 120");
  later_options.options.struct_bytes = sizeof(later_options);
  CHECK(MsRelayOperationSetOptions(op, &later_options.options) == MS_RELAY_OK);
  later_options.new_field = 1;
  CHECK(MsRelayOperationSetOptions(op, &later_options.options) == MS_RELAY_UNSUPPORTED);
  later_options.options.struct_bytes = 8;
  CHECK(MsRelayOperationSetOptions(op, &later_options.options) == MS_RELAY_INVALID_ARGUMENT);
  p.query_tensor.struct_bytes = 0; /* forgotten */
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  CHECK_ERROR("struct_bytes");
  p.query_tensor.struct_bytes = 0xcccccccc; /* never set: must not be believed */
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  p.query_tensor.struct_bytes = sizeof(MsRelayTensor);
  p.query_tensor.reserved = 1;
  CHECK(PlanPrefill(&p, &workspace_bytes, &op, NULL) == MS_RELAY_UNSUPPORTED);
  MsRelayDestroyOperation(op);
}

/* A list whose elements are larger than this library's MsRelayTensor. */
static void TestListOfLaterTensors(void) {
  float query[2][kHeadSize] = {{0}}, own[2][kHeadSize], out[2][kHeadSize];
  int32_t kv_seq_len[] = {1, 1};
  const int64_t query_shape[] = {2, kHeadSize}, own_shape[] = {1, kHeadSize}, two[] = {2};
  MsRelayTensor query_tensor = MakeTensor(query, MS_RELAY_FLOAT32, 2, query_shape);
  MsRelayTensor out_tensor = MakeTensor(out, MS_RELAY_FLOAT32, 2, query_shape);
  MsRelayTensor kv_tensor = MakeTensor(kv_seq_len, MS_RELAY_INT32, 1, two);
  LaterTensor tensors[2] = {{{0}, 0}, {{0}, 0}};
  MsRelayTensorList list = {0};
  MsRelayOperation *op = NULL;
  uint64_t workspace_bytes = 0;
  void *workspace;
  int i;
  for (i = 0; i < 2; ++i) {
    int j;
    for (j = 0; j < kHeadSize; ++j) own[i][j] = (float)(i + 1);
    tensors[i].tensor = MakeTensor(own[i], MS_RELAY_FLOAT32, 2, own_shape);
    tensors[i].tensor.struct_bytes = sizeof(LaterTensor);
  }
  list.struct_bytes = sizeof(list);
  list.num_tensors = 2;
  list.tensors = &tensors[0].tensor;
  CHECK(MsRelayAttentionGetWorkspaceSize(&query_tensor, &list, &list, NULL, NULL, NULL, NULL,
                                         &kv_tensor, NULL, NULL, 0, 1, 1, 1.0f, &out_tensor,
                                         &workspace_bytes, &op, NULL) == MS_RELAY_OK);
  workspace = NewWorkspace(workspace_bytes);
  CHECK(MsRelayAttention(workspace, workspace_bytes, op, NULL) == MS_RELAY_OK);
  CHECK(out[0][0] == 1.0f && out[1][kHeadSize - 1] == 2.0f);
  tensors[1].tensor.struct_bytes = sizeof(MsRelayTensor); /* the list is not of one kind */
  CHECK(MsRelayAttentionGetWorkspaceSize(&query_tensor, &list, &list, NULL, NULL, NULL, NULL,
                                         &kv_tensor, NULL, NULL, 0, 1, 1, 1.0f, &out_tensor,
                                         &workspace_bytes, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  list.num_tensors = -1;
  CHECK(MsRelayAttentionGetWorkspaceSize(&query_tensor, &list, &list, NULL, NULL, NULL, NULL,
                                         &kv_tensor, NULL, NULL, 0, 1, 1, 1.0f, &out_tensor,
                                         &workspace_bytes, &op, NULL) == MS_RELAY_INVALID_ARGUMENT);
  MsRelayDestroyOperation(op);
  free(workspace);
}

int main(void) {
  char version[32];
  snprintf(version, sizeof(version), "%d.%d.%d", MS_RELAY_VERSION_MAJOR, MS_RELAY_VERSION_MINOR,
           MS_RELAY_VERSION_PATCH);
  CHECK(strcmp(MsRelayVersion(), version) == 0);
  CHECK(strlen(MsRelayLastError()) == 0);
  TestPrefixEncoder();
  TestRelayAttention();
  TestCacheAndMerge();
  TestStatusNames();
  TestLastError();
  TestNullIsAnError();
  TestWorkspaceAndPlan();
  TestStructsGrow();
  TestListOfLaterTensors();
  printf("ok\n");
  return 0;
}
