//go:build !linux

package doctor

// Other systems do not show these things in files.

func programMemory() Bound { return Bound{} }

func hostMemory() HostMemory { return HostMemory{} }

func free(string) int64 { return 0 }

func hardware() GPU { return GPU{} }
