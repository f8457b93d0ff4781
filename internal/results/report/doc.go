// Package report writes what a person opens when a job is over: the tables, the gallery and the
// summary. Everything here follows from the input table and the ledger, so it can be written again at
// any time, and a killed run is repaired by the next one. Nothing is computed here and nothing of Beam
// may enter.
//
// A report goes over the input twice, by one walk: to learn what there is, and to write. tableWriter writes the tables
// without tensors, tensorWriter those with, pageWriter the pages. To add a table, write its rows in tables.go and its
// reader in Job.write.
package report
