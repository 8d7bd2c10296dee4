#!/bin/sh
# Prints the name of the file with the keys of Ubuntu's archive; nothing if it is not to be had.
#
#   ubuntu_keys.sh FOLDER    unpacks Debian's package of them in FOLDER, where it is not installed
set -eu
keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
if [ ! -r $keys ]; then
  [ -r "$1/keys$keys" ] ||
    timeout 300 mmdebstrap --quiet --variant=extract --components=main --include=ubuntu-keyring \
      --keyring=/usr/share/keyrings/debian-archive-keyring.gpg trixie "$1/keys" > "$1/keys.log" 2>&1 || exit 0
  keys=$1/keys$keys
fi
echo "$keys"
