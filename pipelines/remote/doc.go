// Package remote is a job that computes in other processes.
//
// Overseer and Attendant are the two ends of a job that an engine such as Flink spreads over processes: the overseer runs
// where the job was submitted, an attendant in each worker. They exchange facts in runs/<job>/ of the output.
//
// Worker is a process that lends its devices to the jobs of other processes (latentbeam worker).
package remote
