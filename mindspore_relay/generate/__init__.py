# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""python -m mindspore_relay.generate: answer many prompts that share system prompts.

options     the command line
model_file  where the model comes from
prompts     files of prompts -> token ids
runner      engine and scheduler, one run per attention mode
report      texts, table, check that the modes agree, JSONL
plot        the picture of a comparison
"""
