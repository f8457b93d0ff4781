module latentbeam/kernels/cpu/gen

go 1.26
