// Package open finds the store of an output's address. A new kind of store gets its scheme here.
package open

import (
	"context"
	"fmt"
	"strings"

	"latentbeam/internal/store"
	"latentbeam/internal/store/dir"
	"latentbeam/schemas/fault"
)

// Output opens the store at url, a path, and creates what is missing.
func Output(_ context.Context, url string) (store.Store, error) {
	if err := known(url); err != nil {
		return nil, err
	}
	return result(dir.Open(url))
}

// Existing opens the store at url only to read it: where there is none, it answers fs.ErrNotExist and creates
// nothing.
func Existing(_ context.Context, url string) (store.Store, error) {
	if err := known(url); err != nil {
		return nil, err
	}
	return result(dir.Look(url))
}

// known refuses the schemes that have no store.
func known(url string) error {
	if !store.HasScheme(url) {
		return nil
	}
	scheme, _, _ := strings.Cut(url, "://")
	return fault.Usage(fmt.Errorf("open output %s: there is no store for %s:// addresses, only files on disk are "+
		"written: mount it, and give the path", url, scheme))
}

// result keeps a failed store from being one that is not nil.
func result(d *dir.Dir, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
