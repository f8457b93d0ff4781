// Package gallery writes the report a run leaves behind: index.html and its further pages, on which the
// videos can be looked at, filtered by prompt and opened with everything that made them.
//
// A page is one file: styles and scripts are inlined from assets/, nothing is fetched but the run's own
// posters and videos by relative path, so it opens from a folder as well as from a web server. It holds no
// time and no random name: equal items give equal bytes. A page is written as its items arrive, so memory
// does not depend on the size of the run. A page holds its items as JSON (card.go) and draws those near the view, in
// lines of one height (assets/grid.js).
//
// What may never enter: reading tables or files of the run (the caller brings items), frameworks, the
// network.
// To show one more fact about a video, add a Detail where the caller makes the Item; to change how the page
// behaves, edit assets/ (page.html the markup, page.css the look, *.js one behaviour a file, in one scope).
package gallery
