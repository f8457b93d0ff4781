// Package pool owns the devices of a process and lends them to batches, one lease at a time. A DoFn
// sees only stages.Pool; what kind of device answers is decided here. No model and nothing of Beam may
// enter. A new kind of device is one file beside cpu.go.
package pool
