# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""A Llama-architecture language model on the two operators, from GGUF file to generated text.

gguf_file   bytes of a GGUF file -> checked metadata and tensors
weights     tensors -> configuration and float32 matrices, laid out for MindSpore's MatMul
tokenizer   text <-> token ids, ChatML template
model       the Cells: one decode step, one packed prefill
engine      blocks of the paged cache, launches of the two graphs
scheduler   queue of requests, continuous batching
sampling    greedy, temperature, top-p
"""
