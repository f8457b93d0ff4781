//go:build !linux

package store

func (d *Dir) renameNoReplace(dir, from, to string) error { return errNoReplaceUnsupported }
