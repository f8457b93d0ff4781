//go:build cuda && linux

package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// EnvLibrary is the environment variable that names the library's file.
const EnvLibrary = "LATENTBEAM_LIBNCCL"

// places are where the library is looked for: what the system's loader knows, a toolkit, and the folders in which
// PyTorch's packages bring it.
var places = []string{
	"libnccl.so.2",
	"/usr/local/cuda/lib64/libnccl.so.2",
	"/usr/lib/python3*/*-packages/nvidia/*/lib/libnccl.so.2",
	"/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnccl.so.2",
	"/opt/*/lib/python3*/site-packages/nvidia/*/lib/libnccl.so.2",
}

// Library is the opened library.
type Library struct {
	Path    string
	Version string // such as 2.27.3
}

// Open finds the library, once a process.
var Open = sync.OnceValues(func() (Library, error) {
	list := places
	if path := os.Getenv(EnvLibrary); path != "" {
		list = []string{path}
	}
	var first error
	for _, place := range list {
		files, _ := filepath.Glob(place)
		if len(files) == 0 {
			files = []string{place}
		}
		for _, file := range files {
			l, err := open(file)
			if err == nil {
				return l, nil
			}
			if first == nil {
				first = err
			}
		}
	}
	return Library{}, fmt.Errorf("NCCL is not found: %w", first)
})
