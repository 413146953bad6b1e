#!/bin/sh
# A learner's first steps on Linux arm64, on a processor that emulates it. As root, on Debian 12 with its backports:
#     apt install debootstrap qemu-user-static/bookworm-backports
#     tests/arm64.sh FOLDER
# FOLDER (no space in its path) gets a Debian for arm64, with a clone of this checkout; a second run continues there.
# QEMU was 10.0.2; with Debian 12's own 7.2, Java hangs when it starts another process.
set -eu
[ $# = 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
checkout=$(cd "$(dirname "$0")/.." && pwd)
root=$1
format=/proc/sys/fs/binfmt_misc
[ -e $format/register ] || mount -t binfmt_misc none $format
[ -e $format/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$format/register

[ -e "$root/usr/bin/git" ] || debootstrap --arch=arm64 --variant=minbase \
    --include=ca-certificates,git,make,openjdk-17-jre-headless,procps,python3,python3-venv \
    bookworm "$root"
cp /etc/resolv.conf "$root/etc"
# It trusts what this machine trusts.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
[ ! -e /etc/ssl/certs/java/cacerts ] || cp /etc/ssl/certs/java/cacerts "$root/etc/ssl/certs/java"
[ -e "$root/root/lakehouse" ] || git clone --quiet "$checkout" "$root/root/lakehouse"

# The steps of the workflow for a real machine, with fewer events.
steps='
cd /root/lakehouse
make setup
sed -n "/FIRST_STEPS:/,/^jobs:/s/^    //p" .github/workflows/platforms.yml >/tmp/steps
sed -i "s/lab tour/& --rate 20/" /tmp/steps
sh -x /tmp/steps
'
# Mounts and processes end with this command.
exec unshare --mount --pid --fork --kill-child sh -euc '
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt sh -euxc "$2"
' sh "$root" "$steps"
