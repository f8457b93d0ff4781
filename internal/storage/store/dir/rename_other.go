//go:build !linux

package dir

func (d *Dir) renameNoReplace(dir, from, to string) error { return errNoReplaceUnsupported }
