// Package gallery writes the gallery of a run: index.html and its further pages. On them a user can watch the
// videos, filter them by prompt, and see the parameters of each.
//
// A page is one file. Styles and scripts are inlined from assets/. The page loads only the run's own
// posters and videos, by relative path, so it works from a folder as well as from a web server. It contains no
// time and no random names: equal items give equal files. A page is written while its items are read, so memory
// does not depend on the size of the run. A page contains its items as JSON (card.go) and renders only those near the
// view, in lines of equal height (assets/grid.js).
//
// This package must not read tables or files of the run (the caller passes items), use frameworks, or access the
// network.
// To show another fact about a video, add a Detail in the caller, where it makes the Item. To change the page,
// edit assets/: page.html has the markup, page.css the style, and each *.js one behaviour; the scripts share one scope.
package gallery
