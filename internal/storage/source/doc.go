// Package source opens what a user names as an input: a path, an object of a bucket (gs://, s3://), a file of a web
// server (https://, http://), or "-", standard input.
//
// A path is used as it is. What lies elsewhere is read in ranges (Open), or copied into a cache on this host, because
// most readers need a file (Copy, Media, Model). A copy is known by its address and its version, so a new version is a
// new copy. Every copy is checked by its size and, where the service tells one, by its checksum.
//
// What never enters: outputs (internal/storage/store), and what the files mean.
package source
