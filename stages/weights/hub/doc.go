// Package hub downloads model repositories from a hub with the protocol of huggingface.co, and finds them in the
// cache on disk. The cache has the layout of Python's huggingface_hub: each of both programs uses what the other
// fetched.
//
// Everything that a server says is untrusted: names of files are checked before they become paths, and a file gets its
// name in the cache only when its content has the digest of the listing. Models never enter; a new kind of file that a
// job needs is a line of choose.go.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package hub
