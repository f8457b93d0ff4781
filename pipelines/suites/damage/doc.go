// Package damage contains only tests: what a job does if files of its input or output are damaged, missing or foreign.
package damage
