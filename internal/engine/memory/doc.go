// Package memory holds what batches have taught of the device memory that they need: in this run, and as facts from run
// to run. It knows numbers only; who asks decides what follows.
package memory
