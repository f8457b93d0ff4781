// Package hub downloads model repositories from a hub with the protocol of huggingface.co, and finds them in the
// cache on disk. The cache has the layout of Python's huggingface_hub: each of both programs uses what the other
// fetched.
//
// Everything that a server says is untrusted: names of files are checked before they become paths, and a file gets its
// name in the cache only when its content has the digest of the listing. Models never enter; a new kind of file that a
// job needs is a line of choose.go.
package hub
