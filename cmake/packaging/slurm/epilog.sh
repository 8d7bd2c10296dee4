#!/bin/sh
# An Epilog of Slurm: the job's ledger goes with the job.
#
#   slurm.conf:  Epilog=/etc/slurm/epilog.sh
case ${SLURM_JOB_ID:-} in
  "" | *[!0-9]*) ;;
  *) rm -f "/dev/shm/rdmalloc-job-$SLURM_JOB_ID" ;;
esac
