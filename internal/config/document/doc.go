// Package document reads YAML as a tree of nodes with positions, and makes errors that show the place of a problem.
//
// Never here: which keys there are (internal/config).
package document
