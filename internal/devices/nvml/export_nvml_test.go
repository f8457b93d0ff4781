//go:build cgo && linux && cuda

package nvml

// What the tests of the adapter reach inside for.
var (
	OpenWith = open
	NUMANode = numaNode
)

const WholeDevice = wholeDevice

// SetPCIDevices makes another directory stand for /sys/bus/pci/devices.
func SetPCIDevices(dir string) (restore func()) {
	old := pciDevices
	pciDevices = dir
	return func() { pciDevices = old }
}
