//go:build cgo && linux && cuda

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Status implements Host.
func (h *host) Status(uuid string) (DeviceStatus, error) {
	s := DeviceStatus{Utilization: Unknown, Temperature: Unknown, Power: Unknown, PowerLimit: Unknown}
	dev, err := h.handle(uuid)
	if err != nil {
		return s, err
	}
	if err := h.readMemory(dev, &s); err != nil {
		return s, fmt.Errorf("%s: %w", short(uuid), err)
	}
	whole := dev // for values that instances do not report
	if d, ok := h.find(uuid); ok && d.MIG() {
		if whole, err = h.handle(d.Parent); err != nil {
			return s, err
		}
	}
	if u, ret := whole.GetUtilizationRates(); ret == nvml.SUCCESS { // divided GPUs do not report it
		s.Utilization = int(u.Gpu)
	}
	if t, ret := whole.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		s.Temperature = int(t)
	}
	if p, ret := whole.GetPowerUsage(); ret == nvml.SUCCESS {
		s.Power = float64(p) / 1000
	}
	if p, ret := whole.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		s.PowerLimit = float64(p) / 1000
	}
	s.Throttle = h.throttle(whole)
	s.ECC = h.ecc(whole)
	s.Processes = h.processes(dev)
	return s, nil
}

func (h *host) readMemory(dev nvml.Device, s *DeviceStatus) error {
	if h.has("GetMemoryInfo_v2") { // the first version counts reserved memory as used
		if m, ret := dev.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			s.Used, s.Reserved, s.Free = int64(m.Used), int64(m.Reserved), int64(m.Free)
			return nil
		}
	}
	m, ret := dev.GetMemoryInfo()
	s.Used, s.Free = int64(m.Used), int64(m.Free)
	return failed("read its memory", ret)
}

func (h *host) throttle(dev nvml.Device) Throttle {
	var bits uint64
	ret := nvml.Return(nvml.ERROR_NOT_SUPPORTED)
	switch {
	case h.has("GetCurrentClocksEventReasons"):
		bits, ret = dev.GetCurrentClocksEventReasons()
	case h.has("GetCurrentClocksThrottleReasons"): // name before driver 535
		bits, ret = dev.GetCurrentClocksThrottleReasons()
	}
	if ret != nvml.SUCCESS {
		return 0
	}
	return Throttle(bits)
}

func (h *host) ecc(dev nvml.Device) (e ECC) {
	bad, ret := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	if ret != nvml.SUCCESS {
		e.Unanswered = true
		return e
	}
	e.Uncorrected = int64(bad)
	good, ret := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	if ret == nvml.SUCCESS {
		e.Corrected = int64(good)
	}
	if h.has("GetRemappedRows") {
		if a, b, pending, failure, ret := dev.GetRemappedRows(); ret == nvml.SUCCESS {
			e.Remapped, e.RemapPending, e.RemapFailed = a+b, pending, failure
		}
	}
	return e
}

func (h *host) processes(dev nvml.Device) (out []Process) {
	all, ret := dev.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil
	}
	for _, p := range all {
		used := int64(Unknown)
		if p.UsedGpuMemory != ^uint64(0) { // NVML_VALUE_NOT_AVAILABLE
			used = int64(p.UsedGpuMemory)
		}
		out = append(out, Process{PID: int(p.Pid), Memory: used})
	}
	return out
}

// handle returns the handle of a device of the survey.
func (h *host) handle(uuid string) (nvml.Device, error) {
	if _, err := h.Survey(); err != nil {
		return nil, err
	}
	dev := h.handles[uuid]
	if dev == nil {
		return nil, fmt.Errorf("there is no GPU %s", short(uuid))
	}
	return dev, nil
}

func (h *host) find(uuid string) (Device, bool) {
	i, ok := h.survey.Find(uuid)
	if !ok {
		return Device{}, false
	}
	return h.survey.Devices[i], true
}
