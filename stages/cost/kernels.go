package cost

import "latentbeam/kernels"

// products is the number of kinds of products. kernels.Op numbers them from 0.
const products = int(kernels.OpConv) + 1

// Kernels counts the work of kernels by everything that their time depends on. A price list has the same form.
type Kernels struct {
	Products [products][kernels.ProductTypes]Product // by kernels.Op, and type of the factors
	Elements float64                                 // that other kernels read and write
	Rows     float64                                 // of norms and copies, see kernels.Count
	Calls    float64
}

// Product is the FLOP of products, and the elements that they read and write.
type Product struct{ FLOP, Elements float64 }

// KernelsOf returns the work in u.
func KernelsOf(u kernels.Usage) (k Kernels) {
	for op, c := range u {
		k.Calls += float64(c.Calls)
		k.Elements += float64(c.Elements)
		k.Rows += float64(c.Rows)
		if op >= products {
			continue
		}
		for t, p := range c.Typed {
			k.Products[op][t] = Product{p.FLOP, float64(p.Elements)}
			k.Elements -= float64(p.Elements)
		}
	}
	return k
}

// Add adds n times o.
func (k *Kernels) Add(o Kernels, n float64) {
	for op := range k.Products {
		for t := range k.Products[op] {
			p := &k.Products[op][t]
			p.FLOP += n * o.Products[op][t].FLOP
			p.Elements += n * o.Products[op][t].Elements
		}
	}
	k.Elements += n * o.Elements
	k.Rows += n * o.Rows
	k.Calls += n * o.Calls
}

// Times returns n times k.
func (k Kernels) Times(n float64) (out Kernels) {
	out.Add(k, n)
	return out
}

// Work returns the FLOP of all products.
func (k Kernels) Work() (sum float64) {
	for op := range k.Products {
		for _, p := range k.Products[op] {
			sum += p.FLOP
		}
	}
	return sum
}

// At returns the cost of k; price has the cost of one unit of each kind.
func (k Kernels) At(price Kernels) float64 {
	sum := k.Elements*price.Elements + k.Rows*price.Rows + k.Calls*price.Calls
	for op := range k.Products {
		for t, p := range k.Products[op] {
			sum += p.FLOP*price.Products[op][t].FLOP + p.Elements*price.Products[op][t].Elements
		}
	}
	return sum
}
