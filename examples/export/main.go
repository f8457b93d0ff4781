// Command npyexport is latentbeam with one format of `export` more: a file of NumPy for each row, and a table of all. Copy this directory
// to begin a program of your own.
package main

import (
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"latentbeam"
	"latentbeam/schemas"
)

func main() {
	os.Exit(latentbeam.Run(latentbeam.Extra{Exports: []schemas.ExportFormat{{Name: "npy", Space: "raw", Open: open}}}))
}

// npy writes latents as the autoencoder has them: NAME.npy (C, T, H, W) for each row, and index.csv.
type npy struct {
	dir   string
	file  *os.File
	index *csv.Writer
	rows  int
}

func open(dir string) (schemas.ExportWriter, error) {
	file, err := os.Create(filepath.Join(dir, "index.csv"))
	if err != nil {
		return nil, err
	}
	w := &npy{dir: dir, file: file, index: csv.NewWriter(file)}
	return w, w.index.Write([]string{"file", "id", "caption", "key"})
}

// Add writes a row. Rows are numbered, because two of them may have one name.
func (w *npy) Add(s schemas.ExportSample) error {
	name := fmt.Sprintf("%06d-%s.npy", w.rows, s.Name)
	w.rows++
	data, err := binary.Append(header(s.Row.VAELatentShape), binary.LittleEndian, s.Latents)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.dir, name), data, 0o644); err != nil {
		return err
	}
	return w.index.Write([]string{name, s.Row.ID, s.Row.Caption, s.Row.Key})
}

// Close ends the table.
func (w *npy) Close() error {
	w.index.Flush()
	return errors.Join(w.index.Error(), w.file.Close())
}

// header is the head of a file of NumPy (format 1.0) of float32 numbers, padded to 64 bytes.
func header(shape []int64) []byte {
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]"))
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n"
	return append([]byte{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, byte(len(text)), byte(len(text) >> 8)}, text...)
}
