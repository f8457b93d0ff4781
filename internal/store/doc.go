// Package store publishes files into a local directory: once, atomically, and never outside it.
//
// What is visible under a final name is whole and on disk. Put follows one order for a batch:
// write temporary files, fsync them, rename them without replacing, fsync the directories.
// Temporary files are called .tmp-* and lie in the directory of the file they will become.
//
// What never enters: what a file means (keys, tables, the ledger). A second backend (a bucket with
// the precondition DoesNotExist and CRC32C) gets a type of its own with the methods of Dir.
package store
