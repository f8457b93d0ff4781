// Command rooms measures the structure of a checkout: lines of code by room, optional interfaces, types of one name in
// several rooms, sentences with three relative words, and, with -build, the program as `make build` builds it and the
// functions that nothing reaches. A room is one Go package; tests and generated code do not count.
//
//	go run ./internal/layers/rooms [-build] [DIR]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// most is how many lines a room may have. Kernels are long by nature.
const most = 2500

func main() {
	building := flag.Bool("build", false, "build the program, and look for functions that nothing reaches (minutes)")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := measure(os.Stdout, dir, *building); err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

// measure prints all figures of a checkout.
func measure(w io.Writer, dir string, building bool) error {
	tree, err := read(dir)
	if err != nil {
		return err
	}
	tree.print(w)
	hard, err := hardSentences(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nsentences with three relative words or more: %d\n", len(hard))
	for _, sentence := range hard {
		fmt.Fprintf(w, "        %s\n", sentence)
	}
	code, tests, err := wideLines(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nlines of more than %d columns: %d in code, %d in tests\n", mostColumns, len(code), len(tests))
	if !building {
		return nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	size, packages, err := program(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nthe program: %.1f MB, %d packages linked\n", float64(size)/1e6, packages)
	for _, b := range builds(dir) {
		found, err := unreachable(dir, b)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "functions that nothing reaches, built with %s: %d\n", b.name, len(found))
		for _, f := range found {
			fmt.Fprintf(w, "        %s\n", f)
		}
	}
	return nil
}

func (t *tree) print(w io.Writer) {
	rooms := slices.SortedFunc(maps.Keys(t.lines), func(a, b string) int {
		return cmp.Or(-cmp.Compare(t.lines[a], t.lines[b]), cmp.Compare(a, b))
	})
	total := 0
	fmt.Fprintln(w, "lines of code by room")
	for _, room := range rooms {
		total += t.lines[room]
		fmt.Fprintf(w, "%7d %s\n", t.lines[room], room)
	}
	fmt.Fprintf(w, "%7d in %d rooms\n", total, len(rooms))
	fmt.Fprintf(w, "\nrooms of more than %d lines besides kernels\n", most)
	for _, room := range rooms {
		if t.lines[room] > most && !strings.HasPrefix(room, "kernels/") {
			fmt.Fprintf(w, "%7d %s\n", t.lines[room], room)
		}
	}

	probes := t.probes()
	fmt.Fprintf(w, "\noptional interfaces: %d, probed at %d places\n", len(probes), places(probes))
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		fmt.Fprintf(w, "%7d %s: %s\n", len(probes[name]), name, strings.Join(probes[name], " "))
	}

	fmt.Fprintf(w, "\ntypes of one name in more than %d rooms, without the words of words.go\n", mostHomes)
	homonyms := t.homonyms()
	for _, name := range slices.Sorted(maps.Keys(homonyms)) {
		fmt.Fprintf(w, "%7d %s: %s\n", len(homonyms[name]), name, strings.Join(homonyms[name], " "))
	}
	fmt.Fprintf(w, "%7d names\n", len(homonyms))
}

// places counts the places of all probes.
func places(probes map[string][]string) (n int) {
	for _, at := range probes {
		n += len(at)
	}
	return n
}
