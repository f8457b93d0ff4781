package weight

import "latentbeam/kernels"

// Round returns x rounded to dt: to the nearest value, ties to even.
func Round(dt kernels.DType, x float32) float32 { return dt.Round(x) }
