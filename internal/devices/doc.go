// Package devices owns the devices of a process (CPU), with those of worker processes on other hosts (Fleet), and
// lends them to batches, alone or in sets. A DoFn sees only lend.Pool; what kind of device answers, and
// where, is decided here. No model and nothing of Beam may enter. A new kind of device is one file beside cpu.go.
package devices
