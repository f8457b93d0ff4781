package media

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"latentbeam/internal/media/mp4"
	"latentbeam/schemas"
)

// Describe writes a title and a comment into a video or still image, where players and file managers look for them: the item
// list of an mp4 (©nam, ©cmt), iTXt chunks of a png. Equal texts give equal bytes.
func Describe(e *schemas.Encoded, title, comment string) (err error) {
	defer func() {
		if recover() != nil { // the mp4 reader does not check boxes, and a user's program may have made them
			err = errors.New("write metadata: the file is damaged")
		}
	}()
	switch e.Ext {
	case ".mp4":
		e.Data, err = mp4.Describe(e.Data, title, comment)
	case ".png":
		e.Data, err = describePNG(e.Data, title, comment)
	default:
		err = fmt.Errorf("files of type %s cannot have metadata", e.Ext)
	}
	if err != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}

// pngHeader is the length of the signature and IHDR. Text chunks may follow.
const pngHeader = 8 + 25

func describePNG(data []byte, title, comment string) ([]byte, error) {
	if len(data) < pngHeader {
		return nil, fmt.Errorf("a file of %d bytes is not a png", len(data))
	}
	out := append(make([]byte, 0, len(data)+len(title)+len(comment)+64), data[:pngHeader]...)
	out = append(out, textChunk("Title", title)...)
	out = append(out, textChunk("Comment", comment)...)
	return append(out, data[pngHeader:]...), nil
}

// textChunk returns an iTXt chunk: UTF-8, uncompressed, without a language.
func textChunk(keyword, text string) []byte {
	body := append([]byte("iTXt"+keyword), 0, 0, 0, 0, 0)
	body = append(body, text...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	return binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE(body))
}
