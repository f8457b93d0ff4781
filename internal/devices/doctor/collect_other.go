//go:build !linux

package doctor

// Other systems do not provide these facts as files.

func programMemory() Bound { return Bound{} }

func hostMemory() HostMemory { return HostMemory{} }

func hardware() GPU { return GPU{} }
