package h264

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestSADMatchesItsDefinition(t *testing.T) {
	a, b := make([]byte, 24*16), make([]byte, 20*16)
	s := uint32(1)
	for round := range 200 {
		for _, p := range [][]byte{a, b} {
			for i := range p {
				s = s*1664525 + 1013904223
				p[i] = byte(s >> 24)
				if round%3 == 0 {
					p[i] = byte(int8(s>>24) >> 7) // 0 or 255
				}
			}
		}
		for _, size := range []int{16, 8} {
			want := 0
			for y := range size {
				for x := range size {
					want += max(int(a[24*y+x])-int(b[20*y+x]), int(b[20*y+x])-int(a[24*y+x]))
				}
			}
			got := sad8(a, 24, b, 20)
			if size == 16 {
				got = sad16(a, 24, b, 20, 1<<30)
			}
			if got != want {
				t.Fatalf("SAD of %dx%d is %d, want %d", size, size, got, want)
			}
		}
	}
}

func TestExpGolomb(t *testing.T) {
	// Table 9-2 and table 9-3.
	w := &bitWriter{}
	for v := range uint32(8) {
		w.ue(v)
	}
	for _, v := range []int{0, 1, -1, 2, -2} {
		w.se(v)
	}
	w.trailing()
	want := "1" + "010" + "011" + "00100" + "00101" + "00110" + "00111" + "0001000" +
		"1" + "010" + "011" + "00100" + "00101" + "1"
	var got strings.Builder
	for _, b := range w.buf {
		for i := 7; i >= 0; i-- {
			got.WriteByte('0' + b>>i&1)
		}
	}
	if s := strings.TrimRight(got.String(), "0"); s != want {
		t.Errorf("bits %s, want %s", s, want)
	}
	for _, v := range []int{0, 5, -5, 1000, -4096} {
		w := &bitWriter{}
		if w.se(v); w.length() != seLen(v) {
			t.Errorf("seLen(%d) = %d, but %d bits were written", v, seLen(v), w.length())
		}
	}
}

func TestNALEscape(t *testing.T) {
	got := nalUnit(0x65, []byte{0, 0, 0, 0, 0, 3, 7, 0, 0, 4, 0, 0, 1})
	want := []byte{0x65, 0, 0, 3, 0, 0, 3, 0, 3, 7, 0, 0, 4, 0, 0, 3, 1}
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

// TestMacroblocksStayWithinTheLimit encodes noise so finely that only I_PCM keeps a macroblock small enough.
func TestMacroblocksStayWithinTheLimit(t *testing.T) {
	c, err := Config{Width: 64, Height: 64, FPSNum: 8, FPSDen: 1, QP: MinQP}.Check()
	if err != nil {
		t.Fatal(err)
	}
	e, p := newEncoder(c), NewPicture(64, 64)
	pcm := 0
	for i := range 3 {
		scenes[3].fill(i, p)
		e.src.load(p)
		nal := e.encode(i, 0)
		if limit := 16*maxMacroblockBits/8 + 64; len(nal) > limit*11/10 {
			t.Errorf("picture %d takes %d bytes, 16 macroblocks may take %d", i, len(nal), limit)
		}
		for _, m := range e.prev {
			if m.lumaCount == [16]uint8{16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16} {
				pcm++
			}
		}
	}
	if pcm < 40 {
		t.Errorf("%d of 48 macroblocks are I_PCM", pcm)
	}
}

func TestLevel(t *testing.T) {
	for _, k := range []struct {
		c    Config
		bits int
		want int
	}{
		{Config{Width: 64, Height: 64, FPSNum: 8, FPSDen: 1}, 50_000, 10},
		{Config{Width: 64, Height: 64, FPSNum: 8, FPSDen: 1}, 200_000, 11},
		{Config{Width: 512, Height: 512, FPSNum: 16, FPSDen: 1}, 1_000_000, 22},
		{Config{Width: 512, Height: 512, FPSNum: 24000, FPSDen: 1001}, 5_000_000, 30},
		{Config{Width: 1920, Height: 1080, FPSNum: 30, FPSDen: 1}, 20_000_000, 40},
		{Config{Width: 8000, Height: 16, FPSNum: 8, FPSDen: 1}, 1_000, 51},
		{Config{Width: 4096, Height: 2304, FPSNum: 500, FPSDen: 1}, 1_000, 52},
	} {
		if got := k.c.level(k.bits).idc; got != k.want {
			t.Errorf("%+v at %d bit/s: level %d, want %d", k.c, k.bits, got, k.want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Config{Width: 64, Height: 64, FPSNum: 8, FPSDen: 1}
	for want, change := range map[string]func(c *Config){
		"even sides, 64x64": func(c *Config) { c.Width = 65 },
		"each side":         func(c *Config) { c.Height = 0 },
		"macroblocks":       func(c *Config) { c.Width, c.Height = 8000, 8000 },
		"frame rate":        func(c *Config) { c.FPSDen = 0 },
		"quantiser":         func(c *Config) { c.QP = 52 },
		"GOP":               func(c *Config) { c.GOP = -3 },
	} {
		c := good
		change(&c)
		_, err := Encode(context.Background(), c, 1, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Encode(context.Background(), good, 0, nil, nil); err == nil {
		t.Error("no pictures: no error")
	}
}

func TestReaderPanicIsAnError(t *testing.T) {
	c := Config{Width: 16, Height: 16, FPSNum: 8, FPSDen: 1, GOP: 2}
	_, err := Encode(context.Background(), c, 8, func(i int, p *Picture) {
		if i == 5 {
			panic("no picture 5")
		}
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "no picture 5") {
		t.Errorf("error %v", err)
	}
}

func TestCancelStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	read := 0
	_, err := Encode(ctx, Config{Width: 16, Height: 16, FPSNum: 8, FPSDen: 1}, 20, func(int, *Picture) {
		if read++; read == 3 {
			cancel()
		}
	}, nil)
	if !errors.Is(err, context.Canceled) || read != 3 {
		t.Errorf("%d pictures read, error %v", read, err)
	}
}

func BenchmarkEncode512(b *testing.B) {
	const n = 48
	pictures := make([]*Picture, n)
	for i := range pictures {
		pictures[i] = NewPicture(512, 512)
		scenes[2].fill(i, pictures[i])
	}
	c := Config{Width: 512, Height: 512, FPSNum: 24, FPSDen: 1, QP: 20}
	for b.Loop() {
		read := func(i int, p *Picture) {
			copy(p.Y, pictures[i].Y)
			copy(p.U, pictures[i].U)
			copy(p.V, pictures[i].V)
		}
		if _, err := Encode(context.Background(), c, n, read, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "frames/s")
}
