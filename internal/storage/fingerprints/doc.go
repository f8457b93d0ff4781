// Package fingerprints remembers what files contained, so that they need not be read again.
//
// Store keeps digests of contents in a directory of the host, so that a file is read once for its digest. The id of a digest
// changes when the file changes.
//
// Witness keeps, in an output, the marks (times, generations, entity tags) of its files at the time when their content was
// correct, and digests that are not recorded elsewhere. A file whose mark has not changed is considered unchanged. A witness is
// not part of keys or tables; if an output has none, its files are read once and the witness is created.
package fingerprints
