// Package system is what a process asks of its operating system: bounds of memory and files (control groups of both
// versions with all their ancestors, resource limits, Slurm; the smallest bound holds), files that are mapped read-only so
// that checkpoints larger than the memory can be read in place, and temporary files. What a killed process has left behind
// is removed a day later. Child processes have a package of their own, process.
package system
