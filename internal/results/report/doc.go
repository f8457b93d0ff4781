// Package report writes what a person opens when a job is over: the tables, the gallery and the
// summary. Everything here follows from the input table and the ledger, so it can be written again at
// any time, and a killed run is repaired by the next one. Nothing is computed here and nothing of Beam
// may enter. To add a table, write its rows beside videos.go and its line in Write.
package report
