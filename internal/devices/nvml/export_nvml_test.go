//go:build cgo && linux && cuda

package nvml

// Names of this package that its external tests use.
var (
	OpenWith = open
	NUMANode = numaNode
)

const WholeDevice = wholeDevice

// SetPCIDevices replaces /sys/bus/pci/devices by another directory until restore is called.
func SetPCIDevices(dir string) (restore func()) {
	old := pciDevices
	pciDevices = dir
	return func() { pciDevices = old }
}
