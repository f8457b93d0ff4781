package rng

import (
	"math"
	"slices"
	"testing"
)

// TestPhiloxKnownAnswers are the vectors of Random123's kat_vectors file.
func TestPhiloxKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestElementaryFunctions compares with the standard library over the whole range.
func TestElementaryFunctions(t *testing.T) {
	words := []uint32{0, 1, 2, 1<<29 - 1, 1 << 29, 1<<29 + 1, 1 << 30, 3 << 29, 1 << 31, 3 << 30, 1<<32 - 1}
	for i := range uint32(20000) {
		words = append(words, i*214748+i*i)
	}
	for _, n := range words {
		x := float64(n) / (1 << 32) * 2 * math.Pi
		sin, cos := sinCosTurn(n)
		if math.Abs(sin-math.Sin(x)) > 1e-15 || math.Abs(cos-math.Cos(x)) > 1e-15 {
			t.Fatalf("turn %d: %v %v, want %v %v", n, sin, cos, math.Sin(x), math.Cos(x))
		}
		want := math.Log((float64(n) + 1) / (1 << 32))
		if got := logUnit(uint64(n) + 1); math.Abs(got-want) > 1e-15*max(1, -want) {
			t.Fatalf("ln of %d: %v, want %v", n, got, want)
		}
	}
}

// TestNormalsGolden pins the numbers themselves, computed independently from the formula in Normals'
// comment: they may never change, or old seeds give new videos.
func TestNormalsGolden(t *testing.T) {
	for _, c := range []struct {
		seed         uint64
		sample, step uint32
		offset       uint64
		want         [5]uint32
	}{
		{42, 0, 0, 0, [5]uint32{0xbf785e5c, 0x3e46ace8, 0xbf9e28d2, 0x3ff6433b, 0xbd95e030}},
		{42, 1, 0, 0, [5]uint32{0x40082c17, 0x400a53f3, 0xbed108e0, 0xbfd472ca, 0x40015d4b}},
		{42, 0, 1, 3, [5]uint32{0xbfba5e55, 0xbf9f04de, 0x3fd0322f, 0xbfdf817a, 0xbf5f266a}},
		{1<<63 + 5, 7, 100, 1<<34 + 2, [5]uint32{0xbf2d0dec, 0x3f532397, 0xbddd01e1, 0x3f29a805, 0x3f69aee5}},
	} {
		var got [5]float32
		Normals(got[:], c.seed, c.sample, c.step, c.offset)
		for i, x := range got {
			if math.Float32bits(x) != c.want[i] {
				t.Errorf("seed %d, sample %d, step %d, offset %d: %#x", c.seed, c.sample, c.step, c.offset, bitsOf(got))
				break
			}
		}
	}
}

func bitsOf(x [5]float32) (b [5]uint32) {
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

func TestNormalsDoNotDependOnChunks(t *testing.T) {
	whole := make([]float32, 103)
	Normals(whole, 9, 2, 3, 1000)
	for from := range whole {
		for to := from; to <= min(len(whole), from+9); to++ {
			part := make([]float32, to-from)
			Normals(part, 9, 2, 3, 1000+uint64(from))
			if !slices.Equal(part, whole[from:to]) {
				t.Fatalf("elements %d to %d differ from the whole", from, to)
			}
		}
	}
}

// TestNormalsMoments: mean, variance, skew and kurtosis of many values are right, and neighbouring elements, steps, samples
// and seeds are not correlated.
func TestNormalsMoments(t *testing.T) {
	const n = 400_000
	base := make([]float32, n)
	Normals(base, 42, 0, 0, 0)
	var m [5]float64
	for _, x := range base {
		p := 1.0
		for k := range m {
			m[k] += p / n
			p *= float64(x)
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 3} {
		if math.Abs(m[k]-want) > 0.03 {
			t.Errorf("moment %d is %v, want %v", k, m[k], want)
		}
	}
	for name, draw := range map[string]func(dst []float32){
		"next element": func(d []float32) { Normals(d, 42, 0, 0, 1) },
		"next block":   func(d []float32) { Normals(d, 42, 0, 0, 4) },
		"next step":    func(d []float32) { Normals(d, 42, 0, 1, 0) },
		"next sample":  func(d []float32) { Normals(d, 42, 1, 0, 0) },
		"next seed":    func(d []float32) { Normals(d, 43, 0, 0, 0) },
		"high seed":    func(d []float32) { Normals(d, 42+1<<32, 0, 0, 0) },
	} {
		other := make([]float32, n)
		draw(other)
		sum := 0.0
		for i, x := range other {
			sum += float64(x) * float64(base[i]) / n
		}
		if math.Abs(sum) > 5/math.Sqrt(n) {
			t.Errorf("correlation with the %s is %v", name, sum)
		}
	}
}

func TestSeedFor(t *testing.T) {
	want := map[string]int64{
		"": 6133296356172818, "a red circle moves left": 6515486563523200, "café": 3724673561944174,
	}
	for prompt, seed := range want {
		if got := SeedFor(42, prompt); got != seed {
			t.Errorf("SeedFor(42, %q) = %d, want %d", prompt, got, seed)
		}
	}
	if SeedFor(1, "a") == SeedFor(2, "a") || SeedFor(1, "a") == SeedFor(1, "b") {
		t.Error("different rows share a seed")
	}
	for i := range int64(1000) {
		if s := SeedFor(i-500, ""); s < 0 || s >= 1<<53 {
			t.Fatalf("seed %d leaves 53 bits", s)
		}
	}
}

func BenchmarkNormals(b *testing.B) {
	dst := make([]float32, 4096)
	b.SetBytes(int64(len(dst)) * 4)
	for b.Loop() {
		Normals(dst, 1, 2, 3, 4)
	}
}
