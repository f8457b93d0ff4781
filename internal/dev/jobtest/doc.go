// Package jobtest runs whole jobs for tests: Job is a job on the built-in model at its smallest shape, Output is all that it
// promises to make again byte for byte, Life is a job in a process that is killed. The tests of pipelines and its suites use it.
package jobtest
