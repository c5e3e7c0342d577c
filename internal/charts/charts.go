// Package charts has the SVG charts and the style sheet that the live page and the report of a replay share.
package charts

import _ "embed"

// Script has the functions that draw charts. It needs nothing else and loads nothing.
//
//go:embed chart.js
var Script string

// Style is the style sheet, for light and dark screens, wide and narrow ones.
//
//go:embed style.css
var Style string

// Icon is an SVG image.
//
//go:embed icon.svg
var Icon string
