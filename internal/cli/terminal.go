package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vbauerster/mpb/v8/cwriter"

	"latentbeam/internal/watch/logs"
)

// direct is what w writes to, for what controls a terminal on purpose.
func direct(w io.Writer) io.Writer {
	if v, ok := w.(*logs.VisibleWriter); ok {
		return v.To
	}
	return w
}

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := direct(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// hasColumns reports whether w is a terminal with columns; some have none, such as that of script(1).
func hasColumns(w io.Writer) bool {
	if !isTerminal(w) {
		return false
	}
	width, _, err := cwriter.New(direct(w)).GetTermSize()
	return err == nil && width > 0
}

// asTyped is the command line of a process as a person may type it again.
func asTyped(args []string) string {
	words := []string{"latentbeam"}
	for _, a := range args[1:] {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a shell where it needs that.
func shellWord(word string) string {
	plain := func(c rune) bool {
		return c < 128 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./=:,@%+", c))
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// firstOf returns the first n items, and how many more there are.
func firstOf(items []string, n int) []string {
	if len(items) <= n {
		return items
	}
	return append(items[:n:n], fmt.Sprintf("and %d more", len(items)-n))
}

// oneLine keeps text of a hub or a service in its line.
func oneLine(text string) string { return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text) }

// printJSON prints v as JSON that people can read.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
