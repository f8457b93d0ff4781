// Package remote computes jobs in other processes.
//
// An engine such as Flink spreads a job over worker processes. An Overseer runs in the process that submitted the job, and an
// Agent in each worker. They exchange files in runs/<job>/ of the output.
//
// Worker is a process that lends its devices to the jobs of other processes (latentbeam worker).
package remote
