package media

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/Eyevinn/mp4ff/mp4"

	"latentbeam/schemas"
)

// Describe puts a title and a comment into a video or still, where players and file managers look for them: the item
// list of an mp4 (©nam, ©cmt), iTXt chunks of a png. Equal texts give equal bytes.
func Describe(e *schemas.Encoded, title, comment string) (err error) {
	defer func() {
		if recover() != nil { // the reader of mp4 trusts what boxes say; a program may have made them
			err = errors.New("write metadata: the file is damaged")
		}
	}()
	switch e.Ext {
	case ".mp4":
		e.Data, err = describeMP4(e.Data, title, comment)
	case ".png":
		e.Data, err = describePNG(e.Data, title, comment)
	default:
		err = fmt.Errorf("a file of type %s takes no metadata", e.Ext)
	}
	if err != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}

// describeMP4 adds the texts to moov and moves the offsets of all samples behind it.
func describeMP4(data []byte, title, comment string) ([]byte, error) {
	f, err := mp4.DecodeFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if f.Moov == nil || f.Mdat == nil || f.Moov.StartPos > f.Mdat.StartPos {
		return nil, fmt.Errorf("the file has no moov before its mdat")
	}
	payload := itemList(title, comment)
	udta := mp4.CreateUnknownBox("udta", uint64(8+len(payload)), payload)
	f.Moov.AddChild(udta)
	for _, trak := range f.Moov.Traks {
		stbl := trak.Mdia.Minf.Stbl
		if stbl.Stco == nil {
			return nil, fmt.Errorf("track %d has no stco", trak.Tkhd.TrackID)
		}
		for i := range stbl.Stco.ChunkOffset {
			stbl.Stco.ChunkOffset[i] += uint32(udta.Size())
		}
	}
	var out bytes.Buffer
	out.Grow(len(data) + int(udta.Size()))
	if err := f.Encode(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// itemList is the content of udta: meta, hdlr and ilst, as the QuickTime file format and iTunes have them.
func itemList(title, comment string) []byte {
	handler := append(make([]byte, 8), "mdirappl"...)
	handler = append(handler, make([]byte, 9)...) // flags, reserved, an empty name
	var items []byte
	for _, item := range []struct{ kind, text string }{{"\xa9nam", title}, {"\xa9cmt", comment}} {
		value := append([]byte{0, 0, 0, 1, 0, 0, 0, 0}, item.text...) // UTF-8, no locale
		items = append(items, box(item.kind, box("data", value))...)
	}
	meta := append(make([]byte, 4), box("hdlr", handler)...)
	return box("meta", append(meta, box("ilst", items)...))
}

// box is a box of ISO/IEC 14496-12.
func box(kind string, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(payload)))
	return append(append(b, kind...), payload...)
}

// pngHeader is the length of the signature and of IHDR, behind which texts may stand.
const pngHeader = 8 + 25

func describePNG(data []byte, title, comment string) ([]byte, error) {
	if len(data) < pngHeader {
		return nil, fmt.Errorf("%d bytes are no png", len(data))
	}
	out := append(make([]byte, 0, len(data)+len(title)+len(comment)+64), data[:pngHeader]...)
	out = append(out, textChunk("Title", title)...)
	out = append(out, textChunk("Comment", comment)...)
	return append(out, data[pngHeader:]...), nil
}

// textChunk is an iTXt chunk: UTF-8, not compressed, of no language.
func textChunk(keyword, text string) []byte {
	body := append([]byte("iTXt"+keyword), 0, 0, 0, 0, 0)
	body = append(body, text...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	return binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE(body))
}
