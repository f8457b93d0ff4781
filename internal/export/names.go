package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"latentbeam/schemas/fault"
)

// digestBytes is the length of the digests of a nameTable. Two names with one digest are not to be expected.
const digestBytes = 16

type digest [digestBytes]byte

// digestOf is that of a text.
func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:])
}

// nameDigest is that of a name. Many file systems know no case.
func nameDigest(name string) digest { return digestOf(strings.ToLower(name)) }

// slotBytes is a name and what is noted of it.
const slotBytes = 2 * digestBytes

// slotsRead is how many slots are read at once.
const slotsRead = 16

// nameTable is the names of files that are taken, with a note on each. There may be millions, so they are a hash table in a
// file: memory does not grow. The table has free slots, which are zeros, and slotsRead more behind the last.
type nameTable struct {
	out   *out
	file  *os.File
	slots int64 // a power of two
	used  int64
}

// claim refuses a second row with files of one name.
func (n *nameTable) claim(name string, s *sample) error {
	_, twice, err := n.note(nameDigest(name), digest{1})
	if twice && err == nil {
		err = fault.Usage(fmt.Errorf("export %s: another row has files of the same name, %s; give them other ids", s.src, name))
	}
	return err
}

// note notes something of a name, or returns what was noted before.
func (n *nameTable) note(name, note digest) (was digest, there bool, err error) {
	if 2*n.used >= n.slots {
		if err := n.grow(); err != nil {
			return was, false, fmt.Errorf("the list of names: %w", err)
		}
	}
	was, there, err = n.put(name, note)
	if err != nil {
		return was, there, fmt.Errorf("the list of names: %w", err)
	}
	if !there {
		n.used++
	}
	return was, there, nil
}

// put looks for a name from its slot on and puts it into the first that is free.
func (n *nameTable) put(name, note digest) (was digest, there bool, err error) {
	var free digest
	var some [slotsRead * slotBytes]byte
	for slot := int64(binary.LittleEndian.Uint64(name[:])>>1) & (n.slots - 1); ; slot += slotsRead {
		if slot >= n.slots {
			slot = 0
		}
		if _, err := n.file.ReadAt(some[:], slot*slotBytes); err != nil {
			return was, false, err
		}
		for i := range int64(slotsRead) {
			at := some[i*slotBytes:][:slotBytes]
			switch {
			case bytes.Equal(at[:digestBytes], name[:]):
				return digest(at[digestBytes:]), true, nil
			case bytes.Equal(at[:digestBytes], free[:]):
				_, err := n.file.WriteAt(append(name[:], note[:]...), (slot+i)*slotBytes)
				return was, false, err
			}
		}
	}
}

// grow begins a table of twice the size and brings all names there.
func (n *nameTable) grow() error {
	old := *n
	f, err := os.CreateTemp(n.out.dir, ".names-")
	if err != nil {
		return err
	}
	n.file, n.slots = f, max(1024, 2*n.slots)
	defer old.close()
	if err := f.Truncate((n.slots + slotsRead) * slotBytes); err != nil || old.file == nil {
		return err
	}
	in := make([]byte, 1<<16)
	for at := int64(0); ; at += int64(len(in)) {
		some, err := old.file.ReadAt(in, at)
		for slot := range some / slotBytes {
			name, note := digest(in[slot*slotBytes:]), digest(in[slot*slotBytes+digestBytes:])
			if name == (digest{}) {
				continue
			}
			if _, _, err := n.put(name, note); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// close removes the table.
func (n *nameTable) close() error {
	if n.file == nil {
		return nil
	}
	return errors.Join(n.file.Close(), os.Remove(filepath.Join(n.out.dir, filepath.Base(n.file.Name()))))
}
