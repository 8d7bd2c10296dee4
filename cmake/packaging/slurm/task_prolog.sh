#!/bin/sh
# A TaskProlog of Slurm: what it prints as "export NAME=VALUE" is in the environment of each task. A job's
# processes on a node pin no more together than 90 % of what Slurm gave the job there, by a ledger of
# the job's own. It does nothing to programs that are not under rdmalloc.
#
#   slurm.conf:  TaskProlog=/etc/slurm/task_prolog.sh
[ -n "${SLURM_JOB_ID:-}" ] || exit 0
echo "export RDMALLOC_LEDGER=/dev/shm/rdmalloc-job-%j"
# In MiB; none of the two is set where Slurm does not limit memory.
memory=${SLURM_MEM_PER_NODE:-}
if [ -z "$memory" ] && [ -n "${SLURM_MEM_PER_CPU:-}" ] && [ -n "${SLURM_CPUS_ON_NODE:-}" ]; then
  memory=$((SLURM_MEM_PER_CPU * SLURM_CPUS_ON_NODE))
fi
[ -z "$memory" ] || [ "$memory" -eq 0 ] || echo "export RDMALLOC_NODE_CAP=$((memory * 9 / 10))M"
