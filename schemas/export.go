package schemas

// ExportFormat is a format of `latentbeam export` that a program of yours adds (latentbeam.Extra, examples/export).
type ExportFormat struct {
	Name string // of --to
	// Space is that of the latents which the format wants: "raw", as the autoencoder has them, "model", as denoisers take them, or "",
	// as the table has them.
	Space string
	// Open begins an export in a directory that is there and empty. The directory is removed where the export fails, and has its name
	// when it is whole.
	Open func(dir string) (ExportWriter, error)
}

// ExportWriter writes the rows of an export, one after the other. Its errors end the export with exit code 2.
type ExportWriter interface {
	Add(ExportSample) error
	// Close is called once, after the last row and after an error of Add.
	Close() error
}

// ExportSample is a row of an output on its way to a trainer.
type ExportSample struct {
	Name string    // for files: the row's id as one name; two rows may have one
	Row  LatentRow // without its bytes, see Latents and Text
	// Latents are (C, T, H, W) of Row.VAELatentShape in the space of the format.
	Latents []float32
	// Text is the embedding of the caption, (L, D) of TextShape without padding; nil: the row has none.
	Text      []float32
	TextShape []int64
	// Mean and Std are those of each channel: model = (raw - mean) / std; nil: they are not known.
	Mean, Std []float64
}
