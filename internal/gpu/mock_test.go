//go:build cgo && linux && cuda

package gpu_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"latentbeam/internal/gpu"
	"latentbeam/internal/gpu/gputest"
)

// machine is a driver that describes a machine of gputest: go-nvml's mocks with just the functions that the
// adapter may call. Any other panics, as a function that the real library lacks ends the process.
type machine struct {
	host    *gputest.Host
	survey  gpu.Survey
	lib     *mock.Interface
	devices map[string]*mock.Device // by UUID
	lacks   []string                // symbols
	inited  bool
	events  chan nvml.EventData
	broken  atomic.Int32 // what waiting for events answers, where not 0
	freed   atomic.Int32
}

func newMachine(t *testing.T, host *gputest.Host) *machine {
	t.Helper()
	m := &machine{host: host, devices: map[string]*mock.Device{}, events: make(chan nvml.EventData, 10)}
	m.survey, _ = host.Survey()
	var whole []string
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
		InitFunc:     func() nvml.Return { m.inited = true; return nvml.SUCCESS },
		ShutdownFunc: func() nvml.Return { return nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if !m.inited || slices.Contains(m.lacks, name) {
					return errors.New("undefined symbol")
				}
				return nil
			}}
		},
		SystemGetDriverVersionFunc:     func() (string, nvml.Return) { return driver.Version, nvml.SUCCESS },
		SystemGetNVMLVersionFunc:       func() (string, nvml.Return) { return driver.NVML, nvml.SUCCESS },
		SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return 12040, nvml.SUCCESS },
		DeviceGetCountFunc:             func() (int, nvml.Return) { return len(whole), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			return m.devices[whole[i]], nvml.SUCCESS
		},
		EventSetCreateFunc: m.eventSet,
	}
	m.buses(t)
	return m
}

func (m *machine) open(t *testing.T) gpu.Host {
	t.Helper()
	h, err := gpu.OpenWith(m.lib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// buses makes a /sys that has the devices on their NUMA nodes.
func (m *machine) buses(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(gpu.SetPCIDevices(dir))
	for _, d := range m.survey.Devices {
		name := filepath.Join(dir, d.PCI, "numa_node")
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(fmt.Sprintln(d.NUMA)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) eventSet() (nvml.EventSet, nvml.Return) {
	return &mock.EventSet{
		WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
			if ret := nvml.Return(m.broken.Load()); ret != nvml.SUCCESS {
				return nvml.EventData{}, ret
			}
			select {
			case e := <-m.events:
				return e, nvml.SUCCESS
			case <-time.After(time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		},
		FreeFunc: func() nvml.Return { m.freed.Add(1); return nvml.SUCCESS },
	}, nvml.SUCCESS
}

// pci is a bus id as NVML gives it.
func pci(id string) (p nvml.PciInfo, ret nvml.Return) {
	for i, c := range []byte("0000" + id) {
		p.BusId[i] = int8(c)
	}
	return p, nvml.SUCCESS
}

// status is that of a device, with NVML's answer.
func (m *machine) status(uuid string) (gpu.DeviceStatus, nvml.Return) {
	s, err := m.host.Status(uuid)
	if err != nil {
		return s, nvml.ERROR_GPU_IS_LOST
	}
	return s, nvml.SUCCESS
}

// fill gives the mock of device i its functions.
func (m *machine) fill(i int) {
	d := m.survey.Devices[i]
	dev := m.devices[d.UUID]
	dev.GetUUIDFunc = func() (string, nvml.Return) { return d.UUID, nvml.SUCCESS }
	dev.GetNameFunc = func() (string, nvml.Return) { return d.Name, nvml.SUCCESS }
	dev.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { // counts what is reserved as used
		s, ret := m.status(d.UUID)
		return nvml.Memory{Total: uint64(d.Memory), Used: uint64(s.Used + s.Reserved), Free: uint64(s.Free)}, ret
	}
	dev.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		s, ret := m.status(d.UUID)
		return nvml.Memory_v2{Total: uint64(d.Memory), Used: uint64(s.Used), Reserved: uint64(s.Reserved),
			Free: uint64(s.Free)}, ret
	}
	dev.GetComputeRunningProcessesFunc = func() (out []nvml.ProcessInfo, ret nvml.Return) {
		s, ret := m.status(d.UUID)
		for _, p := range s.Processes {
			out = append(out, nvml.ProcessInfo{Pid: uint32(p.PID), UsedGpuMemory: uint64(p.Memory)})
		}
		return out, ret
	}
	if d.MIG() {
		dev.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return d.Instance[0], nvml.SUCCESS }
		dev.GetComputeInstanceIdFunc = func() (int, nvml.Return) { return d.Instance[1], nvml.SUCCESS }
		return
	}
	m.fillFacts(dev, d)
	m.fillReadings(dev, d)
	m.fillLinks(dev, i)
}

func (m *machine) fillFacts(dev *mock.Device, d gpu.Device) {
	dev.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pci(d.PCI) }
	dev.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) {
		return d.Capability[0], d.Capability[1], nvml.SUCCESS
	}
	number := func(n int) func() (int, nvml.Return) {
		return func() (int, nvml.Return) { return n, nvml.SUCCESS }
	}
	dev.GetCurrPcieLinkGenerationFunc = number(d.PCIe.Generation)
	dev.GetMaxPcieLinkGenerationFunc = number(d.PCIe.MaxGeneration)
	dev.GetCurrPcieLinkWidthFunc = number(d.PCIe.Width)
	dev.GetMaxPcieLinkWidthFunc = number(d.PCIe.MaxWidth)
	enabled := func(on bool) nvml.EnableState {
		if on {
			return nvml.FEATURE_ENABLED
		}
		return nvml.FEATURE_DISABLED
	}
	dev.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return enabled(d.ECC), enabled(d.ECC), nvml.SUCCESS
	}
	var parts []string
	for _, other := range m.survey.Devices {
		if other.Parent == d.UUID {
			parts = append(parts, other.UUID)
		}
	}
	dev.GetMigModeFunc = func() (int, int, nvml.Return) {
		if d.Capability[0] < 8 {
			return 0, 0, nvml.ERROR_NOT_SUPPORTED
		}
		mode := int(enabled(d.Divided))
		return mode, mode, nvml.SUCCESS
	}
	dev.GetMaxMigDeviceCountFunc = number(7)
	dev.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i%2 == 1 || i/2 >= len(parts) { // places may be empty
			return nil, nvml.ERROR_NOT_FOUND
		}
		return m.devices[parts[i/2]], nvml.SUCCESS
	}
}

func (m *machine) fillReadings(dev *mock.Device, d gpu.Device) {
	dev.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		s, ret := m.status(d.UUID)
		return nvml.Utilization{Gpu: uint32(s.Utilization)}, ret
	}
	dev.GetTemperatureFunc = func(sensor nvml.TemperatureSensors) (uint32, nvml.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.Temperature), ret
	}
	dev.GetPowerUsageFunc = func() (uint32, nvml.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.Power * 1000), ret
	}
	dev.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) {
		s, ret := m.status(d.UUID)
		return uint32(s.PowerLimit * 1000), ret
	}
	dev.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
		s, ret := m.status(d.UUID)
		return uint64(s.Throttle), ret
	}
	dev.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		s, ret := m.status(d.UUID)
		if ret == nvml.SUCCESS && s.ECC.Unanswered {
			return 0, nvml.ERROR_NOT_SUPPORTED
		}
		if kind == nvml.MEMORY_ERROR_TYPE_UNCORRECTED {
			return uint64(s.ECC.Uncorrected), ret
		}
		return uint64(s.ECC.Corrected), ret
	}
	dev.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) {
		s, ret := m.status(d.UUID)
		return s.ECC.Remapped, 0, s.ECC.RemapPending, s.ECC.RemapFailed, ret
	}
	dev.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeAll, nvml.SUCCESS }
	dev.RegisterEventsFunc = func(kinds uint64, _ nvml.EventSet) nvml.Return {
		if kinds != nvml.EventTypeXidCriticalError|nvml.EventTypeDoubleBitEccError {
			return nvml.ERROR_NOT_SUPPORTED
		}
		return nvml.SUCCESS
	}
}

// fillLinks gives device i its links.
func (m *machine) fillLinks(dev *mock.Device, i int) {
	d := m.survey.Devices[i]
	const nvswitch = "0000:c4:00.0"
	remotes := m.remotes(i, nvswitch)
	dev.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link >= len(remotes) {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	dev.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) { return pci(remotes[link]) }
	to := func(other nvml.Device) int {
		uuid, _ := other.GetUUID()
		k, _ := m.survey.Find(uuid)
		return k
	}
	dev.GetP2PStatusFunc = func(other nvml.Device, what nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		l := m.survey.Links[i][to(other)]
		if d.Divided || m.survey.Devices[to(other)].Divided {
			return nvml.P2P_STATUS_OK, nvml.SUCCESS // whatever it says, instances have no peers
		}
		if what == nvml.P2P_CAPS_INDEX_NVLINK && l.NVLinks > 0 || what != nvml.P2P_CAPS_INDEX_NVLINK && l.Peer {
			return nvml.P2P_STATUS_OK, nvml.SUCCESS
		}
		return nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, nvml.SUCCESS
	}
	dev.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		levels := map[gpu.Path]nvml.GpuTopologyLevel{gpu.SameNode: nvml.TOPOLOGY_NODE,
			gpu.AcrossNodes: nvml.TOPOLOGY_SYSTEM, gpu.OneSwitch: nvml.TOPOLOGY_SINGLE}
		level, ok := levels[m.survey.Links[i][to(other)].Path]
		if !ok {
			panic(fmt.Sprintf("%s: no level for %v", d.UUID, m.survey.Links[i][to(other)]))
		}
		return level, nvml.SUCCESS
	}
}

// remotes returns the bus id at the other end of each NVLink: the neighbours' where links are counted for each,
// the switch's where all go to one.
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
