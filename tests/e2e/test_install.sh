#!/bin/sh
# `make install` puts what belongs there and nothing else, a user's program builds against the installed
# library with pkg-config alone, each file belongs to a Debian package, and `make uninstall` takes back what
# was installed and no other file.
#
# parallel: yes
# takes: 6 s CPU in 10 s
# sanitizers: no, make chooses the build by itself
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() {
    echo "not ok - $1"
    exit 1
}

make --no-print-directory install install-python DESTDIR="$root" PREFIX=/usr >"$root.log" 2>&1 || {
    cat "$root.log"
    fail "make install"
}
rm -f "$root.log"
list=$(cd "$root" && find . -type f | sort)
echo "$list" >"$root/installed"
grep -v '/dist-packages/convolv-.*dist-info/' "$root/installed" >"$root/list"
cat >"$root/want" <<END
./usr/bin/convolv-alarm
./usr/bin/convolv-design
./usr/bin/convolv-rig
./usr/bin/convolv-tap
./usr/bin/convolv-web
./usr/bin/convolvctl
./usr/bin/convolvd
./usr/include/convolv-nats.h
./usr/include/convolv.h
./usr/lib/libconvolv-nats.a
./usr/lib/libconvolv.a
./usr/lib/pkgconfig/convolv-nats.pc
./usr/lib/pkgconfig/convolv.pc
./usr/lib/systemd/system/convolv-alarm@.path
./usr/lib/systemd/system/convolv-alarm@.service
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
./usr/share/doc/convolvd/CHANGELOG.md
./usr/share/doc/convolvd/LICENSE
./usr/share/man/man1/convolv-alarm.1
./usr/share/man/man1/convolv-design.1
./usr/share/man/man1/convolv-rig.1
./usr/share/man/man1/convolv-tap.1
./usr/share/man/man1/convolvctl.1
./usr/share/man/man5/convolvd.conf.5
./usr/share/man/man8/convolv-web.8
./usr/share/man/man8/convolvd.8
END
for config in config/*.conf config/nats/*.conf; do
    echo "./usr/share/doc/convolvd/examples/${config#config/}" >>"$root/want"
done
listed() { # FOLDER INSTALLED
    (cd "$1" && find . -type f ! -path '*/__pycache__/*' ! -name '*.mk') | sed "s|^\.|./usr/$2|" >>"$root/want"
}
listed docs share/doc/convolvd
listed clients/web/page share/convolvd/web
listed clients/python/convolv lib/python3/dist-packages/convolv
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

for page in man1/convolvctl.1 man1/convolv-rig.1 man1/convolv-tap.1 man1/convolv-design.1 man1/convolv-alarm.1 man8/convolvd.8 man8/convolv-web.8 man5/convolvd.conf.5; do
    grep -q '^\.TH ' "$root/usr/share/man/$page" || fail "$page is no manual page"
done
for tool in rig tap design; do
    "$root/usr/bin/convolv-$tool" --help | grep -oE '^  --[a-z0-9-]+' | while read -r option; do
        grep -qF -- "$(echo "$option" | sed 's/-/\\-/g')" "$root/usr/share/man/man1/convolv-$tool.1" || fail "$tool.1: $option"
    done
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

# As clients/packaging/debian/rules moves them.
/usr/bin/python3 - "$root/installed" <<'END' || fail "clients/packaging/debian/packages"
import fnmatch, sys
rows = [line.split() for line in open("clients/packaging/debian/packages") if line.strip() and line[0] != "#"]
moved = {f"usr/lib/{name}": f"usr/lib/multiarch/{name}" for name in (
    "libconvolv.a", "libconvolv-nats.a", "pkgconfig/convolv.pc", "pkgconfig/convolv-nats.pc")}
lost = []
for path in open(sys.argv[1]).read().split():
    path = path[2:]
    # Debian 12 has units below lib, Debian 13 below usr/lib.
    for path in (path, path.replace("usr/lib/systemd", "lib/systemd")):
        if not any(fnmatch.fnmatchcase(moved.get(path, path), pattern) for _, pattern in rows):
            lost.append(path)
if lost:
    print("# no row for", *lost)
    sys.exit(1)
END
echo "ok 5 - each file belongs to a package"

: >"$root/usr/bin/somebody-elses"
: >"$root/usr/share/doc/convolvd/of-the-user"
python3 -m compileall -q "$root/usr/lib/python3/dist-packages/convolv"
[ -d "$root/usr/lib/python3/dist-packages/convolv/__pycache__" ] || fail "Python compiled nothing"
# Relative, as a user may give it: `make` and what it calls are not in one folder.
make --no-print-directory uninstall DESTDIR="$(realpath --relative-to=. "$root")" PREFIX=/usr >"$root/log" 2>&1 || {
    cat "$root/log"
    fail "make uninstall"
}
(cd "$root/usr" && find . -type f) | sort >"$root/left"
printf '%s\n' ./bin/somebody-elses ./share/doc/convolvd/of-the-user | diff - "$root/left" >"$root/diff" || {
    sed 's/^/# /' "$root/diff"
    fail "what uninstall leaves"
}
for folder in share/convolvd lib/python3/dist-packages/convolv share/doc/convolvd/examples; do
    [ ! -e "$root/usr/$folder" ] || fail "an empty folder of ours is left: $folder"
done
echo "ok 6 - uninstall"
