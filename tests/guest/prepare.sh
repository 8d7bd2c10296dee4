#!/bin/sh
# Prepares the guest's boot files: Debian's own kernel, and an initramfs with busybox and the
# modules it needs. Nothing is installed; existing files of the same version are kept.
#
#   prepare.sh FOLDER MACHINE [VERSION]    fills FOLDER with vmlinuz and initramfs
#
# MACHINE: amd64, or arm64, which also gets a root file system of its own: build/arm64-root. VERSION:
# another kernel: 5.10 (Debian 11), 6.12 (Debian 12 backports), and for arm64 with larger pages 6.12-16k,
# or 64k (Ubuntu 26.04; RDMALLOC_UBUNTU_MIRROR=URL says where it is to be had). A package of another
# release or machine is looked up in package lists inside FOLDER, so the host's apt stays unchanged.
#
# Exit status: 0 done, 77 not possible here (the reason is printed).
set -eu
folder=$1
mkdir -p "$folder"
machine=$2
version=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
# What an AArch64 machine has instead of the host's programs.
programs="base-files base-passwd bash binutils busybox-static cmake coreutils dash diffutils findutils gdb grep gzip
  hostname iproute2 kmod libc-bin libcap2-bin libjemalloc2 login mawk mount netbase passwd procps python3 rdma-core
  ibverbs-providers ibverbs-utils perftest rdmacm-utils ucx-utils libfabric-bin sed sqlite3 strace tar util-linux
  openmpi-bin mpich"
# soft-RoCE and its user-space interface, the host's files with an overlay, and a veth pair.
modules="virtio_pci 9p 9pnet_virtio overlay veth ib_uverbs rdma_rxe rdma_ucm"

. "$here/../support/verdict.sh"

case $machine in
  amd64) qemu=qemu-system-x86_64 ;;
  arm64) qemu=qemu-system-aarch64 ;;
esac
for program in $qemu cpio modprobe depmod rdma apt-get dpkg-deb; do
  PATH=$PATH:/usr/sbin:/sbin command -v $program > /dev/null ||
    skip "no $program: type: sh cmake/bootstrap.sh test"
done
PATH=$PATH:/usr/sbin:/sbin

# own_lists SUITE MIRROR KEYS: options that make apt use the folder's own lists.
own_lists() {
  apt=$folder/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb [signed-by=$3] $2 $1 main" > "$apt/sources.list"
  echo "-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=/dev/null" \
    "-o Dir::State::lists=$apt/lists -o Dir::Cache=$apt/cache" \
    "-o APT::Architecture=$machine -o APT::Architectures::=$machine"
}
make_root() {
  root=$here/../../build/arm64-root
  # shellcheck disable=SC2086  # a list of words
  sh "$here/../../cmake/aarch64_sysroot.sh" "$root" $programs > "$folder/root.log" 2>&1 ||
    skip "the arm64 packages did not come: see $folder/root.log"
  # What the packages' scripts would make.
  for file in passwd group; do
    [ -e "$root/etc/$file" ] || cp "$root/usr/share/base-passwd/$file.master" "$root/etc/$file"
  done
  ln -sfn mawk "$root/usr/bin/awk"
  echo "127.0.0.1 localhost" > "$root/etc/hosts"
}

[ $machine = amd64 ] || make_root
suite=
image=linux-image-$machine
# The mirror that the host uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
  grep -v -e security -e '^$' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
case $version in
  "") [ $machine = amd64 ] || suite=bookworm ;;
  5.10) suite=bullseye ;;
  6.12) suite=bookworm-backports ;;
  6.12-16k)
    suite=bookworm-backports
    image=$image-16k
    ;;
  64k)
    suite=resolute
    image=linux-image-generic-64k
    mirror=${RDMALLOC_UBUNTU_MIRROR:-}
    [ -n "$mirror" ] || skip "Debian has no kernel with pages of 64 KiB, and RDMALLOC_UBUNTU_MIRROR names no mirror"
    keys=$(sh "$here/../integration/install/ubuntu_keys.sh" "$folder")
    [ -n "$keys" ] || skip "no keys of Ubuntu's archive: install ubuntu-keyring"
    ;;
  *) skip "no kernel $version is known here: 5.10, 6.12, 6.12-16k, 64k" ;;
esac
options=
if [ -n "$suite" ]; then
  options=$(own_lists "$suite" "${mirror:-none:}" "$keys")
  # shellcheck disable=SC2086  # several words
  [ -n "$(ls "$folder"/apt/lists/*Packages* 2> /dev/null)" ] ||
    apt-get -q $options update > "$folder/apt/update.log" 2>&1 ||
    skip "apt-get update of $suite failed: $(tail -n 1 "$folder/apt/update.log")"
fi

# shellcheck disable=SC2086
kernel=$(apt-cache $options depends "$image" 2> /dev/null |
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
# Ubuntu's modules are a package of their own.
modules_package=
[ "$suite" != resolute ] || modules_package=$(echo "$kernel" | sed s/image/modules/)
# shellcheck disable=SC2086
(cd "$work/debs" && apt-get -q $options download "$kernel" $modules_package &&
  { [ $machine != amd64 ] || apt-get -q download busybox-static; }) > "$work/download.log" 2>&1 ||
  skip "apt-get download $kernel busybox-static failed: $(tail -n 1 "$work/download.log")"

for package in "$work"/debs/linux-*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work" --wildcards --wildcards-match-slash \
    --no-anchored --transform 's|^[.]/usr/lib/|./lib/|' \
    'boot/vmlinuz-*' 'lib/modules/*/modules.*' 'lib/modules/*/kernel/fs/*' 'lib/modules/*/kernel/crypto/*' \
    'lib/modules/*/kernel/lib/*' 'lib/modules/*/kernel/net/*' 'lib/modules/*/kernel/arch/*' \
    'lib/modules/*/kernel/drivers/infiniband/*' 'lib/modules/*/kernel/drivers/virtio/*' \
    'lib/modules/*/kernel/drivers/net/veth.ko*' 2> "$work/tar.log" || :
done
# busybox inserts only uncompressed modules.
find "$work/lib/modules" -name '*.ko.xz' -exec unxz {} +
find "$work/lib/modules" -name '*.ko.zst' -exec zstd -q -d --rm {} +
if [ $machine = amd64 ]; then
  dpkg-deb --fsys-tarfile "$work"/debs/busybox-static*.deb | tar -x -C "$work/root" ./bin/busybox
else
  cp "$root/bin/busybox" "$work/root/bin/"
fi
release=$(basename "$work"/lib/modules/*)
depmod -b "$work" "$release" 2> "$work/depmod.log"

# Each module once, in insertion order. Some kernels have the one, others have it built in.
! modprobe -d "$work" -S "$release" --show-depends crc32_generic > /dev/null 2>&1 || modules="crc32_generic $modules"
for module in $modules; do
  modprobe -d "$work" -S "$release" --show-depends "$module" || skip "$kernel has no $module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' > "$work/order"
while read -r file; do
  cp "$file" "$work/root/"
  basename "$file"
done < "$work/order" > "$work/root/order"
cp "$here/init" "$work/root/init"
chmod 755 "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc --quiet) > "$folder/initramfs"
"$here/kernel_image" "$work"/boot/vmlinuz-* "$folder/vmlinuz"
rm -rf "$work"
echo "$stamp" > "$folder/stamp"
