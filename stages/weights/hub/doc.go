// Package hub downloads model repositories from a hub with the protocol of huggingface.co, and finds them in the cache on disk.
// The cache has the layout of Python's huggingface_hub, so each program can use what the other one downloaded.
//
// Data from a server is untrusted: file names are checked before they become paths, and a file gets its name in the cache only
// if its content has the listed digest. The package does not know models. To support a new kind of file that a job needs, add a
// line in choose.go.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package hub
