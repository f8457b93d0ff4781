//go:build !linux

package dir

// FileSystem names the file system of the directory, and says whether it is one of this host alone. This system does not tell,
// so every directory is taken for local.
func (d *Dir) FileSystem() (name string, local bool) { return "unknown", true }
