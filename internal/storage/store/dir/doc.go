// Package dir is the store of a local directory. It publishes files once and atomically, and never writes outside of the
// directory.
//
// A file with its final name is complete and on disk. Put processes a batch in this order: write temporary files, fsync them,
// rename them without replacing, fsync the directories. Temporary files are named .tmp-* and are in the directory of the final
// file.
package dir
