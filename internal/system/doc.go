// Package system is the interface to the operating system. It finds the limits of memory and open files: control groups of both
// versions with all their ancestors, resource limits, and Slurm; the smallest limit holds. It maps files read-only, so that
// checkpoints larger than the memory can be read in place. It makes temporary files and removes those of killed processes after
// a day. Package process starts child processes.
package system
