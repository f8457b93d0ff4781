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

// unwrapWriter returns the writer behind a VisibleWriter, for text that controls a terminal on purpose.
func unwrapWriter(w io.Writer) io.Writer {
	if v, ok := w.(*logs.VisibleWriter); ok {
		return v.To
	}
	return w
}

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := unwrapWriter(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// hasColumns reports whether w is a terminal with a known width. Some have none, such as the terminal of script(1).
func hasColumns(w io.Writer) bool {
	if !isTerminal(w) {
		return false
	}
	width, _, err := cwriter.New(unwrapWriter(w)).GetTermSize()
	return err == nil && width > 0
}

// commandLine returns a command line that a user can paste into a shell.
func commandLine(args []string) string {
	words := []string{"latentbeam"}
	for _, a := range args[1:] {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a shell if necessary.
func shellWord(word string) string {
	plain := func(c rune) bool {
		return c < 128 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./=:,@%+", c))
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// firstOf returns the first n items. If there are more, it adds "and N more".
func firstOf(items []string, n int) []string {
	if len(items) <= n {
		return items
	}
	return append(items[:n:n], fmt.Sprintf("and %d more", len(items)-n))
}

// oneLine escapes line breaks and tabs in the text of a hub or a service, so that it cannot break a table.
func oneLine(text string) string { return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text) }

// printJSON prints v as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
