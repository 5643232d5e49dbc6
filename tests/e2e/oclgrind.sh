#!/bin/sh
# Runs every variant's kernels under Oclgrind, as built for a GPU, with barriers; unless
# CONVOLVD_TEST_LONG is set, only the tail of long filters, which PoCL takes minutes to compile so:
#   tests/e2e/oclgrind.sh BUILD_DIRECTORY
# Fails when the results are wrong or Oclgrind reports anything (races, bounds, barriers,
# API misuse).
# timeout: 600
# takes-long: 154 s CPU in 176 s
# sanitizers: no, Oclgrind must be loaded before all others, and watches memory itself
# parallel: yes
# takes: 5 s CPU in 8 s
# long: also, all variants take the simulator half a minute
# turns: yes
set -eu
ulimit -v 8000000 # the simulator shadows every byte of device memory
program=$1/tests/test_engine_small
command -v oclgrind >/dev/null || {
    echo "oclgrind is missing; Debian 12 has it (make deps), Debian 13 has not"
    exit 77
}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0
shapes="gpu cpu"
if [ -z "${CONVOLVD_TEST_LONG:-}" ]; then
    shapes=gpu
    export CONVOLVD_TEST_ONLY=a_long_tail_in_any_items
fi
for shape in $shapes; do
    report=$directory/$shape
    : >"$report"
    if ! CONVOLVD_TEST_DEVICE=oclgrind CONVOLVD_TEST_SHAPE=$shape \
        oclgrind --data-races --check-api --log "$report" "$program" >"$directory/out" 2>&1; then
        cat "$directory/out"
        failed=1
    fi
    if [ -s "$report" ]; then
        echo "oclgrind, kernels in $shape shape:" >&2
        head -50 "$report" >&2
        failed=1
    fi
    echo "oclgrind, $shape shape: $(grep -c 'as defined' "$directory/out" || true) plans"
done
exit $failed
