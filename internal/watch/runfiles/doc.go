// Package runfiles keeps what the runs of an output say about themselves: runs/<job>/ holds job.json (what was started),
// facts-<process>.json (how far each process is), lock-<process> (a process lives) and stop (the job is to end).
// Programs of a job have their logs there too.
//
// A job has one process, several shards, or the processes of a cluster. All of them write to one directory of the
// output, through store.Store, so that a directory and a bucket work alike. Nothing under runs/ is a result: it is
// no part of any digest, and two runs that give the same bytes have different facts.
package runfiles
