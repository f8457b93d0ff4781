package runfiles

import (
	"context"
	"io"
)

// PageName returns the name in the output of the page about a process; process "": the only process of the job.
func (j Folder) PageName(process string) string {
	if process != "" {
		process = Process(process) + "-"
	}
	return j.name(process + "report.html")
}

// WritePage writes the page about a process.
func (j Folder) WritePage(ctx context.Context, process string, write func(io.Writer) error) error {
	return j.Store.Replace(ctx, j.PageName(process), write)
}

// LastPage is the name of the page about the last run of the whole job. Pages outside of runs/ link to it.
const LastPage = Prefix + "report.html"

// WriteLastPage writes LastPage.
func (j Folder) WriteLastPage(ctx context.Context, write func(io.Writer) error) error {
	return j.Store.Replace(ctx, LastPage, write)
}
