#!/usr/bin/env python3
"""Times PyTorch's attention on the cases of `cargo xtask device`, and prints one JSON object a line.

    peers.py CASES.json SECONDS

CASES.json is written by the same program that times our kernels: a list of objects with the fields `id`, `rule` (its
name and its numbers), `q_heads`, `kv_heads`, `dim`, `len`. The first line that is printed has the versions; each other
one has `id`, `peer`, and either `ms` (the median of the repetitions, by events on the device) or `skipped` (why).

Peers: scaled_dot_product_attention with the flash and the cuDNN back end, where the rule is one of theirs, and compiled
FlexAttention with its own block mask, for all rules. Everything is bfloat16, batch 1, without gradients.

The first two compile nothing and come first, for all cases. FlexAttention compiles a kernel for each case, some seconds
each; its cases come in the order of the list, which is that in which they matter, and once SECONDS are over the rest is
reported as skipped.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# As our own program times.
REPETITIONS = 7
REPETITION_MS = 30.0
MOST_CALLS = 100


def documents(case):
    """Ids of packed documents: equal parts, the last one longer."""
    count = case["rule"]["documents"]
    part = max(case["len"] // count, 1)
    ids = torch.arange(case["len"], device="cuda", dtype=torch.int32) // part
    return torch.clamp(ids, max=count - 1)


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
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def repeat(calls):
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    # The first call compiles and loads, the second tells how many fill a repetition.
    repeat(1)
    calls = max(1, min(MOST_CALLS, int(REPETITION_MS / max(repeat(1), 1e-3))))
    return sorted(repeat(calls) / calls for _ in range(REPETITIONS))[REPETITIONS // 2]


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


def flex(case):
    # Each case is compiled for its own length. What was compiled for others goes, so that a call does not look through it.
    torch._dynamo.reset()
    q, k, v = inputs(case)
    mask_mod, score_mod = flex_rules(case)
    length = case["len"]
    block_mask = None
    if mask_mod is not None:
        # Not compiled: that would take as long as the kernel, and the mask is not timed.
        block_mask = create_block_mask(mask_mod, None, None, length, length, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    gqa = case["q_heads"] != case["kv_heads"]
    with torch.no_grad():
        return median_ms(lambda: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=gqa))


SDPA = {"sdpa-flash": SDPBackend.FLASH_ATTENTION, "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION}


def measure(case, peer, end, run):
    line = {"id": case["id"], "peer": peer}
    if time.time() > end:
        line["skipped"] = "no time left"
    else:
        began = time.time()
        try:
            ms = run()
            if math.isfinite(ms):
                line["ms"] = ms
            else:
                line["skipped"] = "no time was measured"
        except Exception as fault:  # a peer that refuses a case says why, and the others go on
            first = (str(fault).splitlines() or [""])[0]
            line["skipped"] = f"{type(fault).__name__}: {first}"[:200]
        line["seconds"] = round(time.time() - began, 2)
    print(json.dumps(line), flush=True)
    torch.cuda.empty_cache()


def versions():
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton_version,
        "cudnn": str(torch.backends.cudnn.version()),
        "device": torch.cuda.get_device_name(),
    }


def main():
    end = time.time() + float(sys.argv[2])
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    print(json.dumps(versions()), flush=True)
    for case in cases:
        if case["rule"]["name"] in ("dense", "causal"):
            for peer, backend in SDPA.items():
                measure(case, peer, end, lambda: sdpa(case, backend))
    for case in cases:
        measure(case, "flex", end, lambda: flex(case))


if __name__ == "__main__":
    main()
