package cpu

import "golang.org/x/sys/cpu"

// int8SetsHere returns the sets of instructions of this processor.
func int8SetsHere() []*int8Set {
	x := &cpu.X86
	return int8Sets(features{avx512: x.HasAVX512F && x.HasAVX512BW, vnni: x.HasAVX512VNNI, avx: x.HasAVXVNNI, avx2: x.HasAVX2 && x.HasFMA})
}
