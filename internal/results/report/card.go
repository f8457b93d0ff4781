package report

import (
	"bytes"
	"context"
	_ "embed" // the card
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/template"

	"latentbeam/internal/storage/store"
	"latentbeam/stages"
)

// cardFile is what loaders of datasets read first: it names the tables.
const cardFile = "README.md"

// cardMark is in every card of this program. A README.md without it is somebody's own and stays.
const cardMark = "# Written by latentbeam. Remove this line, and runs leave this file as it is."

//go:embed card.md
var cardText string

var cardPage = template.Must(template.New("card").Parse(cardText))

// cardFacts is what the card says of a job.
type cardFacts struct {
	Mark, Title, Model         string
	Video, Latents, Embeddings bool
}

// card writes the dataset card. A report of one shard has none, for loaders would take it for all.
func (j *Job) card(ctx context.Context) error {
	there, err := store.ReadFile(ctx, j.Output.Store, cardFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", cardFile, err)
	}
	if err == nil && !bytes.Contains(there, []byte(cardMark)) {
		return nil
	}
	if j.Part != "" {
		if err == nil {
			return j.Tensors.Remove(ctx, cardFile)
		}
		return nil
	}
	var text bytes.Buffer
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	err = cardPage.Execute(&text, cardFacts{Mark: cardMark, Title: oneLine(j.Title), Model: oneLine(j.Model),
		Video: j.Keep[stages.KindVideo], Latents: j.Keep[stages.KindLatents], Embeddings: j.Keep[stages.KindText]})
	if err != nil {
		return err
	}
	if bytes.Equal(text.Bytes(), there) {
		j.Output.Witness.Retain(cardFile)
		return nil
	}
	return j.Output.Replace(ctx, cardFile, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}
