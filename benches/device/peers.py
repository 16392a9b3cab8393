#!/usr/bin/env python3
"""Times PyTorch's attention on the cases of `cargo xtask device`, and prints one JSON object a line.

    peers.py CASES.json SECONDS

CASES.json is written by the same program that times our kernels: a list of objects with the fields `id`, `rule` (with
its parameters), `q_heads`, `kv_heads`, `dim`, `len`, `documents` (ids of packed documents, by length). Each line that
is printed has `id`, `peer`, and either `ms` (median of the repetitions, by events on the device) or `skipped` (why).
Cases come in the order in which they matter; once SECONDS are over, the rest is reported as skipped.

Peers: scaled_dot_product_attention with the flash and the cuDNN back end, where the rule is one of theirs, and compiled
FlexAttention with its own block mask, for all rules. Everything is bfloat16, batch 1.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

REPETITIONS = 7
SECONDS_A_REPETITION = 0.03


def documents(case):
    """Ids of packed documents: `documents` equal parts, the last one longer."""
    part = case["len"] // case["rule"]["documents"]
    ids = torch.arange(case["len"], device="cuda", dtype=torch.int32) // part
    return torch.clamp(ids, max=case["rule"]["documents"] - 1)


def flex_rules(case):
    """The mask_mod and the score_mod of a case; None where it has none."""
    rule = case["rule"]
    name = rule["name"]

    def causal(b, h, q, kv):
        return q >= kv

    if name == "dense":
        return None, None
    if name == "causal":
        return causal, None
    if name == "window":
        window = rule["window"]
        return (lambda b, h, q, kv: (q >= kv) & (q - kv < window)), None
    if name == "documents":
        doc = documents(case)
        return (lambda b, h, q, kv: (q >= kv) & (doc[q] == doc[kv])), None
    if name == "alibi":
        heads = case["q_heads"]
        slope = torch.exp2(-8.0 * torch.arange(1, heads + 1, device="cuda", dtype=torch.float32) / heads)
        return causal, lambda score, b, h, q, kv: score + slope[h] * (kv - q)
    if name == "softcap":
        cap = rule["cap"]
        return causal, lambda score, b, h, q, kv: cap * torch.tanh(score / cap)
    if name == "prefix":
        prefix = rule["prefix"]
        return (lambda b, h, q, kv: (kv < prefix) | (q >= kv)), None
    raise ValueError(f"unknown rule {name}")


def median_ms(run):
    """Milliseconds of one call, by events around as many calls as fill a repetition."""
    run()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    calls = max(1, min(100, int(SECONDS_A_REPETITION * 1e3 / max(begin.elapsed_time(end), 1e-3))))
    times = []
    for _ in range(REPETITIONS):
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return sorted(times)[REPETITIONS // 2]


def inputs(case):
    torch.manual_seed(0)

    def tensor(heads):
        return torch.randn(1, heads, case["len"], case["dim"], device="cuda", dtype=torch.bfloat16)

    return tensor(case["q_heads"]), tensor(case["kv_heads"]), tensor(case["kv_heads"])


def sdpa(case, backend):
    q, k, v = inputs(case)
    is_causal = case["rule"]["name"] == "causal"
    gqa = case["q_heads"] != case["kv_heads"]
    with sdpa_kernel([backend]), torch.no_grad():
        return median_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=gqa))


# One compiled function a rule, for all lengths and head dimensions.
COMPILED = {}


def flex(case):
    q, k, v = inputs(case)
    mask_mod, score_mod = flex_rules(case)
    length = case["len"]
    block_mask = None
    if mask_mod is not None:
        block_mask = create_block_mask(mask_mod, 1, 1, length, length, device="cuda", _compile=True)
    key = (json.dumps(case["rule"], sort_keys=True), case["dim"], length)
    compiled = COMPILED.setdefault(key, torch.compile(flex_attention, dynamic=False))
    gqa = case["q_heads"] != case["kv_heads"]
    with torch.no_grad():
        return median_ms(lambda: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=gqa))


def main():
    cases = json.load(open(sys.argv[1]))
    end = time.time() + float(sys.argv[2])
    torch._dynamo.config.cache_size_limit = 1000
    device = torch.cuda.get_device_name()
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "device": device}), flush=True)
    peers = {
        "sdpa-flash": lambda case: sdpa(case, SDPBackend.FLASH_ATTENTION),
        "sdpa-cudnn": lambda case: sdpa(case, SDPBackend.CUDNN_ATTENTION),
        "flex": flex,
    }
    for case in cases:
        for peer, run in peers.items():
            line = {"id": case["id"], "peer": peer}
            if peer != "flex" and case["rule"]["name"] not in ("dense", "causal"):
                continue
            if time.time() > end:
                line["skipped"] = "no time left"
            else:
                try:
                    line["ms"] = run(case)
                    if not math.isfinite(line["ms"]):
                        line = {"id": case["id"], "peer": peer, "skipped": "no time was measured"}
                except Exception as fault:  # a peer that refuses a case says why, and the others go on
                    line["skipped"] = f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"
            print(json.dumps(line), flush=True)
            torch.cuda.empty_cache()


main()
