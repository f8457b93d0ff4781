// Package library finds the libraries of NVIDIA's that are opened at run time. What each can do is the matter of the
// package that opens it; one more takes a call of Open.
package library

import (
	"fmt"
	"os"
	"path/filepath"
)

// folders are where a toolkit and PyTorch's packages have libraries.
var folders = []string{
	"/usr/local/cuda/lib64",
	"/usr/lib/python3*/*-packages/nvidia/*/lib",
	"/usr/local/lib/python3*/*-packages/nvidia/*/lib",
	"/opt/*/lib/python3*/site-packages/nvidia/*/lib",
}

// Open opens the first of the files that can be opened, the preferred ones first: by name, so that the system's
// loader finds it where it knows it, then in the folders. Where the environment variable is set, it is the path of the
// only file that is tried. The error is that of the first try.
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
