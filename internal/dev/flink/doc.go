// Package flink has the tests on a real Flink cluster: a JobManager, a job server and two TaskManagers, which are processes of this
// machine that run Maven's jars. `make flink` runs the tests in a network namespace, because Flink listens on all interfaces and
// needs no password. Otherwise the tests are skipped.
package flink
