// Package fingerprints remembers what files contained, so that they need not be read again.
//
// Store keeps digests of contents in a directory of the host: a file is read once for its digest. The name under which a
// digest is remembered changes with the content.
//
// Witness keeps, in an output, the marks (times, generations, entity tags) of its files at the time when their content was
// right, and digests that are recorded nowhere else. A file whose mark is the remembered one is taken to be unchanged. A
// witness is in no key and in no table; an output without one is read once and has one from then on.
package fingerprints
