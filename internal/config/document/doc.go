// Package document parses YAML into a tree of nodes with positions, and makes errors that show the place of a problem. It does not
// know which keys there are; internal/config does.
package document
