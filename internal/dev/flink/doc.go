// Package flink holds the tests on a real cluster of Flink, of one JobManager, a job server and two TaskManagers as
// processes of this machine, started from Maven's jars. `make flink` runs them in a network of their own, because
// Flink listens on all interfaces and asks for no password. Without that they are skipped.
package flink
