//go:build !(cgo && linux && cuda)

package nvml

// Built reports whether this program can ask an NVIDIA driver.
const Built = false

// Open returns ErrNotBuilt.
func Open() (Host, error) { return nil, ErrNotBuilt }
