package export

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shardBytes limits the size of a shard.
const shardBytes = 1 << 30

// webDataset writes tar shards. Each row has a .json and a .latent.npy, and a .text.npy if it has a text.
type webDataset struct {
	*out
	shard, size int
	rows        int64
	file        *os.File
	tar         *tar.Writer
}

func (w *webDataset) add(s *sample) (err error) {
	if w.tar == nil {
		if w.file, err = os.Create(filepath.Join(w.dir, fmt.Sprintf("%06d.tar", w.shard))); err != nil {
			return err
		}
		w.tar = tar.NewWriter(w.file)
	}
	js, err := json.Marshal(facts(s))
	key := fmt.Sprintf("%09d", w.rows)
	w.rows++
	put := func(end string, parts ...[]byte) {
		size := 0
		for _, p := range parts {
			size += len(p)
		}
		if err == nil {
			err = w.tar.WriteHeader(&tar.Header{Name: key + end, Mode: 0o644, Size: int64(size), Format: tar.FormatUSTAR})
		}
		for _, p := range parts {
			if err == nil {
				_, err = w.tar.Write(p)
			}
		}
		w.size += size
	}
	put(".json", js)
	put(".latent.npy", npy(s.row.VAELatentShape), s.row.VAELatentBytes)
	if s.text != nil {
		put(".text.npy", npy(s.len), s.text)
	}
	if err == nil && w.size >= shardBytes {
		err = w.close()
	}
	return err
}

// close closes the shard. The next row creates another.
func (w *webDataset) close() error {
	if w.tar == nil {
		return nil
	}
	err := w.tar.Close()
	if info, statErr := w.file.Stat(); statErr == nil {
		w.done.Files++
		w.done.Bytes += info.Size()
	}
	err = errors.Join(err, w.file.Close())
	w.shard, w.size, w.tar, w.file = w.shard+1, 0, nil, nil
	return err
}

// npy returns the head of a NumPy file (format 1.0) with float32 values of the shape, in row-major order.
func npy(shape []int64) []byte {
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d,", d)
	}
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", dims.String())
	const before = 10 // magic, version, length
	text += strings.Repeat(" ", 63-(before+len(text))%64) + "\n"
	return append([]byte{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, byte(len(text)), byte(len(text) >> 8)}, text...)
}
