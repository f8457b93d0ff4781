//go:build !amd64

package lora

func sums(sum, a, b []float32, stride int) { sumsGo(sum, a, b, stride) }
