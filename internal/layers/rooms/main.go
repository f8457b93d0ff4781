// Command rooms measures the structure of a checkout: lines of code by room, optional interfaces, and types of one name
// in several rooms. A room is one Go package; tests and generated code do not count.
//
//	go run ./internal/layers/rooms [DIR]
package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// most is how many homonyms a type may have before it is listed.
const most = 2

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	tree, err := read(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
	tree.print(os.Stdout)
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

	probes := t.probes()
	fmt.Fprintf(w, "\noptional interfaces: %d, probed at %d places\n", len(probes), places(probes))
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		fmt.Fprintf(w, "%7d %s: %s\n", len(probes[name]), name, strings.Join(probes[name], " "))
	}

	fmt.Fprintf(w, "\ntypes of one name in more than %d rooms\n", most)
	for _, name := range slices.Sorted(maps.Keys(t.types)) {
		if homes := t.types[name]; len(homes) > most {
			fmt.Fprintf(w, "%7d %s: %s\n", len(homes), name, strings.Join(slices.Sorted(slices.Values(homes)), " "))
		}
	}
}

// places counts the places of all probes.
func places(probes map[string][]string) (n int) {
	for _, at := range probes {
		n += len(at)
	}
	return n
}
