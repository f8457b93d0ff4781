package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/weights/safetensors"
	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// variants are checkpoints that torch wrote, with their content as safetensors (make.py there).
const variants = "../torchpickle/testdata"

var defaults = Options{MaxShard: DefaultShard}

// convert is Convert to a new directory; it returns the file to open.
func convert(t testing.TB, in, out string, o Options) string {
	t.Helper()
	r, err := Convert(in, filepath.Join(t.TempDir(), out), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Files[len(r.Files)-1]
}

// open opens safetensors, sharded or not.
func open(t testing.TB, path string) *safetensors.File {
	t.Helper()
	opener := safetensors.Open
	if strings.HasSuffix(path, safetensors.IndexSuffix) {
		opener = safetensors.OpenIndex
	}
	f, err := opener(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// same compares all tensors of two files.
func same(t testing.TB, got, want *safetensors.File) {
	t.Helper()
	if !slices.Equal(got.Names(), want.Names()) {
		t.Fatalf("tensors %q, want %q", got.Names(), want.Names())
	}
	for _, name := range want.Names() {
		a, _ := got.Tensor(name)
		b, _ := want.Tensor(name)
		if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("tensor %q is %s %v % x, want %s %v % x", name, a.DType, a.Shape, a.Data, b.DType, b.Shape, b.Data)
		}
	}
}

// TestWhatTorchWrites: dtypes, views, shared storages, parameters, nested state dicts, newer protocols and the format before
// 1.6 give the bytes that torch itself writes to safetensors.
func TestWhatTorchWrites(t *testing.T) {
	paths, err := filepath.Glob(variants + "/*.pth")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d checkpoints, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			same(t, open(t, convert(t, path, "", defaults)), open(t, strings.TrimSuffix(path, ".pth")+".safetensors"))
		})
	}
}

func TestKeyAndLeftOut(t *testing.T) {
	path := filepath.Join(variants, "nested.pth")
	c, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Key != "ema" || len(c.Skipped) != 1 || !strings.Contains(c.Skipped[0], "state_dict") {
		t.Errorf("took %q, left out %q", c.Key, c.Skipped)
	}
	got, want := convert(t, path, "", Options{Key: "state_dict", MaxShard: DefaultShard}), variants+"/module.safetensors"
	same(t, open(t, got), open(t, want))
	if _, err := Open(path, "nothing"); err == nil || !strings.Contains(err.Error(), `"state_dict", "ema": choose one with --key`) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// TestShardsAndIndex: tensors that are divided into files open as one checkpoint, and no file is larger than the limit.
func TestShardsAndIndex(t *testing.T) {
	in := variants + "/dtypes.pth"
	index := convert(t, in, "out", Options{MaxShard: 24})
	if filepath.Base(index) != "dtypes.safetensors.index.json" {
		t.Fatalf("the file to open is %s", index)
	}
	same(t, open(t, index), open(t, variants+"/dtypes.safetensors"))
	files, err := filepath.Glob(filepath.Dir(index) + "/dtypes-*-of-*.safetensors")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d shards, %v", len(files), err)
	}
	for _, file := range files {
		f, total := open(t, file), 0
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			total += len(x.Data)
		}
		if total > 24 {
			t.Errorf("%s holds %d bytes", file, total)
		}
	}
	whole := convert(t, index, "whole", defaults)
	same(t, open(t, whole), open(t, variants+"/dtypes.safetensors"))
}

// TestPickledShards: a directory as hubs publish it, with an index of .bin files, is converted to safetensors, and its small
// files are copied.
func TestPickledShards(t *testing.T) {
	dir := t.TempDir()
	weights := map[string]string{}
	var index strings.Builder
	for i, name := range []string{"module", "views"} {
		shard := fmt.Sprintf("pytorch_model-%05d-of-00002.bin", i+1)
		data, err := os.ReadFile(filepath.Join(variants, name+".pth"))
		if err != nil {
			t.Fatal(err)
		}
		write1(t, filepath.Join(dir, shard), data)
		for _, tensor := range open(t, filepath.Join(variants, name+".safetensors")).Names() {
			weights[tensor] = shard
		}
	}
	fmt.Fprint(&index, `{"metadata": {"total_size": 7}, "weight_map": {`)
	for i, tensor := range slices.Sorted(maps.Keys(weights)) {
		fmt.Fprintf(&index, "%s%q: %q", strings.Repeat(",", min(i, 1)), tensor, weights[tensor])
	}
	write1(t, filepath.Join(dir, "pytorch_model.bin.index.json"), []byte(index.String()+"}}"))
	write1(t, filepath.Join(dir, "config.json"), []byte("{}"))
	write1(t, filepath.Join(dir, "spiece.model"), []byte("pieces"))

	out := convert(t, dir, "t5", Options{MaxShard: 300})
	if filepath.Base(out) != "model.safetensors.index.json" {
		t.Errorf("the file to open is %s", out)
	}
	if got := open(t, out).Names(); !slices.Equal(got, slices.Sorted(maps.Keys(weights))) {
		t.Errorf("tensors %q", got)
	}
	for _, name := range []string{"config.json", "spiece.model"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(out), name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(out), "pytorch_model.bin.index.json")); err == nil {
		t.Error("the index of the pickles was copied")
	}
	write1(t, filepath.Join(dir, "pytorch_model.bin.index.json"), []byte(`{"weight_map": {"whole": "x.bin"}}`))
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "shard x.bin is missing") {
		t.Errorf("a missing shard: %v", err)
	}
	write1(t, filepath.Join(dir, "pytorch_model.bin.index.json"),
		[]byte(`{"weight_map": {"whole": "pytorch_model-00002-of-00002.bin"}}`))
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "which the index does not list") {
		t.Errorf("an index that does not list all: %v", err)
	}
}

func write1(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRounding: f32 is rounded to the narrower types to nearest even, and widening is exact; integers do not change.
func TestRounding(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, value []byte) string {
		var out bytes.Buffer
		if err := safetensors.Write(&out, map[string]safetensors.Tensor{
			"x": {DType: "F32", Shape: []int{1}, Data: value},
			"i": {DType: "I64", Shape: []int{1}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		}, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		write1(t, path, out.Bytes())
		return path
	}
	in := save("in.safetensors", []byte{0, 0x80, 0x80, 0x3f}) // 1 + 2^-8: a tie in bfloat16
	for to, want := range map[string][]byte{"bf16": {0x80, 0x3f}, "f16": {0x04, 0x3c}, "f32": {0, 0x80, 0x80, 0x3f}} {
		f := open(t, convert(t, in, "out", Options{Type: to, MaxShard: DefaultShard}))
		x, _ := f.Tensor("x")
		i, _ := f.Tensor("i")
		if x.DType != Types[to] || !bytes.Equal(x.Data, want) || i.DType != "I64" || i.Data[7] != 8 {
			t.Errorf("%s: %s % x, %s % x", to, x.DType, x.Data, i.DType, i.Data)
		}
	}
	big := save("big.safetensors", []byte{0, 0, 0x80, 0x47}) // 65536
	_, err := Convert(big, filepath.Join(dir, "out"), Options{Type: "f16", MaxShard: DefaultShard})
	if err == nil || !strings.Contains(err.Error(), `tensor "x": the value 65536 does not fit f16`) {
		t.Errorf("an overflow: %v", err)
	}
	if left, _ := filepath.Glob(dir + "/out/*"); len(left) != 0 {
		t.Errorf("a failed conversion leaves %q", left)
	}
	if left, _ := filepath.Glob(dir + "/out/.*"); len(left) != 0 {
		t.Errorf("a failed conversion leaves %q", left)
	}
}

func TestSameBytesTwiceAndNothingReplaced(t *testing.T) {
	in, dir := variants+"/views.pth", t.TempDir()
	sum := func(path string) [32]byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(data)
	}
	a, b := convert(t, in, "", defaults), convert(t, in, "", defaults)
	if sum(a) != sum(b) {
		t.Error("two conversions differ")
	}
	target := filepath.Join(dir, "a.safetensors")
	write1(t, target, []byte("mine"))
	if _, err := Convert(in, target, defaults); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over a file: %v", err)
	}
	if data, _ := os.ReadFile(target); string(data) != "mine" {
		t.Error("a file was replaced")
	}
	for name, c := range map[string]struct {
		in   string
		o    Options
		want string
	}{
		"absent":             {"absent.pth", defaults, "no such file"},
		"dtype":              {in, Options{Type: "f8", MaxShard: 1}, "give f32, bf16 or f16"},
		"shard":              {in, Options{}, "a shard of 0 bytes"},
		"already":            {a, defaults, "safetensors already"},
		"empty directory":    {t.TempDir(), defaults, "the directory is empty"},
		"several to convert": {variants, defaults, "several checkpoints, name one"},
	} {
		if _, err := Convert(c.in, "", c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestGrowthIsBounded: very many tensors that share one storage are refused, because they would fill the disk; a few, such as
// tied weights, are written once each.
func TestGrowthIsBounded(t *testing.T) {
	data := make([]byte, 1<<16)
	tied := func(n int) string {
		var items []string
		for i := range n {
			view := tt.View(tt.Storage("FloatStorage", "0", len(data)/4), 0, []int{len(data) / 4}, []int{1})
			items = append(items, tt.Text(fmt.Sprint(i)), view)
		}
		path := filepath.Join(t.TempDir(), "tied.pth")
		write1(t, path, tt.Zip(t, tt.Pickle(tt.Dict(items...)), data))
		return path
	}
	if got := open(t, convert(t, tied(4), "out", defaults)).Names(); len(got) != 4 {
		t.Errorf("tensors %q", got)
	}
	out := t.TempDir()
	_, err := Convert(tied(40), out, defaults)
	if err == nil || !strings.Contains(err.Error(), "share storages so much") {
		t.Errorf("40 tensors over one storage: %v", err)
	}
	if files, _ := os.ReadDir(out); len(files) != 0 {
		t.Errorf("the refused conversion leaves %v", files)
	}
}

// TestMemoryOfAConversion does not grow with the tensors, whether they are copied, gathered or rounded.
func TestMemoryOfAConversion(t *testing.T) {
	const side = 3000
	data := make([]byte, 4*side*side) // 36 MB
	storage := tt.Storage("FloatStorage", "0", side*side)
	path := filepath.Join(t.TempDir(), "large.pth")
	write1(t, path, tt.Zip(t, tt.Pickle(tt.Dict(
		tt.Text("a"), tt.View(storage, 0, []int{side, side}, []int{side, 1}),
		tt.Text("b"), tt.View(storage, 0, []int{side, side}, []int{1, side}))), data))
	for _, o := range []Options{{MaxShard: DefaultShard}, {MaxShard: DefaultShard, Type: "bf16"}} {
		out := t.TempDir()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Convert(path, out, o)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("%+v: %d bytes allocated for %d bytes of tensors", o, got, 2*len(data))
		}
	}
}

// TestEightBits: 8-bit weights are widened, and with --dtype the scaled values are rounded once. A tensor that cannot be
// rounded is refused by name.
func TestEightBits(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, tensors map[string]safetensors.Tensor) string {
		var out bytes.Buffer
		if err := safetensors.Write(&out, tensors, nil); err != nil {
			t.Fatal(err)
		}
		write1(t, filepath.Join(dir, name), out.Bytes())
		return filepath.Join(dir, name)
	}
	third := safetensors.Tensor{DType: "F32", Shape: []int{1}, Data: []byte{0xab, 0xaa, 0xaa, 0x3e}} // 1/3
	in := save("a.safetensors", map[string]safetensors.Tensor{"a.scale_weight": third, "scaled_fp8": {DType: "F8_E4M3", Shape: []int{0}},
		"a.weight": {DType: "F8_E4M3", Shape: []int{1, 1}, Data: []byte{0x3c}}, "b": {DType: "F8_E5M2", Shape: []int{1}, Data: []byte{0x3d}}}) // 1.5 and 1.25
	for to, want := range map[string]string{"": "F32 0000003f BF16 a03f", "bf16": "BF16 003f BF16 a03f", "f16": "F16 0038 F16 003d",
		"f32": "F32 0000003f F32 0000a03f"} {
		f := open(t, convert(t, in, "out", Options{Type: to, MaxShard: DefaultShard}))
		a, _ := f.Tensor("a.weight")
		b, _ := f.Tensor("b")
		if got := fmt.Sprintf("%s %x %s %x", a.DType, a.Data, b.DType, b.Data); got != want || len(f.Names()) != 2 {
			t.Errorf("%q: %s, want %s; tensors %q", to, got, want, f.Names())
		}
	}
	for want, one := range map[string]safetensors.Tensor{
		`tensor "x.weight" is I8 without a scale that is known here`: {DType: "I8", Shape: []int{1, 2}, Data: []byte{1, 2}},
		`tensor "x.weight" is F8_E8M0, which cannot be rounded here`: {DType: "F8_E8M0", Shape: []int{2}, Data: []byte{1, 2}},
	} {
		in := save("b.safetensors", map[string]safetensors.Tensor{"x.weight": one})
		_, err := Convert(in, t.TempDir(), Options{Type: "bf16", MaxShard: DefaultShard})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
