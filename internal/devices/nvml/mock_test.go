//go:build cgo && linux && cuda

package nvml_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	native "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
)

// machine is a fake driver for a host of gputest. It consists of go-nvml's mocks, which have only the functions that the adapter may
// call. Any other function panics; in the real library, a missing function ends the process.
type machine struct {
	host    *gputest.Host
	survey  nvml.Survey
	lib     *mock.Interface
	devices map[string]*mock.Device // by UUID
	lacks   []string                // symbols that the library does not have
	inited  bool
	events  chan native.EventData // events that a wait returns
	broken  atomic.Int32          // error code that a wait for events returns, if not 0
	freed   atomic.Int32          // number of event sets that were freed
}

// newMachine returns the fake driver of a host.
func newMachine(t *testing.T, host *gputest.Host) *machine {
	t.Helper()
	m := &machine{host: host, devices: map[string]*mock.Device{}, events: make(chan native.EventData, 10)}
	m.survey, _ = host.Survey()
	var whole []string // UUIDs of the GPUs, without MIG instances
	for _, d := range m.survey.Devices {
		m.devices[d.UUID] = &mock.Device{}
		if !d.MIG() {
			whole = append(whole, d.UUID)
		}
	}
	for i := range m.survey.Devices {
		m.fill(i)
	}
	driver := m.survey.Driver
	m.lib = &mock.Interface{
		InitFunc:     func() native.Return { m.inited = true; return native.SUCCESS },
		ShutdownFunc: func() native.Return { return native.SUCCESS },
		ExtensionsFunc: func() native.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if !m.inited || slices.Contains(m.lacks, name) {
					return errors.New("undefined symbol")
				}
				return nil
			}}
		},
		SystemGetDriverVersionFunc:     func() (string, native.Return) { return driver.Version, native.SUCCESS },
		SystemGetNVMLVersionFunc:       func() (string, native.Return) { return driver.NVML, native.SUCCESS },
		SystemGetCudaDriverVersionFunc: func() (int, native.Return) { return 12040, native.SUCCESS },
		DeviceGetCountFunc:             func() (int, native.Return) { return len(whole), native.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (native.Device, native.Return) {
			return m.devices[whole[i]], native.SUCCESS
		},
		EventSetCreateFunc: m.eventSet,
	}
	m.buses(t)
	return m
}

// open returns the adapter over the fake driver.
func (m *machine) open(t *testing.T) nvml.Host {
	t.Helper()
	h, err := nvml.OpenWith(m.lib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// buses makes a folder in place of /sys/bus/pci/devices that says on which NUMA node each device is.
func (m *machine) buses(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(nvml.SetPCIDevices(dir))
	for _, d := range m.survey.Devices {
		name := filepath.Join(dir, d.PCI, "numa_node")
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(fmt.Sprintln(d.NUMA)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// eventSet returns an event set whose wait returns the next event, or a timeout after a millisecond.
func (m *machine) eventSet() (native.EventSet, native.Return) {
	return &mock.EventSet{
		WaitFunc: func(uint32) (native.EventData, native.Return) {
			if ret := native.Return(m.broken.Load()); ret != native.SUCCESS {
				return native.EventData{}, ret
			}
			select {
			case e := <-m.events:
				return e, native.SUCCESS
			case <-time.After(time.Millisecond):
				return native.EventData{}, native.ERROR_TIMEOUT
			}
		},
		FreeFunc: func() native.Return { m.freed.Add(1); return native.SUCCESS },
	}, native.SUCCESS
}

// pci returns a bus id in NVML's form: with a domain of 8 digits.
func pci(id string) (p native.PciInfo, ret native.Return) {
	for i, c := range []byte("0000" + id) {
		p.BusId[i] = int8(c)
	}
	return p, native.SUCCESS
}

// status returns the state of a device of the host, and NVML's return code.
func (m *machine) status(uuid string) (nvml.DeviceStatus, native.Return) {
	s, err := m.host.Status(uuid)
	if err != nil {
		return s, native.ERROR_GPU_IS_LOST
	}
	return s, native.SUCCESS
}

// fill gives the mock of device i its functions.
func (m *machine) fill(i int) {
	d := m.survey.Devices[i]
	dev := m.devices[d.UUID]
	dev.GetUUIDFunc = func() (string, native.Return) { return d.UUID, native.SUCCESS }
	dev.GetNameFunc = func() (string, native.Return) { return d.Name, native.SUCCESS }
	dev.GetMemoryInfoFunc = func() (native.Memory, native.Return) { // this version counts reserved memory as used
		s, ret := m.status(d.UUID)
		return native.Memory{Total: uint64(d.Memory), Used: uint64(s.Used + s.Reserved), Free: uint64(s.Free)}, ret
	}
	dev.GetMemoryInfo_v2Func = func() (native.Memory_v2, native.Return) {
		s, ret := m.status(d.UUID)
		return native.Memory_v2{Total: uint64(d.Memory), Used: uint64(s.Used), Reserved: uint64(s.Reserved),
			Free: uint64(s.Free)}, ret
	}
	dev.GetComputeRunningProcessesFunc = func() (out []native.ProcessInfo, ret native.Return) {
		s, ret := m.status(d.UUID)
		for _, p := range s.Processes {
			out = append(out, native.ProcessInfo{Pid: uint32(p.PID), UsedGpuMemory: uint64(p.Memory)})
		}
		return out, ret
	}
	if d.MIG() {
		dev.GetGpuInstanceIdFunc = func() (int, native.Return) { return d.Instance[0], native.SUCCESS }
		dev.GetComputeInstanceIdFunc = func() (int, native.Return) { return d.Instance[1], native.SUCCESS }
		return
	}
	m.fillFacts(dev, d)
	m.fillReadings(dev, d)
	m.fillLinks(dev, i)
}

// fillFacts sets the functions that return what does not change: bus, capability, PCIe, ECC and MIG instances.
func (m *machine) fillFacts(dev *mock.Device, d nvml.Device) {
	dev.GetPciInfoFunc = func() (native.PciInfo, native.Return) { return pci(d.PCI) }
	dev.GetCudaComputeCapabilityFunc = func() (int, int, native.Return) {
		return d.Capability[0], d.Capability[1], native.SUCCESS
	}
	number := func(n int) func() (int, native.Return) {
		return func() (int, native.Return) { return n, native.SUCCESS }
	}
	dev.GetCurrPcieLinkGenerationFunc = number(d.PCIe.Generation)
	dev.GetMaxPcieLinkGenerationFunc = number(d.PCIe.MaxGeneration)
	dev.GetCurrPcieLinkWidthFunc = number(d.PCIe.Width)
	dev.GetMaxPcieLinkWidthFunc = number(d.PCIe.MaxWidth)
	enabled := func(on bool) native.EnableState {
		if on {
			return native.FEATURE_ENABLED
		}
		return native.FEATURE_DISABLED
	}
	dev.GetEccModeFunc = func() (native.EnableState, native.EnableState, native.Return) {
		return enabled(d.ECC), enabled(d.ECC), native.SUCCESS
	}
	var parts []string // UUIDs of the MIG instances
	for _, other := range m.survey.Devices {
		if other.Parent == d.UUID {
			parts = append(parts, other.UUID)
		}
	}
	dev.GetMigModeFunc = func() (int, int, native.Return) {
		if d.Capability[0] < 8 {
			return 0, 0, native.ERROR_NOT_SUPPORTED
		}
		mode := int(enabled(d.Divided))
		return mode, mode, native.SUCCESS
	}
	dev.GetMaxMigDeviceCountFunc = number(7)
	dev.GetMigDeviceHandleByIndexFunc = func(i int) (native.Device, native.Return) {
		if i%2 == 1 || i/2 >= len(parts) { // every second index is empty, as in the real library after a deletion
			return nil, native.ERROR_NOT_FOUND
		}
		return m.devices[parts[i/2]], native.SUCCESS
	}
}

// fillReadings sets the functions that return readings, such as the temperature, and those that register for events.
func (m *machine) fillReadings(dev *mock.Device, d nvml.Device) {
	dev.GetUtilizationRatesFunc = func() (native.Utilization, native.Return) {
		s, ret := m.status(d.UUID)
		return native.Utilization{Gpu: uint32(s.Utilization)}, ret
	}
	dev.GetTemperatureFunc = func(sensor native.TemperatureSensors) (uint32, native.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.Temperature), ret
	}
	dev.GetPowerUsageFunc = func() (uint32, native.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.Power * 1000), ret
	}
	dev.GetEnforcedPowerLimitFunc = func() (uint32, native.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.PowerLimit * 1000), ret
	}
	dev.GetCurrentClocksEventReasonsFunc = func() (uint64, native.Return) {
		s, ret := m.status(d.UUID)
		return uint64(s.Throttle), ret
	}
	dev.GetTotalEccErrorsFunc = func(kind native.MemoryErrorType, _ native.EccCounterType) (uint64, native.Return) {
		s, ret := m.status(d.UUID)
		if ret == native.SUCCESS && s.ECC.Unanswered {
			return 0, native.ERROR_NOT_SUPPORTED
		}
		if kind == native.MEMORY_ERROR_TYPE_UNCORRECTED {
			return uint64(s.ECC.Uncorrected), ret
		}
		return uint64(s.ECC.Corrected), ret
	}
	dev.GetRemappedRowsFunc = func() (int, int, bool, bool, native.Return) {
		s, ret := m.status(d.UUID)
		return s.ECC.Remapped, 0, s.ECC.RemapPending, s.ECC.RemapFailed, ret
	}
	dev.GetSupportedEventTypesFunc = func() (uint64, native.Return) { return native.EventTypeAll, native.SUCCESS }
	dev.RegisterEventsFunc = func(kinds uint64, _ native.EventSet) native.Return {
		if kinds != native.EventTypeXidCriticalError|native.EventTypeDoubleBitEccError {
			return native.ERROR_NOT_SUPPORTED
		}
		return native.SUCCESS
	}
}

// fillLinks sets the functions that say how device i is linked to others.
func (m *machine) fillLinks(dev *mock.Device, i int) {
	d := m.survey.Devices[i]
	const nvswitch = "0000:c4:00.0"
	remotes := m.remotes(i, nvswitch)
	dev.GetNvLinkStateFunc = func(link int) (native.EnableState, native.Return) {
		if link >= len(remotes) {
			return 0, native.ERROR_INVALID_ARGUMENT
		}
		return native.FEATURE_ENABLED, native.SUCCESS
	}
	dev.GetNvLinkRemotePciInfoFunc = func(link int) (native.PciInfo, native.Return) { return pci(remotes[link]) }
	to := func(other native.Device) int {
		uuid, _ := other.GetUUID()
		k, _ := m.survey.Find(uuid)
		return k
	}
	dev.GetP2PStatusFunc = func(other native.Device, what native.GpuP2PCapsIndex) (native.GpuP2PStatus, native.Return) {
		l := m.survey.Links[i][to(other)]
		if d.Divided || m.survey.Devices[to(other)].Divided {
			return native.P2P_STATUS_OK, native.SUCCESS // the adapter must ignore it: MIG instances have no peers
		}
		if what == native.P2P_CAPS_INDEX_NVLINK && l.NVLinks > 0 || what != native.P2P_CAPS_INDEX_NVLINK && l.Peer {
			return native.P2P_STATUS_OK, native.SUCCESS
		}
		return native.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, native.SUCCESS
	}
	dev.GetTopologyCommonAncestorFunc = func(other native.Device) (native.GpuTopologyLevel, native.Return) {
		levels := map[nvml.Path]native.GpuTopologyLevel{nvml.SameNode: native.TOPOLOGY_NODE,
			nvml.AcrossNodes: native.TOPOLOGY_SYSTEM, nvml.OneSwitch: native.TOPOLOGY_SINGLE}
		level, ok := levels[m.survey.Links[i][to(other)].Path]
		if !ok {
			panic(fmt.Sprintf("%s: no level for %v", d.UUID, m.survey.Links[i][to(other)]))
		}
		return level, native.SUCCESS
	}
}

// remotes returns the bus id at the other end of each NVLink of device i. A pair with fewer NVLinks than the device has in all is linked
// directly; the remaining links go to the switch.
func (m *machine) remotes(i int, nvswitch string) (out []string) {
	d := m.survey.Devices[i]
	for k, l := range m.survey.Links[i] {
		if l.NVLinks < d.NVLinks {
			for range l.NVLinks {
				out = append(out, m.survey.Devices[k].PCI)
			}
		}
	}
	for len(out) < d.NVLinks {
		out = append(out, nvswitch)
	}
	return out
}
