package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"latentbeam/kernels"
)

var dtypes = []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}

// testTransfer: Download returns what was uploaded, rounded to the storage type, in row-major order for all strides. Copy
// converts between all types.
func testTransfer(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, l := range layouts {
			t.Run(fmt.Sprint(dt, " ", l), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, shape := range [][]int{{1}, {7}, {3, 5}, {2, 3, 4, 5}, {5000}, {0}, {3, 0, 2}, {1, 1},
					{70, 70}, {5000, 1}} {
					f.roundTrip(dt, l, shape)
				}
			})
		}
	}
	t.Run("Special", func(t *testing.T) {
		f := newFixture(t, newBackend(1))
		inf := float32(math.Inf(1))
		values := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan, 65504, 65520, -70000, 1e-8, 6e-8,
			5.9e-5, 3e38, 1.00390625, 1.01171875, 1.00048828125, 1.00146484375}
		for _, dt := range dtypes {
			x, got := f.Alloc(dt, len(values)), make([]float32, len(values))
			f.Upload(x, values)
			if err := f.Download(got, x); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if math.Float32bits(got[i]) != math.Float32bits(dt.Round(v)) && v == v || v != v && got[i] == got[i] {
					t.Errorf("%v: %v came back as %v, want %v", dt, v, got[i], dt.Round(v))
				}
			}
		}
	})
}

func (f *fixture) roundTrip(dt kernels.DType, l layout, shape []int) {
	f.Helper()
	a := f.random(kernels.F32, shape...)
	host := make([]float32, len(a.data))
	for i, x := range a.data {
		host[i] = float32(x)
		a.data[i] = float64(dt.Round(host[i]))
	}
	dst, read := f.result(dt, l, shape...)
	f.Upload(dst, host)
	for i := range host {
		host[i] = nan // Upload must have copied it
	}
	f.check("upload", kernels.F32, read(), a)
	for _, other := range dtypes {
		y, read := f.result(other, l, shape...)
		f.Copy(y, dst)
		want := newArray(shape...)
		for i, x := range a.data {
			want.data[i] = float64(other.Round(float32(x)))
		}
		f.check(fmt.Sprint("copy to ", other), kernels.F32, read(), want)
		if err := f.Download(host, y); err != nil {
			f.Fatal(err)
		}
		for i, x := range host {
			if float64(x) != want.data[i] {
				f.Fatalf("download of %v from a view: element %d is %v, want %v", shape, i, x, want.data[i])
			}
		}
	}
}

// testWeights: weights are made from little-endian bytes, aligned or not, and every backend of the device can use them.
func testWeights(t *testing.T, newBackend func(int) kernels.Backend) {
	f, other := newFixture(t, newBackend(1)), newBackend(2)
	for _, dt := range dtypes {
		for shift := range 4 {
			a := f.random(dt, 3, 5)
			data := make([]byte, shift, shift+15*4)
			for _, x := range a.data {
				switch dt {
				case kernels.F32:
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
				case kernels.BF16:
					data = binary.LittleEndian.AppendUint16(data, kernels.ToBF16(float32(x)))
				default:
					data = binary.LittleEndian.AppendUint16(data, kernels.ToF16(float32(x)))
				}
			}
			w, err := f.Weights(dt, []int{3, 5}, data[shift:])
			if err != nil {
				t.Fatal(err)
			}
			host := make([]float32, 15)
			for name, b := range map[string]kernels.Backend{"own": f.Backend, "other": other} {
				if err := b.Download(host, w); err != nil {
					t.Fatalf("%v, shift %d, %s backend: %v", dt, shift, name, err)
				}
				for i, x := range host {
					if float64(x) != a.data[i] {
						t.Fatalf("%v, shift %d, %s backend: element %d is %v, want %v", dt, shift, name, i, x, a.data[i])
					}
				}
			}
		}
	}
	for name, shape := range map[string][]int{"long": {4}, "negative": {-1, -2}, "huge": {math.MaxInt, 8}} {
		if _, err := f.Weights(kernels.F32, shape, make([]byte, 8)); err == nil {
			t.Errorf("%s: 8 bytes passed for %v", name, shape)
		}
	}
	if err := f.Wait(); err != nil {
		t.Errorf("a rejected weight made the backend fail: %v", err)
	}
}

// testGather copies rows by index.
func testGather(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, l := range layouts {
			f := newFixture(t, newBackend(2))
			table := f.random(dt, 11, 37)
			ids := []int32{10, 0, 3, 3, 7}
			want := newArray(len(ids), 37)
			for i, id := range ids {
				copy(want.data[i*37:], table.data[id*37:][:37])
			}
			dst, read := f.result(kernels.F32, l, len(ids), 37)
			f.Gather(dst, f.operand(dt, l, table), ids)
			clear(ids) // the backend must have copied them
			f.check(fmt.Sprint(dt, " ", l), kernels.F32, read(), want)
			none, read := f.result(kernels.F32, l, 0, 37)
			f.Gather(none, f.operand(dt, l, table), nil)
			f.check("no rows", kernels.F32, read(), newArray(0, 37))
		}
	}
}
