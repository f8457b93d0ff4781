package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/results/report"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// out is the directory of an export.
type out struct {
	dir   string        // directory while it is written, DIR.partial
	final string        // directory when it is complete
	vae   *Statistics   // statistics of --vae; nil: not given
	done  Done          // counts so far
	fix   string        // how to give texts to rows without one
	buf   *bufio.Writer // buffer of the current file
}

// file writes one file of the directory.
func (o *out) file(name string, write func(io.Writer) error) (err error) {
	path := filepath.Join(o.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if o.buf == nil {
		o.buf = bufio.NewWriterSize(nil, 1<<20)
	}
	o.buf.Reset(f)
	err = write(o.buf)
	if err == nil {
		err = o.buf.Flush()
	}
	if n, seekErr := f.Seek(0, io.SeekCurrent); seekErr == nil {
		o.done.Files++
		o.done.Bytes += n
	}
	return errors.Join(err, f.Close())
}

// Statistics convert latents of the autoencoder to latents of the denoiser: model = (raw - mean) / std, by channel.
type Statistics struct {
	Mean []float64 `json:"latents_mean"`
	Std  []float64 `json:"latents_std"`
}

// ReadStatistics reads the config.json of an autoencoder.
func ReadStatistics(path string) (*Statistics, error) {
	data, err := os.ReadFile(path)
	var s Statistics
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && (len(s.Mean) == 0 || len(s.Mean) != len(s.Std)) {
		err = errors.New("it has no latents_mean and latents_std")
	}
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("read the autoencoder's configuration %s: %w", path, err))
	}
	return &s, nil
}

// statisticsOf reads the statistics of the autoencoder from the metadata of a table; nil: it has none.
func statisticsOf(path string, metadata map[string]string) (*Statistics, error) {
	if metadata["latentbeam."+report.LatentsMean] == "" {
		return nil, nil
	}
	var s Statistics
	for key, to := range map[string]*[]float64{report.LatentsMean: &s.Mean, report.LatentsStd: &s.Std} {
		if err := json.Unmarshal([]byte(metadata["latentbeam."+key]), to); err != nil {
			return nil, fmt.Errorf("%s: metadata latentbeam.%s: %w", path, key, err)
		}
	}
	if len(s.Mean) != len(s.Std) {
		return nil, fmt.Errorf("%s: metadata has %d means and %d standard deviations of latents", path, len(s.Mean), len(s.Std))
	}
	return &s, nil
}

// statistics returns the statistics for a latent: from --vae if given, else from the table; nil: there are none.
func (o *out) statistics(s *sample) (*Statistics, error) {
	v, channels := cmp.Or(o.vae, s.vae), int(s.row.VAELatentShape[0])
	if v != nil && len(v.Mean) != channels {
		return nil, fault.Usage(fmt.Errorf("export %s: the latent has %d channels and the autoencoder's configuration %d",
			s.src, channels, len(v.Mean)))
	}
	return v, nil
}

// raw returns the latent in the space of the autoencoder, float32 (C, T, H, W).
func (o *out) raw(s *sample) ([]byte, error) {
	if s.row.LatentSpace == stages.RawSpace {
		return s.row.VAELatentBytes, nil
	}
	v, err := o.statistics(s)
	scale := s.row.LatentScale
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return s.eachValue(func(x float32, ch int) float32 { return float32(float64(float64(x)*v.Std[ch]) + v.Mean[ch]) }), nil
	case scale != 0 && scale != 1: // tables of earlier releases
		return s.eachValue(func(x float32, _ int) float32 { return float32(float64(x) / scale) }), nil
	}
	return nil, fault.Usage(fmt.Errorf("export %s: the table has the latents of denoisers, and the trainer wants those of the "+
		"autoencoder: give --vae MODEL/vae/config.json, which has latents_mean and latents_std", s.src))
}

// model returns the latent in the space of the denoiser, float32 (C, T, H, W). It uses the same operations as encode_vae.
func (o *out) model(s *sample) ([]byte, error) {
	if s.row.LatentSpace != stages.RawSpace {
		return s.row.VAELatentBytes, nil
	}
	v, err := o.statistics(s)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return s.eachValue(func(x float32, ch int) float32 { return (x - float32(v.Mean[ch])) / float32(v.Std[ch]) }), nil
	}
	return nil, fault.Usage(fmt.Errorf("export %s: the table has raw latents, and the trainer wants those of denoisers: give --vae "+
		"MODEL/vae/config.json, which has latents_mean and latents_std", s.src))
}

// eachValue returns the latent after change was applied to each value x of channel ch.
func (s *sample) eachValue(change func(x float32, ch int) float32) []byte {
	values := kernels.F32.Values(s.row.VAELatentBytes)
	per := len(values) / int(s.row.VAELatentShape[0])
	for i, x := range values {
		values[i] = change(x, i/per)
	}
	return kernels.F32.Bytes(values)
}

// bf16 rounds float32 values to bfloat16.
func bf16(data []byte) []byte { return kernels.BF16.Bytes(kernels.F32.Values(data)) }

// needText returns an error for a row without a text, because a trainer would train on zeros.
func (o *out) needText(s *sample) error {
	if s.text != nil {
		return nil
	}
	return fault.Usage(fmt.Errorf("export %s: it has no text embedding, and the trainer would train on zeros: %s", s.src, o.fix))
}

// textFix returns advice how the rows of a job get texts. given says that --text is given.
func textFix(summary report.Summary, given bool) string {
	const other = "or name the output of a text job by --text"
	var job struct {
		Stages []map[string]json.RawMessage
		Output struct{ Write []string }
	}
	if given {
		return "the output of --text has no embedding of this id; its job needs a row for it"
	}
	if json.Unmarshal(summary.Config, &job) != nil {
		return "add encode_text to the stages, " + other
	}
	encodes := slices.ContainsFunc(job.Stages, func(s map[string]json.RawMessage) bool { return s["encode_text"] != nil })
	switch {
	case encodes && !slices.Contains(job.Output.Write, "embeddings"):
		return fmt.Sprintf("its job has encode_text, and writes [%s] alone: run it again with output: {write: [%s]}, %s",
			strings.Join(job.Output.Write, ", "), strings.Join(append(job.Output.Write, "embeddings"), ", "), other)
	case !slices.Contains(job.Output.Write, "embeddings"):
		return "add encode_text to the stages and embeddings to output.write, " + other
	}
	return "add encode_text to the stages, " + other
}

// shortStem returns the stem, shortened if a file name with it would be too long for file systems.
func (s *sample) shortStem() string { return config.ShortName(s.stem(), s.stem()) }

// stem returns the file name for the row's id, without an extension.
func (s *sample) stem() string {
	name := config.IDStem(s.row.ID)
	if s.row.SampleIndex > 0 {
		name = fmt.Sprintf("%s-%d", name, s.row.SampleIndex)
	}
	return name
}
