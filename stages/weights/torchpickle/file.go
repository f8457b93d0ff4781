package torchpickle

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Is reports whether content starts like a PyTorch checkpoint in any format, or like another pickle.
func Is(content []byte) bool {
	return isZip(content) || isLegacy(content) || isTar(content) || isPickle(content)
}

// isPickle recognises a pickle of protocol 2 or later. A safetensors file can start with the same byte, as part of its header's
// length, but the upper half of that length is 0.
func isPickle(content []byte) bool {
	return len(content) > 8 && content[0] == 0x80 && content[1] <= maxProtocol &&
		!bytes.Equal(content[4:8], make([]byte, 4))
}

func isZip(content []byte) bool { return bytes.HasPrefix(content, []byte(localMark)) }

// isTar recognises the format of torch before 0.1.10, by tar's magic after the first name.
func isTar(content []byte) bool {
	const at = 257
	return len(content) > at && bytes.HasPrefix(content[at:], []byte("ustar"))
}

// New returns the state dict in content, a PyTorch checkpoint. key names the entry with the state dict if the file has several;
// "" searches for it. Tensors point into content.
func New(content []byte, key string) (*StateDict, error) {
	var root any
	var err error
	switch {
	case isZip(content):
		root, err = readArchive(content)
	case isLegacy(content):
		root, err = readLegacy(content)
	case isTar(content):
		err = errors.New("a tar archive of torch before 0.1.10 is not read; load it and save it with a newer torch")
	case isPickle(content):
		err = errors.New("a pickle that torch.save did not write; only checkpoints of torch.save are read")
	default:
		err = errors.New("this is not a PyTorch checkpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("torch checkpoint: %w", err)
	}
	d, err := pick(root, key)
	if err != nil {
		return nil, fmt.Errorf("torch checkpoint: %w", err)
	}
	return d, nil
}

// readArchive reads the zip format: NAME/data.pkl, and the storages in NAME/data/KEY.
func readArchive(content []byte) (any, error) {
	files, err := readZip(content)
	if err != nil {
		return nil, err
	}
	const pickle = "/data.pkl"
	prefix := ""
	for name := range files {
		if dir, ok := strings.CutSuffix(name, pickle); ok && !strings.Contains(dir, "/") {
			if prefix != "" {
				return nil, errors.New("two data.pkl in one archive")
			}
			prefix = dir
		}
	}
	switch order, said := files[prefix+"/byteorder"]; {
	case prefix == "":
		return nil, errors.New("a zip archive without data.pkl, so not one of torch.save")
	case files[prefix+"/constants.pkl"] != nil:
		return nil, errors.New("a TorchScript archive, which holds a program; save the state dict instead: " +
			"torch.save(torch.jit.load(file).state_dict(), file)")
	case said && string(order) != "little":
		return nil, fmt.Errorf("byte order %q, only little is read", shorten(string(order)))
	}
	in := files[prefix+pickle]
	known := map[string]*storage{}
	root, n, err := load(in, func(id tuple) (any, error) {
		s, err := refer(id, known)
		if err != nil || s.data != nil {
			return s, err
		}
		data, ok := files[prefix+"/data/"+s.key]
		if !ok {
			return nil, fmt.Errorf("storage %q is not in the archive", shorten(s.key))
		}
		if uint64(len(data)) != s.bytes() {
			return nil, fmt.Errorf("storage %q has %d bytes, the pickle says %d", shorten(s.key), len(data), s.bytes())
		}
		s.data = slices.Clip(data)
		return s, nil
	})
	if err == nil && n != len(in) {
		err = fmt.Errorf("%d bytes follow the pickle", len(in)-n)
	}
	return root, err
}

// refer returns the storage that a pickle references by ("storage", class, key, device, elements). The same key returns the
// same storage.
func refer(id tuple, known map[string]*storage) (*storage, error) {
	if len(id) < 5 || id[0] != any("storage") {
		return nil, errors.New("the pickle refers to something that is not a storage")
	}
	if len(id) > 5 && id[5] != nil {
		return nil, errors.New("a view of a storage, as torch before 0.4 wrote it; save the checkpoint again")
	}
	c, err := convertTo[class](id[1], "a class of storages")
	if err != nil {
		return nil, err
	}
	key, err := convertTo[string](id[2], "the name of a storage")
	if err != nil {
		return nil, err
	}
	n, err := convertTo[int64](id[4], "the length of a storage")
	if err != nil {
		return nil, err
	}
	if c.call != nil || n < 0 || n > 1<<56 {
		return nil, fmt.Errorf("storage %q: %s of %d elements", shorten(key), c.name, n)
	}
	s, ok := known[key]
	switch {
	case !ok:
		s = &storage{key: key, dtype: c.dtype, count: uint64(n)}
		known[key] = s
	case s.dtype != c.dtype || s.count != uint64(n):
		return nil, fmt.Errorf("storage %q has two different descriptions", shorten(key))
	}
	return s, nil
}
