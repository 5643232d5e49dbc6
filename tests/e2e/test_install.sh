#!/bin/sh
# `make install` puts what belongs there and nothing else, and a user's program builds against
# the installed library with pkg-config alone.
#
# sanitizers: no, make chooses the build by itself
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() {
    echo "not ok - $1"
    exit 1
}

make --no-print-directory install DESTDIR="$root" PREFIX=/usr >"$root.log" 2>&1 || {
    cat "$root.log"
    fail "make install"
}
rm -f "$root.log"
list=$(cd "$root" && find . -type f | sort)
echo "$list" >"$root/list"
cat >"$root/want" <<END
./usr/bin/convolv-design
./usr/bin/convolv-rig
./usr/bin/convolv-tap
./usr/bin/convolv-web
./usr/bin/convolvctl
./usr/bin/convolvd
./usr/include/convolv.h
./usr/lib/libconvolv.a
./usr/lib/pkgconfig/convolv.pc
./usr/lib/systemd/system/convolv-web.service
./usr/lib/systemd/system/convolvd-control.socket
./usr/lib/systemd/system/convolvd-control@.socket
./usr/lib/systemd/system/convolvd-observe.socket
./usr/lib/systemd/system/convolvd-observe@.socket
./usr/lib/systemd/system/convolvd.service
./usr/lib/systemd/system/convolvd.socket
./usr/lib/systemd/system/convolvd@.service
./usr/lib/sysusers.d/convolvd.conf
./usr/lib/tmpfiles.d/convolvd.conf
./usr/share/bash-completion/completions/convolvctl
./usr/share/man/man1/convolvctl.1
./usr/share/man/man5/convolvd.conf.5
./usr/share/man/man8/convolv-web.8
./usr/share/man/man8/convolvd.8
END
(cd clients/web/page && find . -type f | sed 's|^\.|./usr/share/convolvd/web|') >>"$root/want"
for config in config/*.conf; do
    echo "./usr/share/doc/convolvd/examples/$(basename "$config")" >>"$root/want"
done
sort "$root/want" | diff - "$root/list" >"$root/diff" || {
    sed 's/^/# /' "$root/diff"
    fail "the list of files"
}
echo "ok 1 - the list of files"

[ "$("$root/usr/bin/convolvd" --version)" = "convolvd $(sed -n 's/^VERSION *:= *//p' Makefile)" ] || fail "its version"
for tool in convolvd convolvctl convolv-design convolv-rig convolv-tap convolv-web; do
    "$root/usr/bin/$tool" --help >/dev/null || fail "$tool --help"
done
echo "ok 2 - the programs run"

for page in man1/convolvctl.1 man8/convolvd.8 man8/convolv-web.8 man5/convolvd.conf.5; do
    grep -q '^\.TH ' "$root/usr/share/man/$page" || fail "$page is no manual page"
done
echo "ok 3 - the manual pages"

cat >"$root/user.c" <<'END'
#include <convolv.h>
#include <stdio.h>
int main(void)
{
    /* Any two public functions pull sender and receiver in. */
    printf("%p %p\n", (void *)convolv_sender_open, (void *)convolv_receiver_open);
    return 0;
}
END
PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
export PKG_CONFIG_PATH
flags=$(pkg-config --define-variable=prefix="$root/usr" --cflags --libs convolv)
gcc -Wall -Wextra -Werror -std=c99 "$root/user.c" $flags -o "$root/user" || fail "a user's program builds"
"$root/user" >/dev/null || fail "a user's program runs"
echo "ok 4 - a user's program builds with pkg-config"
