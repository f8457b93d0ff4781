package same

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"
	"strconv"
	"strings"
	"testing"
)

// checkpoint returns config.json and the safetensors file of a model in testdata/models. A line there has the name and shape of a
// tensor, and optionally "=" and its values. Without them the values are a hash of name and index.
func checkpoint(t *testing.T, name string) (config, weights []byte) {
	t.Helper()
	_, sections := splitArchive(string(testdata(t, "models/"+name+".txt")))
	if len(sections) != 2 {
		t.Fatalf("model %s has %d sections, want config.json and tensors", name, len(sections))
	}
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, body := map[string]entry{}, []byte{}
	for line := range strings.Lines(sections[1].text) {
		left, right, _ := strings.Cut(line, "=")
		fields := strings.Fields(left)
		e := entry{DType: "F32", Shape: []int{}, Offsets: [2]int{len(body)}}
		for _, f := range fields[1:] {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatalf("model %s: %q: %v", name, line, err)
			}
			e.Shape = append(e.Shape, n)
		}
		values := hashed(fields[0], e.Shape)
		for i, f := range strings.Fields(right) {
			v, err := strconv.ParseFloat(f, 32)
			if err != nil {
				t.Fatalf("model %s: %q: %v", name, line, err)
			}
			values[i] = float32(v)
		}
		for _, v := range values {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
		}
		e.Offsets[1] = len(body)
		header[fields[0]] = e
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	head = append(head, bytes.Repeat([]byte(" "), (8-len(head)%8)%8)...)
	weights = binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return []byte(sections[0].text), append(append(weights, head...), body...)
}

// hashed returns values that depend only on name and index, with the magnitudes of an untrained model.
func hashed(name string, shape []int) []float32 {
	amp, base, n := 0.1, float32(0), 1
	for _, d := range shape {
		n *= d
	}
	switch weight := strings.HasSuffix(name, ".weight"); {
	case strings.Contains(name, "scale_shift_table"):
		amp = 0.3
	case strings.HasSuffix(name, "y_embedding"):
		amp = 1
	case weight && len(shape) >= 2:
		amp = math.Sqrt(3 / float64(n/shape[0]))
	case weight:
		base = 1
	}
	seed, values := crc32.ChecksumIEEE([]byte(name)), make([]float32, n)
	for i := range values {
		x := seed ^ uint32(i)*0x9E3779B1
		x = (x ^ x>>16) * 0x85ebca6b
		x = (x ^ x>>13) * 0xc2b2ae35
		x ^= x >> 16
		values[i] = base + float32(amp*(2*float64(x)/(1<<32)-1))
	}
	return values
}

// picture returns a png of one colour, given as three numbers.
func picture(t *testing.T, rgb []string) []byte {
	t.Helper()
	c := color.RGBA{A: 255}
	if _, err := fmt.Sscan(strings.Join(rgb, " "), &c.R, &c.G, &c.B); err != nil {
		t.Fatal(err)
	}
	img := image.NewRGBA(image.Rect(0, 0, 30, 20))
	for y := range 20 {
		for x := range 30 {
			img.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
