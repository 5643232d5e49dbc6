#!/bin/sh
# The published systems on a machine that has a GPU and nothing of the build: needs the two programs
# and the libraries they load.
#
#   sh bench/published/run-gpu.sh FOLDER-OF-PROGRAMS RESULTS.csv [SECONDS]
#   (the folder holds bench_published and test_published)
#
# Tests first that every system is correct on the device, then measures for at most SECONDS (default
# 420) and leaves the cells in RESULTS.csv; a second run goes on from there. Afterwards, where the
# build is: copy the file to bench/results/published-gpu.csv and run `make published-record`.
set -u
programs=$1 results=$2 seconds=${3:-420}
CONVOLVD_TEST_DEVICE=gpu timeout 60 "$programs/test_published" 2>&1 | tail -12
cache=$(mktemp -d)
timeout $((seconds + 60)) "$programs/bench_published" --device gpu --cache "$cache" --csv "$results" --seconds "$seconds" 2>&1 |
    awk 'NR % 8 == 1 || !/left/'
rm -rf "$cache"
grep -c . "$results"
