#!/bin/sh
# The units as installed: systemd finds nothing wrong with them, and the sandbox leaves an exposure
# of at most 1.7: PrivateUsers=, without which nobody could tell who asked, is 0.2 of it.
#
# parallel: yes
# takes: 1 s CPU in 3 s
# sanitizers: no, make chooses the build by itself
set -eu
command -v systemd-analyze >/dev/null || {
    echo "systemd-analyze is not installed"
    exit 77
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make --no-print-directory install DESTDIR="$root" PREFIX=/usr >"$root/log" 2>&1 || {
    cat "$root/log"
    echo "not ok - make install"
    exit 1
}
units=$root/usr/lib/systemd/system
test=0
for unit in convolvd.service convolvd@.service convolv-web.service convolv-alarm@.service; do
    test=$((test + 1))
    # --threshold counts in tenths.
    if systemd-analyze security --offline=yes --no-pager --threshold=17 "$units/$unit" >"$root/score" 2>&1; then
        echo "# $(grep -a 'Overall exposure' "$root/score" | sed 's/[^ -~]//g')"
        echo "ok $test - exposure of $unit"
    else
        sed 's/^/# /' "$root/score"
        echo "not ok $test - exposure of $unit"
    fi
done
# The program is not at its place: that is the one thing it may find.
systemd-analyze verify --man=no "$units/convolvd.service" "$units/convolvd.socket" "$units/convolvd-control.socket" "$units/convolvd-observe.socket" \
    "$units/convolv-web.service" "$units/convolv-alarm@.path" "$units/convolv-alarm@.service" 2>&1 |
    grep -v 'is not executable' | grep convolv >"$root/verify" || true
if [ -s "$root/verify" ]; then
    sed 's/^/# /' "$root/verify"
    echo "not ok 4 - systemd-analyze verify"
    exit 1
fi
echo "ok 4 - systemd-analyze verify"
