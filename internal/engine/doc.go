// Package engine is what one process does with the batches of a job, without Beam: it reads rows, groups them
// by shape, runs each batch through the stages on leased devices, and publishes the results. A runner, or a test,
// moves batches in and out.
package engine
