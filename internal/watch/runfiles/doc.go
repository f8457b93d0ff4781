// Package runfiles reads and writes the files of a run under runs/<job>/ in its output: job.json (what was started),
// facts-<process>.json (the progress of each process), lock-<process> (the process is alive) and stop (the job should end).
// Programs of a job write their logs there too.
//
// A job has one process, several shards, or the processes of a cluster. All of them write to the same folder of the
// output, through store.Store, so that directories and buckets work in the same way. Files under runs/ are not results: they are
// not part of any digest, and two runs with equal results have different facts.
package runfiles
