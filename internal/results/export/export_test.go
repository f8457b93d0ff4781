package export

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/results/report"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store"
	dirs "latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/typed"
	"latentbeam/internal/table/write"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// about is the metadata of the tables in output.
var about map[string]string

// output returns a finished output with rows of Wan's latents (16, 2, 3, 4) and one failed row.
func output(t *testing.T, rows int, change func(i int, r *schemas.LatentRow)) store.Store {
	t.Helper()
	s, err := storetest.NewMemory().Open(t.Context(), "")
	must(t, err)
	var all []schemas.LatentRow
	for i := range rows {
		latent := make([]float32, 16*2*3*4)
		for k := range latent {
			latent[k] = float32(i) + float32(k)/37
		}
		r := schemas.LatentRow{ID: fmt.Sprintf("clip/%d", i), VAELatentBytes: kernels.F32.Bytes(latent),
			VAELatentShape: []int64{16, 2, 3, 4}, VAELatentDType: "float32",
			TextEmbeddingBytes: kernels.F32.Bytes([]float32{1, 2, 3, 4, 5, float32(i)}),
			TextEmbeddingShape: []int64{3, 2}, TextEmbeddingDType: "float32", Caption: "a wave", MediaType: "video", Width: 32,
			Height: 24, NumFrames: 2, VideoFrames: 5, FPS: 16, LatentScale: 1}
		if change != nil {
			change(i, &r)
		}
		all = append(all, r)
	}
	must(t, s.Replace(t.Context(), "tables/latents/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, tabletest.Seq(all), write.Options{Metadata: about})
		return err
	}))
	must(t, s.Replace(t.Context(), "tables/failures/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, tabletest.Seq([]schemas.FailureRow{{ID: "bad"}}), write.Options{})
		return err
	}))
	must(t, s.Replace(t.Context(), "summary.json", func(w io.Writer) error {
		return json.NewEncoder(w).Encode(report.Summary{State: report.Complete, Totals: report.Totals{Rows: int64(rows) + 1,
			Done: int64(rows), Failed: 1}})
	}))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// statistics returns statistics that differ in each channel.
func statistics() *Statistics {
	s := &Statistics{}
	for c := range 16 {
		s.Mean, s.Std = append(s.Mean, float64(c)/10), append(s.Std, 1+float64(c)/8)
	}
	return s
}

func TestFastVideo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	done, err := Run(t.Context(), output(t, 3, func(i int, r *schemas.LatentRow) {
		if i == 2 {
			r.Width, r.Height = 24, 32
			r.VAELatentShape = []int64{16, 2, 4, 3}
		}
	}), dir, Options{To: "fastvideo", VAE: statistics()})
	must(t, err)
	files, _ := filepath.Glob(dir + "/*/*")
	if done.Rows != 3 || len(files) != 2 || !strings.HasSuffix(files[1], "32x24x5/data_chunk_0.parquet") {
		t.Fatalf("%+v, %v", done, files)
	}
	n := 0
	for r, err := range typed.Read[schemas.LatentRow](files[1], true) {
		must(t, err)
		got, err := schemas.UnpackFloats(r.VAELatentBytes, []int{16, 2, 3, 4})
		must(t, err)
		for k, v := range got {
			c := k / 24
			want := float64(float32(n)+float32(k)/37)*(1+float64(c)/8) + float64(c)/10
			if math.Abs(float64(v)-want) > 1e-5 {
				t.Fatalf("row %d value %d is %g, not %g", n, k, v, want)
			}
		}
		if r.NumFrames != 2 || !slices.Equal(r.TextEmbeddingShape, []int64{3, 2}) || len(r.TextEmbeddingBytes) != 24 || r.Key != "" {
			t.Errorf("row %+v", r)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestMusubi(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	_, err := Run(t.Context(), output(t, 1, nil), dir, Options{To: "musubi"})
	must(t, err)
	f, err := safetensors.Open(dir + "/32x24x5/clip-0_00000-005_0032x0024_wan.safetensors")
	must(t, err)
	defer f.Close()
	z, found := f.Tensor("latents_2x3x4_bfloat16")
	if !found || z.DType != "BF16" || !slices.Equal(z.Shape, []int{16, 2, 3, 4}) || f.Metadata()["frame_count"] != "5" ||
		f.Metadata()["architecture"] != "wan" || f.Metadata()["format_version"] != "1.0.1" || f.Metadata()["width"] != "32" {
		t.Fatalf("%v %v %v", f.Names(), z.Shape, f.Metadata())
	}
	if got := kernels.FromBF16(binary.LittleEndian.Uint16(z.Data[2*100:])); math.Abs(float64(got)-100./37) > 0.01 {
		t.Errorf("value 100 is %g", got)
	}
	text, err := safetensors.Open(dir + "/32x24x5/clip-0_wan_te.safetensors")
	must(t, err)
	defer text.Close()
	if e, found := text.Tensor("varlen_t5_bfloat16"); !found || !slices.Equal(e.Shape, []int{3, 2}) ||
		text.Metadata()["caption1"] != "a wave" {
		t.Errorf("%v %v", text.Names(), text.Metadata())
	}
}

// TestStatisticsFile: every export has a file that describes its tensors, in the space of the export.
func TestStatisticsFile(t *testing.T) {
	about = map[string]string{"latentbeam.latents_mean": "[" + strings.Repeat("0.5,", 15) + "1]",
		"latentbeam.latents_std": "[" + strings.Repeat("2,", 15) + "4]", "latentbeam.posterior": "mean", "latentbeam.vae_digest": "d1"}
	defer func() { about = nil }()
	from := output(t, 3, func(i int, r *schemas.LatentRow) {
		r.LatentSpace, r.Model, r.WeightsDigest, r.LatentbeamVersion = stages.RawSpace, "wan", "w1", "1.2.3"
		if i == 2 {
			r.VAELatentShape, r.TextEmbeddingBytes, r.TextEmbeddingShape = []int64{16, 2, 4, 3}, nil, nil
		}
	})
	for format, c := range map[string]struct{ space, dtype string }{"hf": {"raw", "float32"}, "safetensors": {"raw", "float32"},
		"webdataset": {"raw", "float32"}, "musubi": {"model", "bfloat16"}, "fastvideo": {"raw", "float32"}} {
		dir := filepath.Join(t.TempDir(), format)
		in := from
		if format == "musubi" || format == "fastvideo" { // these formats do not accept rows without a text
			in = output(t, 3, func(_ int, r *schemas.LatentRow) { r.LatentSpace = stages.RawSpace })
		}
		_, err := Run(t.Context(), in, dir, Options{To: format})
		must(t, err)
		data, err := os.ReadFile(filepath.Join(dir, "statistics.json"))
		must(t, err)
		var got factSheet
		must(t, json.Unmarshal(data, &got))
		l := got.Latents
		if got.Schema != 1 || got.Format != format || got.Rows != 3 || l.Space != c.space || l.DType != c.dtype || l.Channels != 16 ||
			len(l.Mean) != 16 || l.Mean[15] != 1 || l.Std[15] != 4 || l.Posterior != "mean" || l.VAE != "d1" || got.Text == nil ||
			got.Text.Width != 2 || got.Text.MaxTokens != 3 || got.Text.DType != c.dtype {
			t.Errorf("%s: %s", format, data)
		}
		if format == "hf" && (got.NoText != 1 || got.Model != "wan" || got.Program != "1.2.3" || len(l.Shapes) != 2 || l.Shapes[0].Rows != 2) {
			t.Errorf("%s: %s", format, data)
		}
	}
	// The parquet files of an export contain the statistics too.
	dir := filepath.Join(t.TempDir(), "hf")
	_, err := Run(t.Context(), from, dir, Options{To: "hf"})
	must(t, err)
	files, _ := filepath.Glob(dir + "/*/*.parquet")
	folder, err := dirs.OpenExisting(filepath.Dir(files[0]))
	must(t, err)
	r, err := folder.Open(t.Context(), filepath.Base(files[0]))
	must(t, err)
	defer r.Close()
	metadata, err := typed.Metadata(files[0], r)
	must(t, err)
	if metadata["latentbeam.latents_std"] != about["latentbeam.latents_std"] || metadata["latentbeam.latent_space"] != "raw" {
		t.Errorf("%v", metadata)
	}
}

func TestOtherFormats(t *testing.T) {
	for format, want := range map[string]string{"safetensors": "clip-0.safetensors clip-1.safetensors statistics.json",
		"webdataset": "000000.tar statistics.json"} {
		dir := filepath.Join(t.TempDir(), format)
		done, err := Run(t.Context(), output(t, 2, nil), dir, Options{To: format})
		must(t, err)
		var names []string
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != want || done.Rows != 2 || done.Files != int64(len(names)) {
			t.Errorf("%s: %s, %+v", format, got, done)
		}
	}
	if head := npy([]int64{16, 2}); len(head)%64 != 0 || head[len(head)-1] != '\n' ||
		!strings.Contains(string(head), "'shape': (16,2,), }") {
		t.Errorf("%q", head)
	}
}

func TestRefusals(t *testing.T) {
	noText := func(_ int, r *schemas.LatentRow) { r.TextEmbeddingBytes, r.TextEmbeddingShape = nil, nil }
	for name, c := range map[string]struct {
		to, want string
		change   func(int, *schemas.LatentRow)
		rows     int
	}{
		"no text":        {"musubi", "no text embedding", noText, 1},
		"not raw":        {"fastvideo", "--vae", nil, 1},
		"another format": {"pickle", "give one of", nil, 1},
		"other channels": {"musubi", "none of Wan's", func(_ int, r *schemas.LatentRow) { r.VAELatentShape = []int64{32, 1, 3, 4} }, 1},
		"a quarter":      {"safetensors", "only float32", func(_ int, r *schemas.LatentRow) { r.VAELatentDType = "float8" }, 1},
		"half a number":  {"fastvideo", "store: float32", halved, 1},
		"one name twice": {"musubi", "same name", func(_ int, r *schemas.LatentRow) { r.ID = "a" }, 2},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := Run(t.Context(), output(t, c.rows, c.change), dir, Options{To: c.to})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(dir + "*"); left != nil {
			t.Errorf("%s leaves the files %v", name, left)
		}
	}
}

// halved converts the latent of the row to bfloat16.
func halved(_ int, r *schemas.LatentRow) {
	r.VAELatentDType, r.VAELatentBytes = "bfloat16", bf16(r.VAELatentBytes)
}

// TestExportOfBFloat16: an export of latents in bfloat16 has the same values.
func TestExportOfBFloat16(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	_, err := Run(t.Context(), output(t, 1, halved), dir, Options{To: "safetensors"})
	must(t, err)
	f, err := safetensors.Open(dir + "/clip-0.safetensors")
	must(t, err)
	defer f.Close()
	z, _ := f.Tensor("latents")
	if z.DType != "BF16" || kernels.FromBF16(binary.LittleEndian.Uint16(z.Data[2*37:])) != 1 {
		t.Errorf("%s", z.DType)
	}
}

// TestStatisticsOfTheTable: latents are converted to raw latents with the statistics in their table's metadata.
func TestStatisticsOfTheTable(t *testing.T) {
	s := output(t, 1, nil)
	mean, err := json.Marshal(statistics().Mean)
	must(t, err)
	std, err := json.Marshal(statistics().Std)
	must(t, err)
	about = map[string]string{"latentbeam.latent_space": "model", "latentbeam.latents_mean": string(mean),
		"latentbeam.latents_std": string(std)}
	defer func() { about = nil }()
	told := output(t, 1, nil)
	about = nil
	var files [2][]byte
	for i, c := range []struct {
		from store.Store
		vae  *Statistics
	}{{s, statistics()}, {told, nil}} {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := Run(t.Context(), c.from, dir, Options{To: "fastvideo", VAE: c.vae})
		must(t, err)
		files[i], err = os.ReadFile(dir + "/32x24x5/data_chunk_0.parquet")
		must(t, err)
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("the statistics of the table make another file than those of config.json")
	}
}

// TestRawTable: from a table of raw latents, FastVideo gets the same bits, and musubi-tuner gets the latents that encode_vae would
// compute from them.
func TestRawTable(t *testing.T) {
	raw := func(_ int, r *schemas.LatentRow) { r.LatentSpace = "raw" }
	dir := t.TempDir()
	_, err := Run(t.Context(), output(t, 2, raw), dir+"/fastvideo", Options{To: "fastvideo"})
	must(t, err)
	i := 0
	for r, err := range typed.Read[fastVideoRow](dir+"/fastvideo/32x24x5/data_chunk_0.parquet", true) {
		must(t, err)
		for k, v := range kernels.F32.Values(r.VAELatentBytes) {
			if v != float32(i)+float32(k)/37 {
				t.Fatalf("row %d, value %d: %g", i, k, v)
			}
		}
		i++
	}
	_, err = Run(t.Context(), output(t, 1, raw), dir+"/musubi", Options{To: "musubi", VAE: statistics()})
	must(t, err)
	z := onlyTensor(t, dir+"/musubi/32x24x5/clip-0_00000-005_0032x0024_wan.safetensors")
	for k := range 16 * 2 * 3 * 4 {
		c := k / 24
		want := kernels.ToBF16((float32(k)/37 - float32(float64(c)/10)) / float32(1+float64(c)/8))
		if got := binary.LittleEndian.Uint16(z.Data[2*k:]); got != want {
			t.Fatalf("value %d: %x, want %x", k, got, want)
		}
	}
	flux := &Statistics{Mean: make([]float64, 16), Std: slices.Repeat([]float64{1 / 0.3611}, 16)}
	for want, vae := range map[string]*Statistics{"one factor": flux, "--vae MODEL/vae/config.json": nil} {
		if _, err := Run(t.Context(), output(t, 1, raw), dir+"/refused", Options{To: "musubi", VAE: vae}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// TestCount: if a table has fewer rows than the summary says, the export fails.
func TestCount(t *testing.T) {
	s := output(t, 2, nil)
	must(t, s.Replace(t.Context(), "summary.json", func(w io.Writer) error {
		return json.NewEncoder(w).Encode(report.Summary{State: report.Complete, Totals: report.Totals{Done: 3}})
	}))
	if _, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "out"), Options{To: "safetensors"}); err == nil ||
		!strings.Contains(err.Error(), "2 rows were written and the job has done 3") {
		t.Error(err)
	}
}

// textOutput returns an output with only embeddings.
func textOutput(t *testing.T, rows ...schemas.EmbeddingRow) store.Store {
	t.Helper()
	s, err := storetest.NewMemory().Open(t.Context(), "")
	must(t, err)
	for i := range rows {
		rows[i].TextEmbeddingBytes, rows[i].TextEmbeddingShape = kernels.F32.Bytes([]float32{float32(i), 7}), []int64{1, 2}
		rows[i].TextEmbeddingDType = "float32"
	}
	must(t, s.Replace(t.Context(), "tables/embeddings/00000.parquet", func(w io.Writer) error {
		_, err := write.Write(w, tabletest.Seq(rows), write.Options{})
		return err
	}))
	return s
}

// TestTextsOfAnotherJob: texts of another output replace those in the table. A clip gets the captions of its
// source, one sample for each, and a clip without a caption gets the text without words.
func TestTextsOfAnotherJob(t *testing.T) {
	ids := []string{"a#w000", "a#w001#flip", "a#w000#null", "b"}
	from := output(t, len(ids), func(i int, r *schemas.LatentRow) { r.ID = ids[i] })
	text := textOutput(t, schemas.EmbeddingRow{ID: "a", Caption: "one"}, schemas.EmbeddingRow{ID: "a", Caption: "two"},
		schemas.EmbeddingRow{ID: "b", Caption: "three"}, schemas.EmbeddingRow{ID: "nothing"})
	dir := filepath.Join(t.TempDir(), "out")
	done, err := Run(t.Context(), from, dir, Options{To: "fastvideo", VAE: statistics(), Text: text})
	must(t, err)
	var got []string
	for r, err := range typed.Read[fastVideoRow](dir+"/32x24x5/data_chunk_0.parquet", true) {
		must(t, err)
		text, err := schemas.UnpackFloats(r.TextEmbeddingBytes, []int{1, 2})
		must(t, err)
		got = append(got, fmt.Sprintf("%s %s %g", r.ID, r.Caption, text[0]))
	}
	want := []string{"a#w000#c0 one 0", "a#w000#c1 two 1", "a#w001#flip#c0 one 0", "a#w001#flip#c1 two 1", "a#w000#null  3", "b three 2"}
	if !slices.Equal(got, want) || done.Rows != 6 {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Run(t.Context(), from, dir+"2", Options{To: "fastvideo", VAE: statistics(), Text: textOutput(t,
		schemas.EmbeddingRow{ID: "b"})}); err == nil || !strings.Contains(err.Error(), "no text embedding") {
		t.Error(err)
	}
}

// TestWhere: only chosen rows are written, and the number of all rows is still compared with the summary.
func TestWhere(t *testing.T) {
	s := output(t, 4, func(i int, r *schemas.LatentRow) { r.Width = int64(16 + 16*(i%2)) })
	f, err := where.Parse("width > 20")
	must(t, err)
	done, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "out"), Options{To: "safetensors", Where: f})
	if err != nil || done.Rows != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	none, err := where.Parse("none > 20")
	must(t, err)
	if _, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "out"), Options{To: "safetensors", Where: none}); err == nil || !strings.Contains(err.Error(), "no column none") {
		t.Errorf("a column that does not exist: %v", err)
	}
}
