#!/usr/bin/env bash
# The run on a machine with a GPU: `bash run.sh OUT`. Checks our kernels, times them and PyTorch's, and prints one table;
# all logs go to OUT. A step that fails or takes too long does not stop the next. At most 7 minutes and 40 seconds.
# What follows OUT goes to `check` and `time`: with `--backend emulator` the script itself can be tried without a GPU.
set -uo pipefail
out=${1:?usage: run.sh OUT [--backend emulator]}
shift
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

# Where machines in containers keep the driver.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64"
export PYTHONUNBUFFERED=1
device="$here/maskwright-device"
chmod +x "$device"

# step NAME SECONDS LOG COMMAND...: what it prints goes to LOG.
step() {
    local name=$1 secs=$2 log=$3 began=$SECONDS status
    shift 3
    timeout --kill-after=5 "$secs" "$@" >"$out/$log" 2>"$work/errors"
    status=$?
    if [ -s "$work/errors" ]; then
        tail -c 200000 "$work/errors" >>"$out/errors.log"
    fi
    echo "$name: exit code $status after $((SECONDS - began)) s"
    if [ "$status" -ne 0 ]; then
        failed+=("$name")
        tail -n 5 "$work/errors"
    fi
}

{
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.limit --format=csv,noheader
    nvidia-smi --query-gpu=driver_version --format=csv,noheader
    grep -m1 'model name' /proc/cpuinfo
    nproc
    ldd --version | head -n1
} >"$out/machine.txt" 2>&1
head -n1 "$out/machine.txt"
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n1)

mkdir "$work/run"
tar -xzf "$here/kernels.tar.gz" -C "$work/run" && cp "$here/manifest.json" "$here/CASES.json" "$work/run/"

step check 120 check.log "$device" check "$work/run" --emulator-seconds 60 "$@"
step time 70 time.log "$device" time "$work/run" --out "$out/ours.jsonl" "$@"
# It stops by itself when its seconds are over; one more compilation may be under way then.
step peers 255 peers.jsonl python3 "$here/peers.py" "$work/run/CASES.json" 225
step table 10 table.md "$device" table "$out/ours.jsonl" "$out/peers.jsonl" --machine "driver ${driver:-unknown}"

echo
grep '^FAIL' "$out/check.log" | head -n 20
grep -A4 '^| type' "$out/check.log"
tail -n1 "$out/check.log"
echo
cat "$out/table.md"
if [ ${#failed[@]} -ne 0 ]; then
    echo
    echo "failed: ${failed[*]}"
    exit 1
fi
