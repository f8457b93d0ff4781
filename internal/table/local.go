package table

import "os"

// localFile is a file of the user's, as a store.Reader.
type localFile struct {
	*os.File
	size int64
}

// Size implements store.Reader.
func (f localFile) Size() int64 { return f.size }

func openLocal(path string) (*localFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &localFile{file, info.Size()}, nil
}
