//go:build cuda && linux

package cuda

import (
	"fmt"
	"os"

	"github.com/google/uuid"
	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// open loads the driver.
func open() (driver.Opened, error) {
	o, err := driver.Open()
	if err != nil {
		return o, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return o, nil
}

// DriverVersion returns the newest CUDA version that the driver supports, such as "12.6".
func DriverVersion() (string, error) {
	o, err := open()
	if err != nil {
		return "", err
	}
	return driver.VersionText(o.Version), nil
}

// Devices returns the GPUs of this process, in the driver's order. An error wraps ErrUnavailable; it is an error if the driver
// has no devices.
func Devices() ([]Device, error) {
	if _, err := open(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, driver.Check("cuDeviceGetCount", err))
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: the driver shows this process no device (is CUDA_VISIBLE_DEVICES empty?)",
			ErrUnavailable)
	}
	list := make([]Device, n)
	for i := range list {
		if list[i], err = describe(i); err != nil {
			return nil, fmt.Errorf("%w: device %d: %w", ErrUnavailable, i, err)
		}
	}
	return list, nil
}

// describe reads the properties of device index from the driver.
func describe(index int) (Device, error) {
	d := Device{Index: index}
	dev, err := cu.GetDevice(index)
	if err != nil {
		return d, driver.Check("cuDeviceGet", err)
	}
	if d.Name, err = dev.Name(); err != nil {
		return d, driver.Check("cuDeviceGetName", err)
	}
	if d.Memory, err = dev.TotalMem(); err != nil {
		return d, driver.Check("cuDeviceTotalMem", err)
	}
	if d.UUID, err = deviceUUID(dev); err != nil {
		return d, err
	}
	var domain, bus, slot int
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		to        *int
	}{
		{cu.ComputeCapabilityMajor, &d.Major}, {cu.ComputeCapabilityMinor, &d.Minor},
		{cu.MultiprocessorCount, &d.Multiprocessors},
		{cu.PciDomainID, &domain}, {cu.PciBusID, &bus}, {cu.PciDeviceID, &slot},
	} {
		if *a.to, err = dev.Attribute(a.attribute); err != nil {
			return d, driver.Check("cuDeviceGetAttribute", err)
		}
	}
	d.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	return d, d.countAs(os.Getenv(EnvAs))
}

// EnvAs makes devices count as devices of an older compute capability, such as 8.0, and use its kernels. So the code for
// several GPUs can be tested on one. The numeric class shows it.
const EnvAs = "LATENTBEAM_CUDA_AS"

// countAs makes d count as a device of the given capability; "" changes nothing.
func (d *Device) countAs(capability string) error {
	if capability == "" {
		return nil
	}
	var major, minor int
	_, err := fmt.Sscanf(capability, "%d.%d", &major, &minor)
	really := 10*d.Major + d.Minor
	switch older := 10*major + minor; {
	case err != nil || minor < 0 || minor > 9 || older < minArch:
		return fmt.Errorf("%s=%s: give a compute capability of %d.%d or more, such as 8.0", EnvAs, capability, minArch/10,
			minArch%10)
	case older > really:
		return fmt.Errorf("%s=%s: %s has %d.%d", EnvAs, capability, d.Name, d.Major, d.Minor)
	case older < really:
		d.Major, d.Minor, d.ActualArch = major, minor, really
	}
	return nil
}

// deviceUUID returns the UUID that NVML also shows. A part of a GPU (MIG) has its own UUID.
func deviceUUID(dev cu.Device) (string, error) {
	whole, err := dev.UUID()
	if err != nil {
		return "", driver.Check("cuDeviceGetUuid", err)
	}
	if own, err := driver.UUID(int(dev)); err == nil && uuid.UUID(own) != whole {
		return "MIG-" + uuid.UUID(own).String(), nil
	}
	return "GPU-" + whole.String(), nil
}

// MemInfo returns the free and the total bytes of a device.
func MemInfo(index int) (free, total int64, err error) {
	e, err := engineOf(index)
	if err != nil {
		return 0, 0, err
	}
	err = e.runAndWait(func() (err error) {
		free, total, err = cu.MemInfo()
		return driver.Check("cuMemGetInfo", err)
	})
	return free, total, err
}
