//go:build !unix

package safetensors

import "os"

// mapFile reads the whole file: this system has no memory mapping we use.
func mapFile(path string) (content []byte, unmap func() error, err error) {
	content, err = os.ReadFile(path)
	return content, func() error { return nil }, err
}
