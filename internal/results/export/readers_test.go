package export

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/weights/safetensors"
)

// finding is what a reader has read of a sample. The digests are digests of the values' bytes.
type finding struct {
	Latents string `json:"latents"`
	Shape   []int  `json:"shape"`
	Text    string `json:"text"`
	Caption string `json:"caption,omitempty"`
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:16] }

// clipsOutput returns an output with Wan's latents of two windows of one video, a video of another size, and an image.
func clipsOutput(t *testing.T) store.Store {
	t.Helper()
	var rows []schemas.ClipLatentRow
	for i, c := range []struct {
		id, caption                 string
		width, height, frames, from int64
	}{{"a_b#w000", "a wave", 32, 48, 5, 0}, {"a_b#w001", "a wave", 32, 48, 5, 5}, {"c", "a tree", 48, 32, 9, 0}, {"d", "a house", 32, 48, 1, 0}} {
		shape := []int64{16, (c.frames + 3) / 4, c.height / 8, c.width / 8}
		latent := make([]float32, elements(shape))
		for k := range latent {
			latent[k] = float32(i) + float32(k%1000)/37
		}
		r := schemas.LatentRow{ID: c.id, VAELatentBytes: kernels.F32.Bytes(latent), VAELatentShape: shape, VAELatentDType: "float32",
			TextEmbeddingBytes: kernels.F32.Bytes(latent[3 : 3+4*(2+i/2)]), TextEmbeddingShape: []int64{int64(2 + i/2), 4},
			TextEmbeddingDType: "float32", Caption: c.caption, MediaType: "video", Width: c.width, Height: c.height,
			NumFrames: shape[1], VideoFrames: c.frames, FPS: 16, LatentScale: 1, FileName: c.id + ".mp4"}
		if i == 1 { // windows of a video share its text
			r.TextEmbeddingBytes = rows[0].TextEmbeddingBytes
		}
		if c.frames == 1 {
			r.MediaType = "image"
		}
		rows = append(rows, schemas.ClipLatentRow{LatentRow: r, Bucket: "x", FrameStart: c.from, FrameCount: c.frames})
	}
	mean, std := list(statistics().Mean), list(statistics().Std)
	s, err := storetest.NewMemory().Open(t.Context(), "")
	must(t, err)
	must(t, s.Replace(t.Context(), "tables/latents/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, tabletest.Seq(rows), write.Options{Metadata: map[string]string{
			"latentbeam.latent_space": "model", "latentbeam.latents_mean": mean, "latentbeam.latents_std": std}})
		return err
	}))
	must(t, s.Replace(t.Context(), "summary.json", func(w io.Writer) error {
		return json.NewEncoder(w).Encode(report.Summary{State: report.Complete, Totals: report.Totals{Rows: 4, Done: 4}})
	}))
	return s
}

// TestReaders: the exports contain the names and values that the trainers' own readers have read from them. If READERS names a
// directory, the exports are written there for testdata/read_exports.py, which writes testdata/readers.json.
func TestReaders(t *testing.T) {
	dir := os.Getenv("READERS")
	if dir == "" {
		dir = t.TempDir()
	}
	var golden map[string]map[string]finding
	data, err := os.ReadFile("testdata/readers.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	must(t, err)
	look := map[string]func(*testing.T, string) map[string]finding{
		"fastvideo": parquetFindings[fastVideoRow], "hf": parquetFindings[huggingFaceRow], "musubi": musubiFindings,
		"safetensors": plainFindings, "webdataset": tarFindings,
	}
	for _, format := range Formats() {
		if formats[format].videos != nil { // of another output, see TestLeRobotByItsReader
			continue
		}
		at := filepath.Join(dir, format)
		_, err := Run(t.Context(), clipsOutput(t), at, Options{To: format})
		must(t, err)
		if look[format] == nil || golden[format] == nil && os.Getenv("READERS") == "" {
			t.Errorf("%s: no reader was tried: add a function to look, and run testdata/read_exports.py with the trainer's own", format)
			continue
		}
		got, want := look[format](t, at), golden[format]
		if !maps.EqualFunc(got, want, func(a, b finding) bool {
			return a.Latents == b.Latents && a.Text == b.Text && a.Caption == b.Caption && slices.Equal(a.Shape, b.Shape)
		}) {
			t.Errorf("%s:\n%v\nits reader found\n%v", format, got, want)
		}
	}
}

func parquetFindings[T schemas.Row](t *testing.T, dir string) map[string]finding {
	t.Helper()
	files, _ := filepath.Glob(dir + "/*/*.parquet")
	out := map[string]finding{}
	for _, file := range files {
		rows, err := parquet.ReadFile[T](file)
		must(t, err)
		for _, row := range rows {
			switch r := any(row).(type) {
			case fastVideoRow:
				out[r.ID] = finding{sum(r.VAELatentBytes), ints(r.VAELatentShape), sum(r.TextEmbeddingBytes), r.Caption}
			case huggingFaceRow:
				out[r.ID] = finding{sum(kernels.F32.Bytes(r.Latents)), ints(r.LatentsShape),
					sum(kernels.F32.Bytes(r.TextEmbedding)), r.Caption}
			}
		}
	}
	return out
}

func musubiFindings(t *testing.T, dir string) map[string]finding {
	t.Helper()
	files, _ := filepath.Glob(dir + "/*/*_wan.safetensors")
	out := map[string]finding{}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), "_")
		stem := strings.Join(parts[:len(parts)-3], "_")
		if !strings.Contains(parts[len(parts)-3], "-") {
			stem = strings.Join(parts[:len(parts)-2], "_")
		}
		z := onlyTensor(t, file)
		text := onlyTensor(t, filepath.Join(filepath.Dir(file), stem+"_wan_te.safetensors"))
		out[filepath.Base(file)] = finding{Latents: sum(z.Data), Shape: z.Shape, Text: sum(text.Data)}
	}
	return out
}

func onlyTensor(t *testing.T, path string) safetensors.Tensor {
	t.Helper()
	f, err := safetensors.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	z, _ := f.Tensor(f.Names()[0])
	return z
}

func plainFindings(t *testing.T, dir string) map[string]finding {
	t.Helper()
	files, _ := filepath.Glob(dir + "/*.safetensors")
	out := map[string]finding{}
	for _, file := range files {
		f, err := safetensors.Open(file)
		must(t, err)
		z, _ := f.Tensor("latents")
		text, _ := f.Tensor("text_embedding")
		out[f.Metadata()["id"]] = finding{sum(z.Data), z.Shape, sum(text.Data), f.Metadata()["caption"]}
		must(t, f.Close())
	}
	return out
}

func tarFindings(t *testing.T, dir string) map[string]finding {
	t.Helper()
	f, err := os.Open(dir + "/000000.tar")
	must(t, err)
	defer f.Close()
	out := map[string]finding{}
	var about map[string]string
	var one finding
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		_, end, _ := strings.Cut(h.Name, ".")
		switch end {
		case "json":
			must(t, json.Unmarshal(data, &about))
			one = finding{Caption: about["caption"]}
		case "latent.npy":
			head := string(data[:128])
			var c, f, y, x int
			_, err := fmt.Sscanf(head[strings.Index(head, "'shape': ")+9:], "(%d,%d,%d,%d,)", &c, &f, &y, &x)
			must(t, err)
			one.Shape, one.Latents = []int{c, f, y, x}, sum(data[len(npy([]int64{int64(c), int64(f), int64(y), int64(x)})):])
		case "text.npy":
			one.Text = sum(data[128:])
			out[about["id"]] = one
		}
	}
}
