# Checks the guest itself: there is a device, and it carries data.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "the guest has a soft-RoCE device whose port is up" sh -c \
  'ibv_devinfo -d rxe0 && ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE'
promise "the guest has two NUMA nodes with memory" sh -c \
  'cd /sys/devices/system/node && grep MemTotal node0/meminfo && grep MemTotal node1/meminfo'
