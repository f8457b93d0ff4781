//go:build cuda && linux

package nccl

import (
	"sync"

	"latentbeam/kernels/cuda/library"
)

// EnvLibrary is the environment variable that names the library's file.
const EnvLibrary = "LATENTBEAM_LIBNCCL"

// Library is the opened library.
type Library struct {
	Path    string
	Version string // such as 2.27.3
}

// Open finds and opens the library, once in a process.
var Open = sync.OnceValues(func() (Library, error) {
	return library.Open("NCCL", EnvLibrary, []string{"libnccl.so.2"}, open)
})
