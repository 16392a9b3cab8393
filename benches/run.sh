#!/usr/bin/env bash
# Every figure of the README, in the order in which it stands there. Needs python3 for the document ids; takes about two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
cargo build --release --quiet -p maskwright --example evaluator_speed
cargo build --release --quiet -p maskwright-cpu --example forward_speed
maskwright=target/release/maskwright
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# documents LEN COUNT: ids of packed documents with uneven lengths.
documents() {
    python3 - "$1" "$2" "$folder/docs_$1_$2.npy" <<'PY'
import random, struct, sys
n, k, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random.seed(7)
bounds, ids, at = sorted(random.sample(range(1, n), k - 1)), [], 0
for i in range(n):
    while at < len(bounds) and bounds[at] <= i:
        at += 1
    ids.append(at)
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }" % n
head += " " * (63 - (10 + len(head)) % 64) + "\n"
open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%di" % n, *ids))
PY
}

mask() { # mask LABEL RULE LEN [flags]
    local label=$1 rule=$2 len=$3
    shift 3
    printf '%-24s %8d  ' "$label" "$len"
    "$maskwright" bench mask "$rule" --len "$len" "$@" --json | tr -d '\n ' && echo
}

echo "# block masks, one thread"
for len in 32768 65536 262144 1048576; do
    mask causal 'kv <= q' "$len"
    mask 'window 1024' 'kv <= q && q - kv < 1024' "$len"
    mask 'every fourth key' '(q - kv) % 4 == 0 && kv <= q' "$len"
    documents "$len" 16
    mask '16 documents' 'kv <= q && doc[q] == doc[kv]' "$len" --capture "doc=$folder/docs_${len}_16.npy"
done
documents 1048576 1000
mask '1000 documents' 'kv <= q && doc[q] == doc[kv]' 1048576 --capture "doc=$folder/docs_1048576_1000.npy"
mask 'natten 1024x1024, 13' natten_2d 1048576 --set height=1024 --set width=1024 --set kernel=13

echo "# verification of every cell, two threads"
documents 8192 16
RAYON_NUM_THREADS=2 "$maskwright" verify 'kv <= q && q - kv < 1024 && doc[q] == doc[kv]' \
    --capture "doc=$folder/docs_8192_16.npy" --q-len 8192 --kv-len 8192 --json | grep -E 'verdict|cells_checked|exhaustive|seconds'

echo "# compiled rules, one thread"
target/release/examples/evaluator_speed
echo "# attention forward (1, 8, 4096, 64) f32, one thread"
target/release/examples/forward_speed
