package export

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Add registers formats of another program. Call it before Run.
func Add(more []schemas.ExportFormat) error {
	for _, f := range more {
		_, known := formats[f.Name]
		switch {
		case f.Name == "" || strings.TrimSpace(f.Name) != f.Name || f.Open == nil:
			return fmt.Errorf("export format %q: it needs a name without blanks around it, and Open", f.Name)
		case known:
			return fmt.Errorf("export format %q is there already", f.Name)
		case f.Space != "" && f.Space != stages.RawSpace && f.Space != stages.ModelSpace:
			return fmt.Errorf("export format %q: Space is %q: give %q, %q or \"\"", f.Name, f.Space, stages.RawSpace, stages.ModelSpace)
		}
		formats[f.Name] = format{space: f.Space, dtype: stages.Float32, open: func(o *out) writer { return &outside{out: o, format: f} }}
	}
	return nil
}

// outside writes an export with a writer of another program.
type outside struct {
	*out
	format schemas.ExportFormat
	writer schemas.ExportWriter
}

func (w *outside) add(s *sample) (err error) {
	if w.writer == nil {
		if w.writer, err = w.format.Open(w.dir); err != nil {
			return fault.Usage(fmt.Errorf("export --to %s: %w", w.format.Name, err))
		}
	}
	latents := s.row.VAELatentBytes
	switch w.format.Space {
	case stages.RawSpace:
		latents, err = w.raw(s)
	case stages.ModelSpace:
		latents, err = w.model(s)
	}
	if err != nil {
		return err
	}
	statistics, err := w.statistics(s)
	if err != nil {
		return err
	}
	one := schemas.ExportSample{Name: s.shortStem(), Row: s.row, Latents: kernels.F32.Values(latents), TextShape: s.len}
	one.Row.VAELatentBytes, one.Row.TextEmbeddingBytes = nil, nil
	if s.text != nil {
		one.Text = kernels.F32.Values(s.text)
	}
	if statistics != nil {
		one.Mean, one.Std = statistics.Mean, statistics.Std
	}
	if err := w.writer.Add(one); err != nil {
		return fault.Usage(fmt.Errorf("export %s: %w", s.src, err))
	}
	return nil
}

// close closes the writer and counts its files.
func (w *outside) close() error {
	if w.writer == nil {
		return nil
	}
	if err := w.writer.Close(); err != nil {
		return fault.Usage(fmt.Errorf("export --to %s: %w", w.format.Name, err))
	}
	return filepath.WalkDir(w.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			w.done.Files++
			w.done.Bytes += info.Size()
		}
		return err
	})
}
