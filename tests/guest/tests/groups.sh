# Control groups of version 2, which the host may lack: several processes in one group of 512 MiB.
. "$GUEST_SOURCE/tests/guest/common.sh"
mount -t cgroup2 none /sys/fs/cgroup || absent="this kernel has no control groups of version 2"
mkdir -p /tmp
case="sh $GUEST_SOURCE/tests/integration/case.sh --cgroup 512"
preloaded="$case --library $library"
run="-- $GUEST_BUILD/tests/integration/integration_shared_group"

promise "version 2: 2 processes share a control group, and none is killed or refused" \
  $preloaded $run 2 300 220 307200 3
promise "version 2: 4 processes share a control group, and none is killed or refused" \
  $preloaded $run 4 150 110 51200 3
promise "version 2: 16 processes share a control group, and none is killed or refused" \
  $preloaded $run 16 60 28 256 2
promise "version 2: 2 processes share a control group, and all pages come at once" \
  $preloaded RDMALLOC_POPULATE=now $run 2 300 220 307200 3
promise "version 2: 16 processes share a control group, and all pages come at once" \
  $preloaded RDMALLOC_POPULATE=now $run 16 60 28 256 2
promise "version 2: 2 processes share a control group, each with a domain" \
  $preloaded $run 2 300 220 307200 3 domain
promise "version 2: on glibc's malloc they live, too" $case $run 2 300 220 307200 3
promise "version 2: pages that come at once stop short of memory.high" \
  $preloaded --high 256 RDMALLOC_POPULATE=now $run 1 400 100 409600
control "version 2: a process that touches more than memory.high is slowed down" \
  "^slowed down [0-9]+ times" \
  $case --high 256 $run 1 400 270 409600
