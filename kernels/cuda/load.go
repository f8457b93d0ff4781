//go:build cuda && linux

package cuda

import (
	"fmt"
	"sync"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
	"latentbeam/kernels/cuda/kern"
)

// kernel is a loaded kernel.
type kernel struct {
	fn     cu.Function
	shared uint32 // bytes of dynamic shared memory that it may have
}

// freeShared is how much shared memory a kernel has without asking.
const freeShared = 48 << 10

// units says which unit each kernel is in.
var units = sync.OnceValues(func() (map[string]string, error) {
	list, err := kern.Kernels()
	of := make(map[string]string, len(list))
	for _, k := range list {
		of[k.Name] = k.Unit
	}
	return of, err
})

// kernel returns a kernel by name, on the engine's thread. Its unit is compiled by the driver the first time.
func (e *engine) kernel(name string) (*kernel, error) {
	if k, ok := e.loaded[name]; ok {
		return k, nil
	}
	of, err := units()
	if err != nil {
		return nil, err
	}
	unit, ok := of[name]
	if !ok {
		return nil, fmt.Errorf("internal error: there is no kernel %q", name)
	}
	module, err := e.module(unit)
	if err != nil {
		return nil, err
	}
	fn, err := module.Function(name)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, driver.Check("cuModuleGetFunction", err))
	}
	k := &kernel{fn: fn, shared: freeShared}
	e.loaded[name] = k
	return k, nil
}

// module returns a loaded unit.
func (e *engine) module(unit string) (cu.Module, error) {
	if m, ok := e.modules[unit]; ok {
		return m, nil
	}
	text, err := kern.PTX(e.target, unit)
	if err != nil {
		return cu.Module{}, err
	}
	m, err := cu.LoadData(string(text))
	if err != nil {
		return cu.Module{}, fmt.Errorf("compile unit %s of %s for %s: %w", unit, e.target, e.Name,
			driver.Check("cuModuleLoadData", err))
	}
	e.modules[unit] = m
	return m, nil
}

// allow lets k have so much shared memory.
func (k *kernel) allow(shared uint32) error {
	if shared <= k.shared {
		return nil
	}
	if err := driver.AllowShared(k.fn, int(shared)); err != nil {
		return err
	}
	k.shared = shared
	return nil
}
