package schemas

// ExportFormat is a format of `latentbeam export` that a user's program adds (latentbeam.Extra, examples/export).
type ExportFormat struct {
	Name string // the value of --to
	// Space is the space of the latents that the format wants: "raw" for the autoencoder's space, "model" for the denoiser's,
	// or "" for the space that the table has.
	Space string
	// Open starts an export in dir, an existing empty directory. If the export fails, dir is removed; if it succeeds, dir gets
	// its final name.
	Open func(dir string) (ExportWriter, error)
}

// ExportWriter writes the rows of an export, one after another. An error stops the export with exit code 2.
type ExportWriter interface {
	Add(ExportSample) error
	// Close is called once, after the last row and after an error of Add.
	Close() error
}

// ExportSample is a row of an output on its way to a trainer.
type ExportSample struct {
	Name string    // the row's id as a file name; two rows may have the same Name
	Row  LatentRow // without its tensors, see Latents and Text
	// Latents have the shape Row.VAELatentShape (C, T, H, W) and are in the space of the format.
	Latents []float32
	// Text is the embedding of the caption with the shape TextShape (L, D), without padding; nil if the row has none.
	Text      []float32
	TextShape []int64
	// Mean and Std have one value for each channel: model = (raw - mean) / std. They are nil if they are not known.
	Mean, Std []float64
}
