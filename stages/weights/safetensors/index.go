package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// maxIndex limits the size of an index; T5-xxl's has 20 kB.
	maxIndex = 64 << 20
	// maxShards limits the number of files of one checkpoint.
	maxShards = 4096
	// weightMap is the key of an index that maps tensors to files.
	weightMap = "weight_map"
)

// IndexSuffix is the suffix of an index. The part before it is the name of the equivalent single file.
const IndexSuffix = ".index.json"

// indexName matches the end of an index's name. diffusers inserts the name of a variant, as in .index.fp16.json.
var indexName = regexp.MustCompile(`\.index(\.[A-Za-z0-9_-]+)?\.json$`)

// IsIndex reports whether a file of this name is an index.
func IsIndex(name string) bool { return indexName.MatchString(name) }

// CutIndex returns the name of the single file for the name of an index. Other names are returned unchanged.
func CutIndex(name string) string { return indexName.ReplaceAllString(name, "") }

// ParseIndex parses an index in the format of transformers and diffusers, {"metadata": ..., "weight_map": {tensor: file}}, and
// returns the file of each tensor. Every file must be a plain name beside the index.
func ParseIndex(data []byte) (map[string]string, error) {
	if len(data) > maxIndex {
		return nil, fmt.Errorf("an index of %d bytes is over the limit of %d", len(data), maxIndex)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := want(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	var files map[string]string
	for dec.More() {
		key, err := dec.Token()
		switch {
		case err != nil:
			return nil, err
		case key == weightMap && files != nil:
			return nil, fmt.Errorf("%s appears twice", weightMap)
		case key == weightMap:
			files, err = readMap(dec)
		default:
			err = skip(dec)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shorten(fmt.Sprint(key)), err)
		}
	}
	if err := want(dec, json.Delim('}')); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the closing }")
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no %s, or an empty one", weightMap)
	}
	return files, nil
}

// want reads one token, which must equal token.
func want(dec *json.Decoder, token json.Token) error {
	got, err := dec.Token()
	if err == nil && got != token {
		err = fmt.Errorf("want %v, not %s", token, shorten(fmt.Sprint(got)))
	}
	return err
}

// readMap reads an object of tensors and files. A tensor that occurs twice is in two shards, which encoding/json would hide.
func readMap(dec *json.Decoder) (map[string]string, error) {
	if err := want(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	files := map[string]string{}
	shards := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder returns only strings as keys
		value, err := dec.Token()
		if err != nil {
			return nil, err
		}
		file, ok := value.(string)
		first, twice := files[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("tensor %q: want the name of a file", shorten(name))
		case twice:
			return nil, fmt.Errorf("tensor %q is in two shards, %s and %s",
				shorten(name), shorten(first), shorten(file))
		case !plain(file):
			return nil, fmt.Errorf("tensor %q: file %q is not a plain name: shards lie beside their index",
				shorten(name), shorten(file))
		}
		files[name] = file
		if shards[file] = true; len(shards) > maxShards {
			return nil, fmt.Errorf("more than %d shards", maxShards)
		}
	}
	return files, want(dec, json.Delim('}'))
}

// plain reports whether name is the name of a file in the same directory, on any system.
func plain(name string) bool {
	return name != "" && name != "." && filepath.IsLocal(name) && !strings.ContainsAny(name, "/\\:\x00")
}

// skip reads one value of any type.
func skip(dec *json.Decoder) error {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
