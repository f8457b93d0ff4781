// Package engine computes the batches of a job in one process, without Beam: it reads rows, groups them by shape, runs each batch
// through the stages on leased devices, and publishes the results. A runner, or a test, moves the batches between these steps.
package engine
