#!/bin/sh
# Prepares the guest's boot files: Debian's own kernel, and an initramfs with busybox and the
# modules it needs. Nothing is installed; existing files of the same version are kept.
#
#   prepare.sh FOLDER [VERSION]    fills FOLDER with vmlinuz and initramfs
#
# VERSION: another Debian kernel, such as 5.10 (Debian 11) or 6.12 (Debian 12 backports). Its package
# is looked up in package lists inside FOLDER, so the host's apt stays unchanged.
#
# Exit status: 0 done, 77 not possible here (the reason is printed).
set -eu
folder=$1
version=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
# soft-RoCE and its user-space interface, the host's files with an overlay, and a veth pair.
modules="virtio_pci 9p 9pnet_virtio overlay veth crc32_generic ib_uverbs rdma_rxe rdma_ucm"

. "$here/../support/verdict.sh"

for program in qemu-system-x86_64 cpio modprobe depmod rdma apt-get dpkg-deb; do
  PATH=$PATH:/usr/sbin:/sbin command -v $program > /dev/null ||
    skip "no $program: type: sh cmake/bootstrap.sh test"
done
PATH=$PATH:/usr/sbin:/sbin

# Options that make apt use the folder's own lists.
own_lists() {
  apt=$folder/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  # The mirror that the host uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
    grep -v -e security -e '^$' | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-none:} $1 main" \
    > "$apt/sources.list"
  echo "-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=/dev/null" \
    "-o Dir::State::lists=$apt/lists -o Dir::Cache=$apt/cache"
}
suite=
case $version in
  "") ;;
  5.10) suite=bullseye ;;
  6.12) suite=bookworm-backports ;;
  *) skip "Debian has no kernel $version that is known here: 5.10, 6.12" ;;
esac
options=
if [ -n "$suite" ]; then
  options=$(own_lists "$suite")
  # shellcheck disable=SC2086  # several words
  [ -n "$(ls "$folder"/apt/lists/*Packages* 2> /dev/null)" ] ||
    apt-get -q $options update > "$folder/apt/update.log" 2>&1 ||
    skip "apt-get update of $suite failed: $(tail -n 1 "$folder/apt/update.log")"
fi

# shellcheck disable=SC2086
kernel=$(apt-cache $options depends linux-image-amd64 2> /dev/null |
  sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
if [ -z "$kernel" ]; then
  [ ! -e "$folder/vmlinuz" ] || exit 0
  skip "apt knows no kernel package: type: apt-get update"
fi
# The initramfs depends on the kernel and on this file.
stamp="$kernel $(cksum < "$0") $(cksum < "$here/init")"
[ "$(cat "$folder/stamp" 2> /dev/null)" != "$stamp" ] || exit 0

work=$folder/work
rm -rf "$work" "$folder/stamp"
mkdir -p "$work/debs" "$work/root/bin"
# shellcheck disable=SC2086
(cd "$work/debs" && apt-get -q $options download "$kernel" && apt-get -q download busybox-static) > "$work/download.log" 2>&1 ||
  skip "apt-get download $kernel busybox-static failed: $(tail -n 1 "$work/download.log")"

dpkg-deb --fsys-tarfile "$work"/debs/linux-image-*.deb | tar -x -C "$work" --wildcards \
  './boot/vmlinuz-*' './lib/modules/*/modules.*' './lib/modules/*/kernel/fs/*' \
  './lib/modules/*/kernel/crypto/*' './lib/modules/*/kernel/lib/*' './lib/modules/*/kernel/net/*' \
  './lib/modules/*/kernel/arch/*' './lib/modules/*/kernel/drivers/infiniband/*' \
  './lib/modules/*/kernel/drivers/virtio/*' './lib/modules/*/kernel/drivers/net/veth.ko*'
# busybox inserts only uncompressed modules.
find "$work/lib/modules" -name '*.ko.xz' -exec unxz {} +
dpkg-deb --fsys-tarfile "$work"/debs/busybox-static*.deb | tar -x -C "$work" ./bin/busybox
release=$(basename "$work"/lib/modules/*)
depmod -b "$work" "$release" 2> "$work/depmod.log"

# Each module once, in insertion order.
for module in $modules; do
  modprobe -d "$work" -S "$release" --show-depends "$module" || skip "$kernel has no $module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' > "$work/order"
while read -r file; do
  cp "$file" "$work/root/"
  basename "$file"
done < "$work/order" > "$work/root/order"
cp "$work/bin/busybox" "$work/root/bin/"
cp "$here/init" "$work/root/init"
chmod 755 "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc --quiet) > "$folder/initramfs"
cp "$work"/boot/vmlinuz-* "$folder/vmlinuz"
rm -rf "$work"
echo "$stamp" > "$folder/stamp"
