// Package memory records how much device memory batches needed, in this run and, as facts, in earlier runs. It stores and
// corrects numbers only; the caller decides what to do with them.
package memory
