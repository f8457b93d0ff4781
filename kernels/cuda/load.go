//go:build cuda && linux

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
	"latentbeam/kernels/cuda/kern"
)

// kernel is a loaded kernel.
type kernel struct {
	fn     cu.Function
	shared uint32 // limit of its dynamic shared memory in bytes
}

// freeShared is the shared memory that a kernel may use without a request.
const freeShared = 48 << 10

// units maps the name of each kernel to its unit.
var units = sync.OnceValues(func() (map[string]string, error) {
	list, err := kern.Kernels()
	of := make(map[string]string, len(list))
	for _, k := range list {
		of[k.Name] = k.Unit
	}
	return of, err
})

// kernel returns a kernel by name, on the engine's thread. The driver compiles its unit at the first use.
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
		err = driver.Check("cuModuleLoadData", err)
		return cu.Module{}, fmt.Errorf("compile unit %s of %s for %s: %w%s", unit, e.target, e.Name, err,
			compilerMessage(string(text), err))
	}
	e.modules[unit] = m
	return m, nil
}

// compilerMessage returns ": " and the message of the driver's compiler if it rejects the PTX; "" for other errors.
func compilerMessage(ptx string, err error) string {
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != invalidPTX && e.Code != unsupportedPTX && e.Code != noBinary {
		return ""
	}
	if said := driver.CompileLog(ptx); said != "" {
		return ": " + said
	}
	return ""
}

// allow lets k use the given amount of shared memory.
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
