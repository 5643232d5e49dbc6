#!/bin/bash
# What tests/e2e/test_packages.py runs inside the booted minimal system: installs the packages, uses what they bring,
# upgrades them in the middle of a stream, purges them. One TAP line for each step.
#
#   tests/systemd/packages.sh PACKAGES UPGRADE     folders of .deb files
set -u
packages=$1 upgrade=$2
export DEBIAN_FRONTEND=noninteractive
step=0
check() { # NAME COMMAND…
    step=$((step + 1))
    local name=$1
    shift
    if "$@" >/tmp/said 2>&1; then
        echo "ok $step - $name"
    else
        echo "not ok $step - $name"
        sed 's/^/# /' /tmp/said
        journalctl --no-pager -o cat -u convolvd -n 20 | sed 's/^/# /'
        exit 1
    fi
}

# Every path of the system but what dpkg and the journal write about it, and the users.
everything() {
    find / -xdev \( -path /proc -o -path /run -o -path /tmp -o -path /var/log -o -path /var/lib/dpkg -o -path /var/cache \
        -o -path /var/lib/systemd -o -path /var/tmp -o -path /root -o -name __pycache__ \) -prune -o -print | sort
    find /run/convolvd* /var/cache/convolvd* /var/lib/systemd/deb-systemd-helper* 2>/dev/null | grep convolv
    cut -d: -f1 /etc/passwd /etc/group
}

eventually() { # COMMAND…: within 60 s
    for _ in $(seq 300); do
        "$@" && return
        sleep 0.2
    done
    return 1
}

get() { # PATH: of the page, as a browser asks for it
    exec 3<>/dev/tcp/127.0.0.1/8470 && printf 'GET %s HTTP/1.1\r\nHost: localhost:8470\r\nConnection: close\r\n\r\n' "$1" >&3 && cat <&3
}
page_answers() { get / 2>/dev/null | head -n 1 | grep -q ' 200'; }
service_runs() { systemctl is-active --quiet convolvd && convolvctl streams --json | grep -q example; }

everything >/tmp/before
check "install" dpkg -i "$packages"/*.deb
check "the service runs its example" eventually service_runs
check "it computes on PoCL" bash -c 'journalctl -u convolvd -o cat --no-pager | grep -q "Portable Computing Language"'
# What docs/packages.md tells a user to see after the installation.
page=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")/docs/packages.md
sed -n '/^After the installation/,/^Then write/s/^    //p' "$page" >/tmp/lines
check "the page has lines to run" test "$(wc -l </tmp/lines)" -ge 3
while read -r line; do
    check "docs/packages.md: $line" timeout 60 bash -c "$line" </dev/null
done </tmp/lines
check "convolv-web runs" systemctl is-active convolv-web
check "the page is reachable" eventually page_answers
check "manual pages" bash -c 'for page in man8/convolv{d,-web}.8 man5/convolvd.conf.5 man1/convolv-{rig,tap,design,alarm}.1 man1/convolvctl.1; do
    test -s /usr/share/man/$page.gz || { echo "$page"; exit 1; }; done'
check "the Python package" python3 -c 'import convolv, numpy; control = convolv.Control(); assert control.streams()["streams"]'

# A stream of a sender's own, and an upgrade in the middle of it.
cat >/etc/convolvd/convolvd.conf <<'END'
[stream rig]
source = rtp
address = 127.0.0.1:5004
rate = 48 kHz
channels = 1
format = L16
block = 256 frames
receive buffer = 4 MiB
filter = band
tail = no

[filter band]
type = bandpass
low = 2 kHz
high = 8 kHz
transition = 2 kHz

[sink out]
type = rtp
stream = rig
address = 127.0.0.1:5008
END
cp /etc/convolvd/convolvd.conf /tmp/mine
check "a configuration of one's own" systemctl restart convolvd
frames=$((48000 * 40 / 256 * 256))
convolv-tap --listen 127.0.0.1:5008 --rate '48 kHz' --frames "$frames" --timeout 60s >/tmp/tap 2>&1 &
tap=$!
convolv-rig --to 127.0.0.1:5004 --rate '48 kHz' --frames "$frames" >/tmp/rig 2>&1 &
rig=$!
sleep 5
before=$(systemctl show -p MainPID convolvd)
check "upgrade" dpkg -i "$upgrade"/*.deb
check "the upgraded daemon runs" eventually systemctl is-active --quiet convolvd
check "and is another process" test "$before" != "$(systemctl show -p MainPID convolvd)"
check "its configuration is kept" cmp /tmp/mine /etc/convolvd/convolvd.conf
check "the sender ends" wait "$rig"
check "no frame was lost" wait "$tap"

check "purge" dpkg --purge convolvd-doc python3-convolv libconvolv-dev convolv-web convolv-tools convolvd
everything >/tmp/after
check "nothing is left" diff /tmp/before /tmp/after
echo "1..$step"
