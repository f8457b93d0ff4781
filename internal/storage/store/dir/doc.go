// Package dir is the store of a local directory: it publishes files once, atomically, and never outside it.
//
// What is visible under a final name is whole and on disk. Put follows one order for a batch:
// write temporary files, fsync them, rename them without replacing, fsync the directories.
// Temporary files are called .tmp-* and lie in the directory of the file they will become.
package dir
