// Package devices lends devices to batches, alone or in sets. CPU is the pool of a process's own processors; Fleet adds the
// devices of worker processes on other hosts. Callers use the interface Pool only. The package must not import
// models or Beam. A new kind of device is one file beside cpu.go, or a package such as gpus.
package devices
