package runfiles

import (
	"context"
	"io"
)

// PageName names the page about a process of the job, in the output; process is "" for the only one.
func (j Folder) PageName(process string) string {
	if process != "" {
		process = Process(process) + "-"
	}
	return j.name(process + "report.html")
}

// WritePage replaces the page about a process.
func (j Folder) WritePage(ctx context.Context, process string, write func(io.Writer) error) error {
	return j.Store.Replace(ctx, j.PageName(process), write)
}

// LastPage is the page about the last run of the whole job, where pages that outlive runs find it.
const LastPage = Prefix + "report.html"

// WriteLastPage replaces LastPage.
func (j Folder) WriteLastPage(ctx context.Context, write func(io.Writer) error) error {
	return j.Store.Replace(ctx, LastPage, write)
}
