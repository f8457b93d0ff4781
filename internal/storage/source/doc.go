// Package source opens the inputs that a user names: a path, an object in a bucket (gs://, s3://), a file on a web server
// (https://, http://), or "-" for standard input.
//
// A local path is used directly. A remote file is read in ranges (Open), or copied into a cache on this host, because most
// readers need a file (Copy, Media, Model). A copy is identified by its address and version, so a new version is a new copy.
// Every copy is checked by its size and, if the service provides one, by its checksum.
//
// The package does not handle outputs (see internal/storage/store) or the content of files.
package source
