package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"latentbeam/internal/config"
	"latentbeam/internal/media/marks"
	"latentbeam/schemas/fault"
)

// maxInspected is the size limit of a media file whose marks are listed, because the whole file is read into memory.
const maxInspected = 2 << 30

// inspectMarks prints the marks of synthetic media in a file. media is false if the file is no mp4, png or jpeg.
func inspectMarks(out io.Writer, path string) (found []marks.Found, media bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, nil // inspectModel reports the error
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, nil
	}
	var head [16]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) || !marks.IsMedia(head[:n]) {
		return nil, false, nil
	}
	if info.Size() > maxInspected {
		return found, true, fault.Usage(fmt.Errorf("inspect %s: it has %s; only files of up to %s are inspected", path, config.ByteSize(info.Size()),
			config.ByteSize(maxInspected)))
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), data); err != nil {
		return found, true, fault.Usage(err)
	}
	found, damage := marks.Inspect(data)
	fmt.Fprintln(out, path)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	broken := false
	for _, m := range found {
		fmt.Fprintf(w, "  %s\t%s (in %s)\n", m.Name, oneLine(m.Value), m.Where)
		if m.Name != marks.C2PA {
			continue
		}
		says := "holds for the file"
		if m.Problem != "" {
			says, broken = "does not hold: "+m.Problem, true
		}
		fmt.Fprintf(w, "  signature\t%s\n", says)
		if m.Signer != "" {
			who := oneLine(m.Signer) + ", which nobody has checked"
			if m.SelfSigned {
				who += "; it is its own authority"
			}
			fmt.Fprintf(w, "  signed by\t%s\n", who)
		}
		switch {
		case m.StampProblem != "":
			fmt.Fprintf(w, "  time stamp\t%s\n", oneLine(m.StampProblem))
		case m.Time != "":
			fmt.Fprintf(w, "  time stamp\t%s by %s, which nobody has checked\n", m.Time, oneLine(m.StampedBy))
		}
		if m.Generator != "" {
			fmt.Fprintf(w, "  made by\t%s\n", oneLine(m.Generator))
		}
	}
	if len(found) == 0 {
		fmt.Fprintln(w, "  no marks of synthetic media were found; the file may be synthetic all the same")
	}
	if err := w.Flush(); err != nil {
		return found, true, err
	}
	switch {
	case damage != nil:
		return found, true, fault.Failures(fmt.Errorf("inspect %s: the file is damaged: %w; the part before the damage was inspected", path, damage))
	case broken:
		return found, true, fault.Failures(fmt.Errorf("inspect %s: a signature does not hold", path))
	}
	return found, true, nil
}
