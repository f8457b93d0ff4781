//go:build !linux

package dir

// FileSystem returns the name of the directory's file system, and whether it belongs to this host only. This system does not
// provide it, so every directory counts as local.
func (d *Dir) FileSystem() (name string, local bool) { return "unknown", true }
