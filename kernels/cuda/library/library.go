// Package library finds NVIDIA's libraries that are opened at run time. Each library has a package of its own, which calls
// Open.
package library

import (
	"fmt"
	"os"
	"path/filepath"
)

// folders are the folders in which a CUDA toolkit and PyTorch's packages have libraries.
var folders = []string{
	"/usr/local/cuda/lib64",
	"/usr/lib/python3*/*-packages/nvidia/*/lib",
	"/usr/local/lib/python3*/*-packages/nvidia/*/lib",
	"/opt/*/lib/python3*/site-packages/nvidia/*/lib",
}

// Open opens the first of the files that can be opened; preferred ones come first. It tries each by its name, so that the system's
// loader searches for it, and then in the folders. If the environment variable is set, only that path is tried. The error is the
// error of the first attempt.
func Open[L any](name, variable string, files []string, open func(path string) (L, error)) (L, error) {
	places := files
	if path := os.Getenv(variable); path != "" {
		places = []string{path}
	} else {
		for _, folder := range folders {
			for _, file := range files {
				found, _ := filepath.Glob(filepath.Join(folder, file))
				places = append(places[:len(places):len(places)], found...)
			}
		}
	}
	var first error
	for _, path := range places {
		l, err := open(path)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
	}
	var none L
	return none, fmt.Errorf("%s is not found: %w", name, first)
}
