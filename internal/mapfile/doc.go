// Package mapfile maps files read-only into memory, so that checkpoints larger than the memory can be read
// in place. Formats never enter; a new system is a file with its build tag.
package mapfile
