package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"latentbeam/internal/dev/browser"
)

// columns is the width of the terminal.
const columns = 120

// record runs the job in a terminal and returns what stood there in the middle of the work, and in the end.
func record(ctx context.Context, folder string) (middle, last string, err error) {
	file := filepath.Join(folder, "typescript")
	binary := filepath.Join(folder, "latentbeam")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/latentbeam").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%w: %s", err, out)
	}
	line := fmt.Sprintf("stty cols %d rows 40; %s run docs/pictures/job.yaml --output %s", columns, binary,
		filepath.Join(folder, "terminal"))
	cmd := exec.CommandContext(ctx, "script", "-q", "-f", "-c", line, file)
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		return "", "", fmt.Errorf("script (of util-linux): %w", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	frames := screens(string(data))
	clean := strings.NewReplacer(binary, "latentbeam", filepath.Join(folder, "terminal"), "out/pictures").Replace
	return clean(frames[len(frames)/2]), clean(frames[len(frames)-1]), nil
}

// movement is what progress writes beside text: so many lines up, or clear what follows.
var movement = regexp.MustCompile(`\x1b\[(\d*)([AJ])`)

// screens returns what stood in the terminal before each clearing, and in the end.
func screens(text string) (frames []string) {
	_, text, _ = strings.Cut(text, "\n") // of script
	text, _, _ = strings.Cut(text, "\nScript done")
	text = strings.ReplaceAll(text, "\r", "")
	lines := []string{""}
	put := func(part string) {
		for i, line := range strings.Split(part, "\n") {
			if i > 0 {
				lines = append(lines, "")
			}
			lines[len(lines)-1] += line
		}
	}
	at := 0
	for _, m := range movement.FindAllStringSubmatchIndex(text, -1) {
		put(text[at:m[0]])
		at = m[1]
		if text[m[4]:m[5]] == "J" {
			continue
		}
		frames = append(frames, strings.Join(lines, "\n"))
		n, _ := strconv.Atoi(text[m[2]:m[3]])
		lines = append(lines[:max(0, len(lines)-1-n)], "") // what is above stays; all below is written again
	}
	put(text[at:])
	return append(frames, strings.Join(lines, "\n"))
}

// terminal writes a page with both, and its picture.
func terminal(ctx context.Context, folder string) error {
	middle, last, err := record(ctx, folder)
	if err != nil {
		return err
	}
	page := "<meta charset=utf-8><style>" +
		"body{background:#16181d;color:#d7dae0;margin:16px;font:13px/1.45 'DejaVu Sans Mono',monospace}" +
		"pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}i{color:#7d8590;font-style:normal}" +
		"hr{border:0;border-top:1px solid #3a3f48;margin:14px 0}</style>" +
		"<pre><i>$</i> latentbeam run job.yaml\n" + html.EscapeString(strings.TrimSpace(middle)) + "</pre><hr><pre>" +
		html.EscapeString(strings.TrimSpace(last)) + "</pre>"
	if err := os.WriteFile(filepath.Join(folder, "terminal.html"), []byte(page), 0o644); err != nil {
		return err
	}
	return picture{output, "terminal", "terminal.html", browser.Window{Width: 1000, Height: 900}, ""}.capture(ctx, folder)
}
