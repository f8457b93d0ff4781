package exec

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// FuzzAnswer: no line of a program makes the parser of answers panic, and every accepted answer has a known type.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"type": "hello", "v": 1}`))
	f.Add([]byte(`{"type": "result", "batch": 1, "key": "a", "outputs": {"frames": "x.npy"}, "readings": {"a": 1.5, "b": "c", "d": true}}`))
	f.Add([]byte(`{"type": "error", "class": "row", "message": "no", "readings": {"a": null}}`))
	f.Add([]byte(`{"type": 7}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := parseAnswer(line)
		if err == nil && a.Type == "" {
			t.Errorf("%q has no type and is accepted", line)
		}
		if err != nil && len(err.Error()) > 4096+len(line) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// FuzzOutputs: no file from a program makes the readers of outputs panic. Every accepted output has the axes of its kind.
func FuzzOutputs(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "out.safetensors")
	a := stages.NewArray(1, 2, 2, 2)
	text, frames := stages.NewArray(2, 3), safetensors.Tensor{DType: "U8", Shape: []int{1, 2, 2, 3}, Data: make([]byte, 12)}
	for _, out := range []struct {
		name   string
		tensor safetensors.Tensor
	}{{tensorLatents, tensorOf(a)}, {tensorLatents, tensorOf(text)}, {tensorText, tensorOf(text)}, {tensorText, tensorOf(a)},
		{tensorFrames, frames}, {tensorFrames, tensorOf(a)}} {
		var b bytes.Buffer
		meta := map[string]string{metaScale: "0.5", metaFPS: "8"}
		if err := safetensors.Write(&b, map[string]safetensors.Tensor{out.name: out.tensor}, meta); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte("a red circle\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []stages.Kind{stages.KindPrompt, stages.KindText, stages.KindLatents, stages.KindFrames} {
			x := &exchange{ctx: t.Context(), opts: &options{Takes: string(stages.KindPrompt), Gives: string(kind)}, dir: dir}
			e := &stages.Element{}
			if x.result(e, answer{Outputs: map[string]string{string(kind): path}}) != nil {
				continue
			}
			if kind == stages.KindText && len(e.Text.Embedding.Shape) != 2 || kind == stages.KindLatents && len(e.Latents.Shape) != 4 ||
				kind == stages.KindFrames && len(e.Frames.Frames) == 0 {
				t.Fatalf("a %s without content", kind)
			}
		}
	})
}
