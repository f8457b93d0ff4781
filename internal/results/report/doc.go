// Package report writes the tables, the gallery and the summary of an output. All of them are derived
// from the input table and the ledger. So they can be written again at any time, and after a killed run the next run
// completes them. The package computes no results and must not depend on Beam.
//
// A report reads the input twice, with the type walk: first to count the rows and learn their columns, then to write. tableWriter writes
// the tables without tensors, tensorWriter the tables with tensors, and pageWriter the pages. To add a table, write its rows in
// tables.go and add its reader in Job.write.
package report
