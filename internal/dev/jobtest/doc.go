// Package jobtest runs whole jobs for tests. Job is a job with the built-in model at its smallest shape. Output is the part of an
// output that equal jobs must reproduce byte for byte. Life is a job in a process that is killed. The tests of pipelines and its
// suites use it.
package jobtest
